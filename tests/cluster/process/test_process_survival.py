"""Pods that outlive the program that started them: found again with all that happened, and ended without a trace."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from process_rig import Rig, processes_with, wait_none, wait_some

from jobset.cluster.runtime.port import CannotStart
from jobset.cluster.runtime.process import surviving
from jobset.cluster.runtime.process.node import door
from jobset.cluster.runtime.process.node.wire import encode
from jobset.cluster.runtime.process.runtime import Network, ProcessRuntime

pytestmark = [
    pytest.mark.real_loop,
    pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's"),
]
LIMIT_S = 20.0


def surroundings() -> tuple[str, list[str]]:
    """The host's mounts and interfaces."""
    return Path("/proc/self/mounts").read_text(), sorted(os.listdir("/sys/class/net"))


def node_process(home: Path) -> int:
    return int((home / door.LOCK).read_text())


def control_groups(pid: int) -> list[Path]:
    return [*Path("/sys/fs/cgroup").glob(f"**/jobset-{pid}")]


async def end(home: Path) -> None:
    """End the pods, and see that nothing of them is left."""
    pid = node_process(home)
    await surviving.end_pods(home)
    assert not any((home / name).exists() for name in ("node", door.SOCKET, door.LOCK))
    assert control_groups(pid) == []
    async with asyncio.timeout(LIMIT_S):
        while lives(pid):
            await asyncio.sleep(0.001)  # it has closed all it had, and is on its last instructions


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


@asynccontextmanager
async def running(directory: Path, network: Network = "host") -> AsyncIterator[Rig]:
    """A program that lets go of its pods in the end."""
    directory.mkdir(exist_ok=True)
    runtime = ProcessRuntime(directory, network=network, survives=True)
    rig = Rig(directory, runtime)
    await runtime.start()
    try:
        yield rig
    finally:
        await runtime.close()


@pytest.fixture
def home(place: Path) -> Iterator[Path]:
    """A directory whose pods end with the test, whatever becomes of it."""
    yield place / "kept"
    if (place / "kept" / door.LOCK).exists():
        asyncio.run(surviving.end_pods(place / "kept"))


async def killed_program(home: Path, network: str, marker: str) -> dict[str, str]:
    """Start survivor.py, kill it once its two pods run. The pods' addresses by name."""
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, str(Path(__file__).with_name("survivor.py")), str(home), network, marker),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=asyncio.subprocess.PIPE,
    )
    addresses = json.loads(await asyncio.wait_for(program.stdout.readline(), LIMIT_S))
    await wait_some(marker, 2)
    program.kill()
    await program.wait()
    return addresses


