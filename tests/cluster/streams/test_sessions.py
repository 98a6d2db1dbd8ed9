"""Sessions of the process runtime itself: what a slow or absent client does to a container, which is nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from streams_rig import LIMIT_S, Rig, rig

from jobset.cluster.runtime.port import CannotStart, ContainerId, Session
from jobset.cluster.runtime.process.node.sessions import PENDING_LIMIT_BYTES

pytestmark = pytest.mark.real_loop
MEGABYTES = 40


def container(r: Rig) -> ContainerId:
    return r.pod()["metadata"]["uid"], "main", 0


async def output_of(session: Session) -> bytes:
    async with asyncio.timeout(LIMIT_S):
        return b"".join([data async for _, data in session.output()])


async def test_a_client_that_does_not_read_does_not_hold_up_the_container(place: Path) -> None:
    async with rig(place) as r:
        bulk = f"yes 0123456789012345678901234567890123456789 | head -c {MEGABYTES << 20}"
        await r.run("sh", "-c", f"until [ -e go ]; do sleep 0.02; done; {bulk}; touch said; sleep 1; echo later")
        session = await r.runtime.attach(container(r), stdin=False, ends_stdin=False)
        (place / "go").touch()
        async with asyncio.timeout(LIMIT_S):
            while not (place / "said").exists():
                await asyncio.sleep(0.02)
        seen = await output_of(session)
        assert PENDING_LIMIT_BYTES / 2 < len(seen) < MEGABYTES << 20
        assert b"bytes are missing: read faster]\n" in seen
        assert seen.endswith(b"later\n")
        assert await session.wait() == 0
        await session.close()


async def test_clients_come_and_go(place: Path) -> None:
    async with rig(place) as r:
        await r.run("sh", "-c", "read line; echo got $line", stdin=True)
        first = await r.runtime.attach(container(r), stdin=True, ends_stdin=False)
        await first.close()  # the container's input stays open
        second = await r.runtime.attach(container(r), stdin=True, ends_stdin=False)
        await second.send_stdin(b"hello\n")
        assert await output_of(second) == b"got hello\n"
        await second.close()
        await r.wait_phase("Succeeded")
        with pytest.raises(CannotStart, match="has ended"):
            await r.runtime.attach(container(r), stdin=True, ends_stdin=False)


async def test_a_container_that_ends_ends_its_commands(place: Path) -> None:
    async with rig(place) as r:
        await r.run("sh", "-c", "until [ -e go ]; do sleep 0.02; done")
        session = await r.runtime.open_session(container(r), ["sleep", "600"], tty=False, stdin=False)
        (place / "go").touch()
        assert await output_of(session) == b""
        async with asyncio.timeout(LIMIT_S):
            assert await session.wait() == 137
        await session.close()


async def test_what_a_command_leaves_behind_does_not_keep_its_session(place: Path) -> None:
    async with rig(place) as r:
        await r.run("sleep", "600")
        argv = ["sh", "-c", "sleep 600 & echo done; exit 3"]
        session = await r.runtime.open_session(container(r), argv, tty=False, stdin=False)
        assert await output_of(session) == b"done\n"
        assert await session.wait() == 3
        await session.close()
