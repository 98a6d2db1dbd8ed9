"""One container: its environment, output, exit, and what is said when it cannot start."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path

import pytest
from process_rig import PATH, PYTHON, mount, rig

from jobset.cluster.runtime.port import CannotStart, ContainerConfig

pytestmark = [
    pytest.mark.real_loop,
    pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's"),
]


@pytest.mark.parametrize(
    ("script", "code", "number", "reason"),
    [
        ("exit 0", 0, 0, "Completed"),
        ("exit 7", 7, 0, "Error"),
        ("kill -TERM $$", 143, 15, "Error"),
        ("kill -KILL $$", 137, 9, "Error"),
    ],
)
async def test_exit_codes(place: Path, script: str, code: int, number: int, reason: str) -> None:
    async with rig(place) as r:
        end = await r.run("a", "sh", "-c", script)
        assert (end.exit_code, end.signal, end.reason) == (code, number, reason)
        assert end.started_at <= end.finished_at


async def test_the_termination_message_is_private_and_reported(place: Path, namespaces: None) -> None:
    async with rig(place) as r:
        await r.sandbox("a")
        script = "cat /dev/termination-log; echo why $ME > /dev/termination-log"
        for name in ("one", "two"):
            end = await r.wait_exit(await r.start("a", "sh", "-c", script, name=name, env={"ME": name}))
            assert end.message == f"why {name}\n"
            assert r.output("a", name) == ""
        end = await r.wait_exit(
            await r.start("a", "sh", "-c", "head -c 9000 /dev/zero | tr '\\0' x > /message", name="long", **MESSAGE)
        )
        assert end.message == "x" * 4096
        assert not Path("/message").exists()


MESSAGE = {"termination_message_path": "/message"}


async def test_logs_have_the_cri_format(place: Path) -> None:
    async with rig(place) as r:
        await r.run("a", "sh", "-c", "echo out; echo err >&2; head -c 40000 /dev/zero | tr '\\0' y; echo; printf last")
        raw = r.log_path("a").read_bytes().splitlines()
        fields = [line.split(b" ", 3) for line in raw]
        assert all(len(moment) == 30 and moment.endswith(b"Z") for moment, *_ in fields)
        assert [b"stderr", b"F", b"err"] in [rest for _, *rest in fields]
        out = [(flag, text) for _, stream, flag, text in fields if stream == b"stdout"]
        assert out[0] == (b"F", b"out")
        assert [(flag, len(text)) for flag, text in out[1:4]] == [(b"P", 16384), (b"P", 16384), (b"F", 40000 - 32768)]
        assert out[4] == (b"F", b"last")


async def test_logs_of_two_attempts_are_two_files(place: Path) -> None:
    async with rig(place) as r:
        await r.sandbox("a")
        for attempt in range(2):
            await r.wait_exit(await r.start("a", "echo", f"attempt {attempt}", attempt=attempt))
        assert [r.output("a", attempt=attempt) for attempt in range(2)] == ["attempt 0\n", "attempt 1\n"]


OF_THE_SHELL = ("PWD=", "_=", "SHLVL=", "OLDPWD=", "JOBSET_HOSTS_FILE=")  # the last only where namespaces are missing


async def test_the_environment_is_exactly_what_was_given(place: Path) -> None:
    async with rig(place) as r:
        printed = await r.shell("a", "env", env={"GREETING": "grüß dich", "EMPTY": ""})
        given = {line for line in printed.splitlines() if not line.startswith(OF_THE_SHELL)}
        assert given == {"GREETING=grüß dich", "EMPTY=", "HOSTNAME=a", f"PATH={PATH}"}


async def test_working_directory_and_path_lookup(place: Path) -> None:
    tool = place / "bin" / "only-here"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\npwd\n")
    tool.chmod(0o755)
    async with rig(place / "run") as r:
        await r.run("a", "only-here", working_dir=str(tool.parent), env={"PATH": f"{tool.parent}:{PATH}"})
        assert r.output("a") == f"{tool.parent}\n"


@pytest.mark.parametrize(
    ("argv", "more", "code", "says"),
    [
        (["no-such-tool"], {}, 127, "executable 'no-such-tool' is not in PATH"),
        (["/no/such/tool"], {}, 127, "executable '/no/such/tool' does not exist"),
        (["/etc/passwd"], {}, 126, "chmod +x"),
        (["true"], {"working_dir": "/no/such/place"}, 127, "working directory /no/such/place"),
        ([], {}, 127, "no command"),
    ],
)
async def test_what_cannot_start_says_what_to_change(
    place: Path, argv: list[str], more: dict[str, str], code: int, says: str
) -> None:
    async with rig(place) as r:
        await r.sandbox("a")
        with pytest.raises(CannotStart, match=says.replace("+", r"\+")) as caught:
            await r.start("a", *argv, **more)
        assert (caught.value.exit_code, caught.value.reason) == (code, "StartError")
        assert r.exits == []
        assert (await r.wait_exit(await r.start("a", "true"))).exit_code == 0


async def test_a_script_without_interpreter_cannot_start(place: Path) -> None:
    script = place / "script"
    script.write_text("echo hello")
    script.chmod(0o755)
    async with rig(place / "run") as r:
        await r.sandbox("a")
        with pytest.raises(CannotStart, match="begins with #!") as caught:
            await r.start("a", str(script))
        assert caught.value.exit_code == 126


async def test_exec_sees_what_the_container_sees(place: Path, namespaces: None) -> None:
    async with rig(place) as r:
        await r.sandbox("a")
        volume = r.volume("v", f="text")
        container = await r.start("a", "sleep", "60", env={"ME": "x"}, mounts=mount(volume, "/vol"))
        result = await r.runtime.exec(container, ["sh", "-c", "cat /vol/f; echo $ME $(hostname) >&2; exit 4"], 5)
        assert (result.exit_code, result.output) == (4, "textx a\n")
        assert (await r.runtime.exec(container, ["no-such"], 5)).exit_code == 127
        before = time.monotonic()
        slow = await r.runtime.exec(container, ["sh", "-c", "echo begun; sleep 60"], 1.0)
        assert (slow.exit_code, slow.output) == (124, "begun\n")
        assert time.monotonic() - before < 5
        both = await asyncio.gather(*(r.runtime.exec(container, ["echo", str(n)], 5) for n in range(10)))
        assert [result.output for result in both] == [f"{n}\n" for n in range(10)]


async def test_exec_fails_in_a_container_that_ended(place: Path) -> None:
    async with rig(place) as r:
        await r.run("a", "true")
        result = await r.runtime.exec(("a", "main", 0), ["true"], 5)
        assert (result.exit_code, result.output) == (128, "the container has ended")


async def test_standard_input_and_terminal(place: Path) -> None:
    async with rig(place) as r:
        assert (await r.run("a", "cat")).exit_code == 0  # no standard input: it ends at once
        assert await r.shell("b", "tty >/dev/null && test -t 1 && echo terminal", tty=True) == "terminal\n"
        await r.sandbox("c")
        open_input = await r.start("c", "cat", stdin=True)
        await r.runtime.signal_container(open_input, signal.SIGTERM)
        assert (await r.wait_exit(open_input)).exit_code == 143


EAT = "import time; x = bytearray(300 << 20); x[::4096] = b'x' * len(x[::4096]); print('ate'); time.sleep(30)"


async def test_a_container_over_its_memory_limit_is_killed(place: Path) -> None:
    async with rig(place) as r:
        end = await r.run("a", PYTHON, "-S", "-c", EAT, memory_limit_bytes=100 << 20)
        assert (end.exit_code, end.reason) == (137, "OOMKilled")
        assert (await r.run("b", PYTHON, "-S", "-c", "print('small')", memory_limit_bytes=100 << 20)).exit_code == 0


async def test_one_name_runs_once(place: Path) -> None:
    async with rig(place) as r:
        await r.sandbox("a")
        await r.start("a", "sleep", "60")
        with pytest.raises(CannotStart, match="running already"):
            await r.runtime.start_container("a", ContainerConfig("main", 0, ("true",), {}, "/", r.log_path("a")))
        with pytest.raises(CannotStart, match="already"):
            await r.sandbox("a")