async def test_pods_go_on_when_their_program_is_killed(home: Path, network: Network) -> None:
    marker = f"JOBSET_TEST_{os.getpid()}_{network}_SURVIVE"
    before = surroundings()
    addresses = await killed_program(home, network, marker)
    ticking = processes_with(marker)
    (home / "go" / "now").touch()
    async with asyncio.timeout(LIMIT_S):
        while "late" not in (home / "pods/ending/logs/main/0.log").read_text():
            await asyncio.sleep(0.01)  # its supervisor writes its log, with no program there
    async with running(home, network) as r:
        assert sorted(r.runtime.found()) == ["ending", "ticking"]
        ended, living = r.runtime.adopt("ending"), r.runtime.adopt("ticking")
        assert {name: found.sandbox.ip for name, found in (("ending", ended), ("ticking", living))} == addresses
        assert living.directory == r.pod_directory("ticking")
        assert [(run.container, run.signal, run.end) for run in living.runs] == [(("ticking", "main", 0), 0, None)]
        late = ended.runs[0].end or await r.wait_exit(("ending", "main", 0))
        assert (late.exit_code, late.reason) == (7, "Error")
        assert living.runs[0].started_at <= late.finished_at
        assert set(processes_with(marker)) & set(ticking), "what runs was not started again"
        # it is a pod as any other
        size = len(r.output("ticking"))
        await r.wait_output("ticking", "tick\n" * (size // 5 + 3))
        result = await r.runtime.exec(("ticking", "main", 0), ["sh", "-c", "echo in $HOSTNAME"], 5)
        assert result.exit_code == 0
        await r.runtime.signal_container(("ticking", "main", 0), signal.SIGTERM)
        assert (await r.wait_exit(("ticking", "main", 0))).exit_code == 143
    await end(home)
    assert processes_with(marker) == []
    assert surroundings() == before


async def test_ending_needs_no_program(home: Path, network: Network) -> None:
    marker = f"JOBSET_TEST_{os.getpid()}_{network}_DOWN"
    before = surroundings()
    await killed_program(home, network, marker)
    await end(home)
    assert processes_with(marker) == []
    assert surroundings() == before
    assert "tick" in (home / "pods/ticking/logs/main/0.log").read_text(), "logs stay"
    await surviving.end_pods(home)  # there is nothing: fine
    assert sorted(path.name for path in home.iterdir()) == ["go", "node.log", "pods"]


async def test_a_stuck_node_process_is_ended_by_force(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marker = f"JOBSET_TEST_{os.getpid()}_STUCK"
    async with running(home) as r:
        await r.sandbox("a")
        await r.start("a", "sleep", "300", env={marker: "1"})
        await wait_some(marker, 1)
    os.kill(node_process(home), signal.SIGSTOP)
    monkeypatch.setattr(surviving, "END_LIMIT_S", 0.3)
    await end(home)
    await wait_none(marker)


async def test_when_the_node_process_was_killed_nothing_is_found(home: Path, network: Network) -> None:
    """As after the machine was switched off: files lie around, nothing runs."""
    marker = f"JOBSET_TEST_{os.getpid()}_{network}_REBOOT"
    await killed_program(home, network, marker)
    os.kill(node_process(home), signal.SIGKILL)
    await wait_none(marker)
    async with running(home, network) as r:
        assert r.runtime.found() == []
        assert (await r.run("fresh", "true", env={marker: "1"})).exit_code == 0
    await end(home)


async def test_one_program_at_a_time(home: Path) -> None:
    async with running(home) as r:
        await r.sandbox("a")
        container = await r.start("a", "sleep", "300")
        with pytest.raises(CannotStart, match="another program uses this cluster's directory"):
            async with running(home):
                pass
        await r.runtime.signal_container(container, signal.SIGTERM)
        assert (await r.wait_exit(container)).exit_code == 143
    await end(home)


async def test_a_program_may_be_killed_before_it_says_anything(home: Path) -> None:
    home.mkdir()
    launched = surviving.launch(home)
    launched.connection.close()
    launched.starter.wait()
    assert surviving.launch(home) is None, "there is one, which waits to be told what is wanted"
    async with running(home) as r:
        assert (await r.run("a", "true")).exit_code == 0
    await end(home)


async def test_a_start_nobody_waited_for_is_found(home: Path) -> None:
    """The program is gone between its request and the answer: the container started, or its failure is its end."""
    async with running(home) as r:
        await r.sandbox("a")
        async with asyncio.TaskGroup() as group:
            starts = [
                group.create_task(r.start("a", "sleep", "300", name="good")),
                group.create_task(r.start("a", "no-such-program", name="bad")),
            ]
            await asyncio.sleep(0)  # both are asked for
            for task in starts:
                task.cancel()
    async with running(home) as r:
        assert r.runtime.found() == ["a"]
        runs = {run.container[1]: run for run in r.runtime.adopt("a").runs}
        assert runs["good"].end is None
        failed = runs["bad"].end or await r.wait_exit(("a", "bad", 0))
        assert (failed.exit_code, failed.reason) == (127, "StartError")
        assert "no-such-program" in failed.message
    await end(home)


async def test_signals_are_remembered_and_ends_kept_until_the_pod_is_removed(home: Path) -> None:
    async with running(home) as r:
        await r.sandbox("a")
        for attempt in range(3):
            await r.wait_exit(await r.start("a", "sh", "-c", f"exit {attempt}", attempt=attempt))
        deaf = await r.start("a", "sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.1; done", name="deaf")
        await r.wait_output("a", "up", "deaf")
        await r.runtime.signal_container(deaf, signal.SIGTERM)
    for _ in range(2):  # as often as somebody asks
        async with running(home) as r:
            runs = r.runtime.adopt("a").runs
            assert [(run.container[2], run.end.exit_code) for run in runs if run.container[1] == "main"] == [
                (1, 1),
                (2, 2),
            ]
            assert [run.signal for run in runs if run.container[1] == "deaf"] == [signal.SIGTERM]
    async with running(home) as r:
        await r.runtime.remove_sandbox("a")
        assert r.runtime.found() == []
    async with running(home) as r:
        assert r.runtime.found() == []
    await end(home)


async def test_ends_before_adoption_are_part_of_what_is_found(home: Path) -> None:
    async with running(home) as r:
        await r.sandbox("a")
        container = await r.start("a", "sleep", "300")
    async with running(home) as r:
        await r.runtime.signal_container(container, signal.SIGKILL)
        async with asyncio.timeout(LIMIT_S):
            while r.runtime._found["a"].runs[0].end is None:
                await asyncio.sleep(0.005)
        assert r.exits == []
        assert r.runtime.adopt("a").runs[0].end.exit_code == 137
        assert r.runtime.adopt("a") is None
    await end(home)


async def test_names_and_addresses_stay(home: Path, network: Network) -> None:
    async with running(home, network) as r:
        first = await r.sandbox("a")
        asks = "until getent hosts b.js || grep 'b[.]js' $JOBSET_HOSTS_FILE; do sleep 0.05; done"
        await r.start("a", "sh", "-c", asks)
    async with running(home, network) as r:
        assert r.runtime.adopt("a").sandbox.ip == first
        second = await r.sandbox("b")
        assert second != first
        await r.runtime.set_names("default", {"a.js": [first], "b.js": [second]})
        assert (await r.wait_exit(("a", "main", 0))).exit_code == 0
        assert second in r.output("a")
    await end(home)


async def test_strangers_stay_outside(home: Path) -> None:
    async with running(home):
        assert (home / door.SOCKET).stat().st_mode & 0o777 == 0o600
        assert (home / door.LOCK).stat().st_mode & 0o777 == 0o600
        if os.geteuid() == 0:
            (home / door.SOCKET).chmod(0o666)  # even if somebody opened it
            assert await as_nobody(home) in (b"", b"sent away")
    await end(home)


async def as_nobody(home: Path) -> bytes:
    """What another user gets who asks for the end of everything."""
    ask = (
        "import os, socket, sys; os.setgid(65534); os.setuid(65534); s = socket.socket(socket.AF_UNIX);"
        "s.connect(sys.argv[1]); s.sendall(bytes.fromhex(sys.argv[2]));"
        "sys.stdout.buffer.write(s.recv(100) or b'sent away')"
    )
    words = [str(home / door.SOCKET), encode({"op": "end"}).hex()]
    stranger = await asyncio.create_subprocess_exec(
        sys.executable, "-S", "-c", ask, *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    said, _ = await asyncio.wait_for(stranger.communicate(), LIMIT_S)
    return said
