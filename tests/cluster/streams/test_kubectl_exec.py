"""exec, cp and attach as people use them: the real kubectl, real processes, both protocols."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from streams_rig import LIMIT_S, rig
from streams_terminal import on_terminal

from jobset.cluster.apiserver.http.streams import spdy_session, websocket

pytestmark = pytest.mark.real_loop
Environment = Mapping[str, str]

SLEEP = ("sh", "-c", "exec sleep 600")


async def wait_processes(command_line: str) -> list[int]:
    async with asyncio.timeout(LIMIT_S):
        while not (found := processes(command_line)):
            await asyncio.sleep(0.01)
    return found


async def wait_gone(pid: int) -> None:
    async with asyncio.timeout(LIMIT_S):
        while Path(f"/proc/{pid}").exists():
            await asyncio.sleep(0.01)


async def test_output_exit_code_and_environment(place: Path, protocol: Environment) -> None:
    async with rig(place) as r:
        await r.run(*SLEEP, env=[{"name": "ME", "value": "here"}])
        script = "echo out $ME; echo err >&2; exit 3"
        answer = await r.kubectl("exec", "p", "--", "sh", "-c", script, env=protocol)
        assert (answer.code, answer.text) == (3, "out here\n")
        assert answer.err == "err\ncommand terminated with exit code 3\n"
        assert (await r.kubectl("exec", "p", "--", "true", env=protocol)).code == 0
        assert (await r.kubectl("exec", "p", "--", "sh", "-c", "kill -9 $$", env=protocol)).code == 137


async def test_standard_input_is_passed_and_ends(place: Path, protocol: Environment) -> None:
    async with rig(place) as r:
        await r.run(*SLEEP)
        data = os.urandom(3_000_000)
        answer = await r.kubectl("exec", "-i", "p", "--", "cat", stdin=data, env=protocol)
        assert answer.out == data and answer.err == ""
        answer = await r.kubectl("exec", "-i", "p", "--", "true", stdin=data, env=protocol)
        assert answer.code == 0  # a command need not read what it is given
        script = "exec >&- 2>&-; cat >input; exit 7"
        answer = await r.kubectl("exec", "-i", "p", "--", "sh", "-c", script, stdin=data, env=protocol)
        assert answer.code == 7 and (place / "input").read_bytes() == data


async def test_a_hundred_megabytes(place: Path, protocol: Environment) -> None:
    async with rig(place) as r:
        await r.run(*SLEEP)
        command = ("head", "-c", "100000000", "/dev/zero")
        answer = await r.kubectl("exec", "p", "--", *command, env=protocol)
        assert (answer.code, len(answer.out)) == (0, 100_000_000)


async def test_what_cannot_be_executed(place: Path, protocol: Environment) -> None:
    async with rig(place) as r:
        await r.run(*SLEEP)
        answer = await r.kubectl("exec", "p", "--", "no-such", env=protocol)
        assert answer.code == 1
        assert 'exec: "no-such": executable file not found in $PATH' in answer.err
        answer = await r.kubectl("exec", "p", "-c", "other", "--", "true", env=protocol)
        assert "container other is not valid for pod p" in answer.err
        await r.create({"containers": [{"name": "a", "image": "i", "command": ["no-such"]}]}, "waits")
        await r.wait(lambda pod: (pod.get("status") or {}).get("containerStatuses"), "waits")
        answer = await r.kubectl("exec", "waits", "--", "true", env=protocol)
        assert answer.code == 1 and ("container not found" in answer.err or "completed pod" in answer.err)


async def test_a_shell_on_a_terminal(place: Path, protocol: Environment) -> None:
    async with rig(place) as r:
        await r.run(*SLEEP)
        async with on_terminal(r, "exec", "-it", "p", "--", "sh", env=protocol) as terminal:
            terminal.type(f"tty; {until_size('24 80')}; echo TERM=$TERM\n")
            await terminal.wait_shown("/dev/pts/")
            await terminal.wait_shown("TERM=xterm")
            (place / "watch.sh").write_text(f"trap 'echo signalled' WINCH; echo ready; {until_size('40 100')}")
            terminal.type("sh watch.sh\n")
            await terminal.wait_shown("ready")
            terminal.resize(100, 40)
            await terminal.wait_shown("signalled")
            # what is typed is shown as well: the quotes tell it from what is printed
            terminal.type("echo go''ing; sleep 600\n")
            await terminal.wait_shown("going")
            terminal.type("\x03")  # Ctrl-C interrupts what runs in the shell, not the shell
            terminal.type("echo code=$?; exit 5\n")
            await terminal.wait_shown("code=130")
            assert await terminal.wait_exit() == 5


def until_size(size: str) -> str:
    return f'until [ "$(stty size)" = "{size}" ]; do sleep 0.02; done'


async def test_a_command_ends_with_its_client(place: Path, protocol: Environment) -> None:
    async with rig(place) as r:
        await r.run(*SLEEP)
        script = "sleep 601 & echo up; wait"
        words = ("exec", "-i", "p", "--", "sh", "-c", script)
        async with r.started(*words, env=protocol, stdin=True) as client:
            assert client.stdout is not None
            assert await client.stdout.readline() == b"up\n"
            sleeping = await wait_processes("sleep\x00601")
        for pid in sleeping:
            await wait_gone(pid)


async def test_a_client_that_leaves_while_nobody_reads_its_input(
    place: Path, protocol: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (websocket, spdy_session):
        monkeypatch.setattr(module, "PING_EVERY_S", 0.2)
    async with rig(place) as r:
        await r.run(*SLEEP)
        async with r.started("exec", "-i", "p", "--", "sleep", "602", env=protocol, stdin=True) as client:
            assert client.stdin is not None
            sleeping = await wait_processes("sleep\x00602")
            try:
                async with asyncio.timeout(1):
                    while True:  # fills every buffer on the way
                        client.stdin.write(bytes(1 << 20))
                        await client.stdin.drain()
            except TimeoutError:
                pass
        for pid in sleeping:
            await wait_gone(pid)


async def test_copy_there_and_back(place: Path, protocol: Environment) -> None:
    async with rig(place) as r:
        await r.run(*SLEEP)
        source = place / "source"
        source.mkdir()
        (source / "big").write_bytes(os.urandom(5_000_000))
        (source / "small").write_text("text")
        answer = await r.kubectl("cp", str(source), f"p:{place}/there", env=protocol)
        assert answer.code == 0, answer.err
        answer = await r.kubectl("cp", f"p:{place}/there", str(place / "back"), env=protocol)
        assert answer.code == 0, answer.err
        for name in ("big", "small"):
            assert (place / "back" / name).read_bytes() == (source / name).read_bytes()


async def test_attach_to_a_terminal(place: Path, protocol: Environment) -> None:
    async with rig(place) as r:
        await r.run("sh", stdin=True, tty=True)
        async with on_terminal(r, "attach", "-it", "p", env=protocol) as terminal:
            await terminal.wait_shown("pressing enter")
            terminal.type(f"{until_size('24 80')}; echo $((6*7))\n")
            await terminal.wait_shown("42")
            terminal.type("exit 4\n")
            assert await terminal.wait_exit() == 0
        await r.wait_phase("Failed")
        assert r.pod()["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 4


REPEAT = "while read -r line; do echo got $line; echo err $line >&2; done; echo over"


async def test_attach_with_input_that_ends(place: Path, protocol: Environment) -> None:
    async with rig(place) as r:
        await r.run("sh", "-c", REPEAT, stdin=True, stdinOnce=True)
        answer = await r.kubectl("attach", "-i", "p", stdin=b"one\ntwo\n", env=protocol)
        assert answer.code == 0
        assert re.sub(r".*enter\.\n", "", answer.text) == "got one\ngot two\nover\n"
        assert "err one\nerr two\n" in answer.err
        await r.wait_phase("Succeeded")


async def test_many_see_what_one_container_says(place: Path, protocol: Environment) -> None:
    async with rig(place) as r, contextlib.AsyncExitStack() as stack:
        await r.run("sh", "-c", "until [ -e go ]; do echo waits; sleep 0.05; done; seq 1 20000")
        clients = [await stack.enter_async_context(r.started("attach", "p", env=protocol)) for _ in range(4)]
        for client in clients:
            assert client.stdout is not None
            while await client.stdout.readline() != b"waits\n":
                pass
        (place / "go").touch()
        expected = "".join(f"{number}\n" for number in range(1, 20001)).encode()
        for client in clients:
            assert (await client.communicate())[0].endswith(expected)
            assert client.returncode == 0


def processes(command_line: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cmdline").read_text().startswith(command_line):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
