"""Requests for streams that no kubectl makes, and what is refused: choice of container, options, protocols."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from streams_rig import AUTHORITY, LIMIT_S, PYTHON, TOKEN, Rig, rig

from jobset.api.errors import ApiError
from jobset.api.meta import Object
from jobset.cluster.apiserver.http.streams.channels import terminal_size
from jobset.cluster.apiserver.http.streams.port import LogOptions
from jobset.cluster.apiserver.http.streams.queries import command_options, log_options
from jobset.cluster.apiserver.http.streams.targets import choose_container, require_running

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def pod(*names: str, init: tuple[str, ...] = ()) -> Object:
    spec: Object = {"containers": [{"name": name} for name in names]}
    if init:
        spec["initContainers"] = [{"name": name} for name in init]
    return {"metadata": {"name": "p"}, "spec": spec}


@pytest.mark.parametrize(
    ("given", "requested", "expected"),
    [
        (pod("a"), "", "a"),
        (pod("a", init=("b",)), "", "a"),
        (pod("a", "b", init=("c",)), "c", "c"),
        (pod("a", "b"), "", "a container name must be specified for pod p, choose one of: [a b]"),
        (
            pod("a", "b", init=("c",)),
            "",
            "a container name must be specified for pod p, choose one of: [a b] or one of the init containers: [c]",
        ),
        (pod("a"), "zz", "container zz is not valid for pod p"),
    ],
)
def test_choice_of_the_container(given: Object, requested: str, expected: str) -> None:
    try:
        assert choose_container(given, requested) == expected
    except ApiError as error:
        assert (error.code, error.message) == (400, expected)


def test_only_what_runs_can_be_talked_to() -> None:
    running = {**pod("a"), "status": {"containerStatuses": [{"name": "a", "state": {"running": {}}}]}}
    require_running(running, "a")
    for state in ({"waiting": {}}, {"terminated": {}}):
        ended = {**pod("a"), "status": {"containerStatuses": [{"name": "a", "state": state}]}}
        with pytest.raises(ApiError, match=r'container not found \("a"\)'):
            require_running(ended, "a")
    with pytest.raises(ApiError, match="container not found"):
        require_running(pod("a"), "a")


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ({"tailLines": ["-1"]}, 422, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ({"limitBytes": ["0"]}, 422, "limitBytes: Invalid value: 0: must be greater than 0"),
        ({"sinceSeconds": ["0"]}, 422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
        ({"sinceSeconds": ["1"], "sinceTime": ["2026-01-01T00:00:00Z"]}, 422, "at most one of"),
        ({"tailLines": ["x"]}, 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ({"sinceTime": ["x"]}, 400, 'parsing time "x"'),
    ],
)
def test_log_options_that_are_refused(query: dict[str, list[str]], code: int, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        log_options(query, "p", NOW)
    assert caught.value.code == code
    assert message in caught.value.message
    if code == 422:
        assert caught.value.message.startswith('PodLogOptions "p" is invalid: ')


def test_log_options() -> None:
    assert log_options({}, "p", NOW) == LogOptions()
    query = {"follow": ["true"], "previous": [""], "timestamps": ["0"], "tailLines": ["5"], "sinceSeconds": ["60"]}
    since = NOW - timedelta(seconds=60)
    assert log_options(query, "p", NOW) == LogOptions(follow=True, previous=True, tail_lines=5, since=since)


def test_a_terminal_has_one_output() -> None:
    options = command_options({"stdout": ["1"], "stderr": ["1"], "tty": ["1"]})
    assert options.stdout and not options.stderr
    with pytest.raises(ApiError, match="at least 1 of stdin, stdout, stderr"):
        command_options({"tty": ["1"]})


@pytest.mark.parametrize(
    ("message", "size"),
    [
        (b'{"Width":80,"Height":24}', (80, 24)),
        (b'{"Width":80}', None),
        (b'{"Width":0,"Height":99999999}', None),
        (b"[]", None),
        (b"nonsense", None),
    ],
)
def test_sizes_of_terminals(message: bytes, size: tuple[int, int] | None) -> None:
    assert terminal_size(message) == size


# -- over the wire ----------------------------------------------------------------------------------------------------


class Web:
    """An HTTP client of the rig's server."""

    def __init__(self, r: Rig, session: aiohttp.ClientSession) -> None:
        self._pods = f"{r.url}/api/v1/namespaces/default/pods"
        self.session = session

    def url(self, path: str) -> str:
        return f"{self._pods}/{path}"

    async def get(self, path: str) -> tuple[int, Any]:
        async with self.session.get(self.url(path)) as answer:
            body = await answer.read()
            return answer.status, json.loads(body) if answer.content_type == "application/json" else body

    def exec(self, *words: str, protocol: str = "v4.channel.k8s.io", streams: str = "stdout=1") -> Any:
        command = "&".join(f"command={word}" for word in words)
        return self.session.ws_connect(self.url(f"p/exec?{command}&{streams}"), protocols=[protocol])


