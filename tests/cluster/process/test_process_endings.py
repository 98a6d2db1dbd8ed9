"""What ends, when, and that nothing outlives what it belongs to."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from process_rig import processes_with, rig, wait_none, wait_some

from jobset.cluster.runtime.port import CannotStart
from jobset.cluster.runtime.process.runtime import Network

pytestmark = [
    pytest.mark.real_loop,
    pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's"),
]


async def test_sigterm_leaves_time_to_end_in_order(place: Path) -> None:
    async with rig(place) as r:
        await r.sandbox("a")
        script = "trap 'echo ending; exit 5' TERM; echo ready; while :; do sleep 0.02; done"
        container = await r.start("a", "sh", "-c", script)
        await r.wait_output("a", "ready")
        await r.runtime.signal_container(container, signal.SIGTERM)
        assert (await r.wait_exit(container)).exit_code == 5
        assert r.output("a").endswith("ending\n")
        await r.runtime.signal_container(container, signal.SIGTERM)  # ended is success


async def test_sigkill_reaches_detached_descendants(place: Path) -> None:
    marker = f"JOBSET_TEST_{os.getpid()}_KILL"
    async with rig(place) as r:
        await r.sandbox("a")
        script = "(setsid sleep 300 &) ; setsid setsid sleep 301 & trap '' TERM; echo ready; while :; do sleep 1; done"
        container = await r.start("a", "sh", "-c", script, env={marker: "1"})
        await r.wait_output("a", "ready")
        await wait_some(marker, 3)
        await r.runtime.signal_container(container, signal.SIGKILL)
        end = await r.wait_exit(container)
        assert (end.exit_code, end.signal) == (137, 9)
        await wait_none(marker)


async def test_descendants_end_with_their_container(place: Path) -> None:
    marker = f"JOBSET_TEST_{os.getpid()}_END"
    async with rig(place) as r:
        await r.run("a", "sh", "-c", "(setsid sleep 300 >/dev/null 2>&1 &); sleep 300 & exit 3", env={marker: "1"})
        assert r.exits[0].exit_code == 3
        await wait_none(marker)


async def test_no_zombies_stay_in_a_running_container(place: Path) -> None:
    async with rig(place) as r:
        script = """
        for n in 1 2 3 4 5; do (setsid sh -c 'exit 0' &); done
        until [ "$(cat /proc/[0-9]*/stat 2>/dev/null | grep -c ' Z ')" = 0 ]; do sleep 0.02; done; echo clean
        """
        assert await r.shell("a", script) == "clean\n"


async def test_a_hundred_quick_pods(place: Path, network: Network) -> None:
    async with rig(place, network) as r:
        async with asyncio.TaskGroup() as group:
            for number in range(100):
                group.create_task(r.run(f"p{number}", "sh", "-c", f"echo {number}; exit {number}"))
        assert sorted(end.exit_code for end in r.exits) == list(range(100))
        assert all(r.output(f"p{number}") == f"{number}\n" for number in range(100))
        async with asyncio.TaskGroup() as group:
            for number in range(100):
                group.create_task(r.runtime.remove_sandbox(f"p{number}"))


async def test_containers_start_side_by_side(place: Path, network: Network) -> None:
    """Eight that take half a second each take much less than four seconds together."""
    async with rig(place, network) as r:
        before = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number in range(8):
                group.create_task(r.run(f"p{number}", "sleep", "0.5"))
        assert time.monotonic() - before < 3.0


async def test_removing_a_sandbox_kills_what_runs_in_it(place: Path, network: Network) -> None:
    marker = f"JOBSET_TEST_{os.getpid()}_{network}_REMOVE"
    async with rig(place, network) as r:
        await r.sandbox("a")
        container = await r.start("a", "sh", "-c", "trap '' TERM; sleep 300 & wait", env={marker: "1"})
        await r.runtime.remove_sandbox("a")
        assert (await r.wait_exit(container)).exit_code == 137
        assert processes_with(marker) == []
        await r.runtime.remove_sandbox("a")  # unknown is success
        with pytest.raises(CannotStart, match="no sandbox"):
            await r.start("a", "true")


async def test_close_leaves_nothing(place: Path, network: Network) -> None:
    marker = f"JOBSET_TEST_{os.getpid()}_{network}_CLOSE"
    before = _surroundings()
    async with rig(place, network) as r:
        for number in range(4):
            await r.sandbox(f"p{number}")
            await r.start(f"p{number}", "sh", "-c", "(setsid sleep 300 &); sleep 300", env={marker: "1"})
        await wait_some(marker, 4)
    assert processes_with(marker) == []
    assert _surroundings() == before


def _surroundings() -> tuple[str, list[str]]:
    """The host's mounts and interfaces."""
    return Path("/proc/self/mounts").read_text(), sorted(os.listdir("/sys/class/net"))


async def test_killing_the_program_leaves_nothing(place: Path, network: Network) -> None:
    marker = f"JOBSET_TEST_{os.getpid()}_{network}_KILLED"
    before = _surroundings()
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, str(Path(__file__).with_name("victim.py")), str(place / "owned"), network, marker),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=asyncio.subprocess.PIPE,
    )
    ready = json.loads(await asyncio.wait_for(program.stdout.readline(), 20))
    assert ready == {"running": 4}
    await wait_some(marker, 4)
    program.kill()
    await program.wait()
    await wait_none(marker)
    async with asyncio.timeout(20):
        while (place / "owned").exists():
            await asyncio.sleep(0.01)
    assert _surroundings() == before


async def test_if_the_node_process_dies_every_container_is_reported(place: Path) -> None:
    marker = f"JOBSET_TEST_{os.getpid()}_NODE"
    place.mkdir(exist_ok=True)
    async with rig(place) as r:
        await r.sandbox("a")
        container = await r.start("a", "sleep", "300", env={marker: "1"})
        r.runtime._node._process.kill()
        end = await r.wait_exit(container)
        assert (end.exit_code, end.signal) == (137, 9)
        assert "node process ended" in end.message
        await wait_none(marker)
        with pytest.raises(CannotStart):
            await r.sandbox("b")
        await r.runtime.remove_sandbox("a")
