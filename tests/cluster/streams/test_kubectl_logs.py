"""kubectl logs on real containers: what is shown, from where, until when, and what is refused how."""

from __future__ import annotations

import asyncio
import contextlib
import re
from pathlib import Path

import pytest
from streams_rig import LIMIT_S, rig

from jobset.api.resources import PODS

pytestmark = [pytest.mark.real_loop, pytest.mark.usefixtures("kubectl")]

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z"


async def test_both_streams_and_the_end(place: Path) -> None:
    async with rig(place) as r:
        await r.run("sh", "-c", "seq 1 5; echo err >&2; printf open; exec sleep 600")
        expected = "1\n2\n3\n4\n5\nerr\n"
        assert (await r.kubectl("logs", "p")).text == expected
        assert (await r.kubectl("logs", "p", "--tail=2")).text == "5\nerr\n"
        assert (await r.kubectl("logs", "p", "--tail=0")).text == ""
        assert (await r.kubectl("logs", "p", "--tail=100")).text == expected
        assert (await r.kubectl("logs", "p", "--limit-bytes=5")).text == "1\n2\n3"
        stamped = (await r.kubectl("logs", "p", "--timestamps", "--tail=1")).text
        assert re.fullmatch(f"{TIME} err\n", stamped)


async def test_since(place: Path) -> None:
    async with rig(place) as r:
        await r.run("sh", "-c", "echo old; sleep 2.5; echo new; exec sleep 600")
        async with asyncio.timeout(LIMIT_S):
            while "new" not in (await r.kubectl("logs", "p")).text:
                await asyncio.sleep(0.1)
        assert (await r.kubectl("logs", "p", "--since=1s")).text == "new\n"
        assert (await r.kubectl("logs", "p", "--since=1h")).text == "old\nnew\n"
        first = (await r.kubectl("logs", "p", "--timestamps")).text.split("\n")[1].split(" ")[0]
        assert (await r.kubectl("logs", "p", f"--since-time={first}")).text == "new\n"


async def test_following_ends_with_the_container(place: Path) -> None:
    async with rig(place) as r:
        await r.run("sh", "-c", "echo begun; until [ -e go ]; do sleep 0.02; done; seq 1 3; printf last")
        async with r.started("logs", "-f", "p") as client:
            assert client.stdout is not None
            assert await client.stdout.readline() == b"begun\n"
            (place / "go").touch()
            async with asyncio.timeout(LIMIT_S):
                out, _ = await client.communicate()
        assert (client.returncode, out) == (0, b"1\n2\n3\nlast\n")
        again = await r.kubectl("logs", "-f", "p")
        assert again.text == "begun\n1\n2\n3\nlast\n"  # of what has ended, all there is


async def test_previous_and_the_one_now(place: Path) -> None:
    async with rig(place) as r:
        command = ["sh", "-c", "echo run; [ -e again ] && exec sleep 600; touch again; exit 1"]
        spec = {"restartPolicy": "Always", "containers": [{"name": "main", "image": "i", "command": command}]}
        await r.create(spec)
        await r.wait(lambda pod: ((pod.get("status") or {}).get("containerStatuses") or [{}])[0].get("restartCount"))
        previous = await r.kubectl("logs", "p", "--previous", "--timestamps")
        now = await r.kubectl("logs", "p", "--timestamps")
        assert previous.text.endswith(" run\n") and now.text.endswith(" run\n")
        assert previous.text < now.text


async def test_whose_log(place: Path) -> None:
    async with rig(place) as r:
        two = [{"name": n, "image": "i", "command": ["sh", "-c", f"echo {n}; exec sleep 600"]} for n in ("a", "b")]
        first = {"name": "first", "image": "i", "command": ["echo", "first"]}
        await r.create({"containers": two, "initContainers": [first]})
        await r.wait_phase("Running")
        for name in ("a", "b", "first"):
            assert (await r.kubectl("logs", "p", "-c", name)).text == f"{name}\n"
        answer = await r.kubectl("logs", "p", "-c", "zz")
        assert answer.err == "error: container zz is not valid for pod p\n"
        answer = await r.kubectl("logs", "p", "-c", "a", "--previous")
        expected = 'previous terminated container "a" in pod "p" not found'
        assert answer.err == f"Error from server (BadRequest): {expected}\n"


async def test_many_followers_see_the_same(place: Path) -> None:
    async with rig(place) as r, contextlib.AsyncExitStack() as stack:
        await r.run("sh", "-c", "echo begun; until [ -e go ]; do sleep 0.02; done; seq 1 50000")
        followers = [await stack.enter_async_context(r.started("logs", "-f", "p")) for _ in range(8)]
        for follower in followers:
            assert follower.stdout is not None
            assert await follower.stdout.readline() == b"begun\n"
        (place / "go").touch()
        expected = "".join(f"{number}\n" for number in range(1, 50001)).encode()
        async with asyncio.timeout(LIMIT_S):
            outputs = await asyncio.gather(*(follower.communicate() for follower in followers))
        assert [out for out, _ in outputs] == [expected] * len(followers)


async def test_following_ends_when_the_pod_is_deleted(place: Path) -> None:
    async with rig(place) as r:
        await r.run("sh", "-c", "echo begun; exec sleep 600")
        async with r.started("logs", "-f", "p") as client:
            assert client.stdout is not None
            assert await client.stdout.readline() == b"begun\n"
            r.service.delete(PODS, "default", "p")
            async with asyncio.timeout(LIMIT_S):
                assert await client.wait() == 0