@asynccontextmanager
async def web_client(r: Rig) -> AsyncIterator[Web]:
    trusted = ssl.create_default_context(cafile=str(r.root / AUTHORITY))
    connector = aiohttp.TCPConnector(ssl=trusted)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with asyncio.timeout(LIMIT_S), aiohttp.ClientSession(connector=connector, headers=headers) as session:
        yield Web(r, session)


@pytest.mark.real_loop
async def test_answers_before_any_stream(place: Path) -> None:
    async with rig(place) as r, web_client(r) as web:
        await r.create({"nodeName": "", "containers": [{"name": "a", "image": "i"}]}, "unbound")
        assert (await web.get("unbound/log"))[0] == 204
        status, body = await web.get("unbound/log?container=zz")
        assert (status, body["message"]) == (400, "container zz is not valid for pod unbound")
        assert (await web.get("none/log"))[1]["reason"] == "NotFound"
        status, body = await web.get("unbound/exec?command=ls&stdout=1")
        assert (status, body["message"]) == (400, "pod unbound does not have a host assigned")
        assert (await web.get("unbound/portforward"))[0] == 400
        await r.run("sleep", "600")
        for path in ("p/exec?command=ls&stdout=1", "p/attach?stdout=1", "p/portforward"):
            status, body = await web.get(path)
            assert (status, body["message"]) == (400, "Upgrade request required")
        assert (await web.get("p/exec?stdout=1"))[0] == 400
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await web.exec("ls", protocol="base64.channel.k8s.io")
        assert refused.value.status == 400
        spdy = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v9"}
        async with web.session.post(web.url("p/exec?command=ls&stdout=1"), headers=spdy) as answer:
            assert answer.status == 403


@pytest.mark.real_loop
async def test_waiting_containers_have_no_log(place: Path) -> None:
    async with rig(place) as r, web_client(r) as web:
        blocked = {"name": "main", "image": "i", "command": ["true"]}
        first = {"name": "first", "image": "i", "command": ["sleep", "600"]}
        await r.create({"containers": [blocked], "initContainers": [first]})
        await r.wait(lambda pod: (pod.get("status") or {}).get("initContainerStatuses"))
        await r.wait(lambda pod: "running" in pod["status"]["initContainerStatuses"][0]["state"])
        status, body = await web.get("p/log?container=main")
        expected = 'container "main" in pod "p" is waiting to start: PodInitializing'
        assert (status, body["reason"], body["message"]) == (400, "BadRequest", expected)


@pytest.mark.real_loop
async def test_version_four_of_the_channels(place: Path) -> None:
    async with rig(place) as r, web_client(r) as web:
        await r.run("sleep", "600")
        async with web.exec("sh", "-c", "read line; echo got $line; exit 2", streams="stdin=1&stdout=1") as client:
            await client.send_bytes(b"\x00hello\n")
            assert (await client.receive()).data == b"\x01got hello\n"
            message = await client.receive()
            assert message.data[0] == 3
            status = json.loads(message.data[1:])
            assert status["reason"] == "NonZeroExitCode"
            assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "2"}]
            assert (await client.receive()).type is aiohttp.WSMsgType.CLOSE


PRODUCER = """
import os, sys
written = 0
while written < 60_000_000:
    written += os.write(1, bytes(65536))
    open("written", "w").write(str(written))
"""


@pytest.mark.real_loop
async def test_a_client_that_does_not_read_holds_the_command(place: Path) -> None:
    async with rig(place) as r, web_client(r) as web:
        await r.run("sleep", "600")
        (place / "producer.py").write_text(PRODUCER)
        async with web.exec(PYTHON, "producer.py") as client:
            before = -1
            while (now := written(place)) != before or now == 0:
                before = now
                await asyncio.sleep(0.3)
            assert now < 20_000_000
            read = 0
            while (message := await client.receive()).data[0] == 1:
                read += len(message.data) - 1
            assert read == 60_030_976  # whole pieces of 64 KiB
            assert json.loads(message.data[1:])["status"] == "Success"


def written(place: Path) -> int:
    try:
        return int((place / "written").read_text() or 0)
    except FileNotFoundError:
        return 0


@pytest.mark.real_loop
async def test_a_log_follower_that_leaves_is_let_go(place: Path) -> None:
    async with rig(place) as r, web_client(r) as web:
        await r.run("sleep", "600")
        tasks = len(asyncio.all_tasks())
        async with web.session.get(web.url("p/log?follow=true")) as answer:
            assert answer.status == 200
            assert len(asyncio.all_tasks()) > tasks
        while len(asyncio.all_tasks()) > tasks:
            await asyncio.sleep(0.05)
