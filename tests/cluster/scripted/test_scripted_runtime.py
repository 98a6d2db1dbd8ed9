"""The scripted runtime keeps the runtime port's promises, deterministically."""

import asyncio
from pathlib import Path

import pytest

from jobset.cluster.runtime.port import CannotStart, ContainerConfig, ProbeTarget, SandboxConfig
from jobset.cluster.runtime.scripted import Behaviour, ScriptedRuntime, always, by_container
from jobset.sim.loop import wall_clock


def sandbox(uid="u"):
    return SandboxConfig(uid, "n", "p", "node", "p", "", False, Path("/none"))


def container(name="main", attempt=0):
    return ContainerConfig(name, attempt, ("run",), {}, "/", Path("/none/log"))


async def started(script=None):
    runtime = ScriptedRuntime(wall_clock(), script)
    ends = []
    runtime.on_exit = ends.append
    await runtime.create_sandbox(sandbox())
    return runtime, ends


async def test_runs_until_signalled_by_default():
    runtime, ends = await started()
    await runtime.start_container("u", container())
    await asyncio.sleep(1000)
    assert ends == [] and runtime.running() == [("u", "main", 0)]
    await runtime.signal_container(("u", "main", 0), 15)
    await runtime.signal_container(("u", "main", 0), 9)
    assert [(end.exit_code, end.reason) for end in ends] == [(143, "Error")]


async def test_kill_is_at_once():
    runtime, ends = await started(always(Behaviour(ignores_signals=True)))
    await runtime.start_container("u", container())
    await runtime.signal_container(("u", "main", 0), 15)
    await asyncio.sleep(100)
    assert ends == []
    await runtime.signal_container(("u", "main", 0), 9)
    assert [(end.exit_code, end.signal) for end in ends] == [(137, 9)]


async def test_a_script_by_container_and_attempt():
    script = by_container({"main": [Behaviour(run_s=5, exit_code=1), Behaviour(run_s=7, message="done")]})
    runtime, ends = await started(script)
    for attempt in range(3):
        await runtime.start_container("u", container(attempt=attempt))
        await asyncio.sleep(10)
    told = [(end.exit_code, (end.finished_at - end.started_at).total_seconds(), end.message) for end in ends]
    assert told == [(1, 5, ""), (0, 7, "done"), (0, 7, "done")]


async def test_every_sandbox_has_an_address_of_its_own_and_keeps_it():
    runtime, _ = await started()
    other = await runtime.create_sandbox(sandbox("v"))
    again = await runtime.create_sandbox(sandbox("u"))
    assert (again.ip, other.ip) == ("10.88.0.2", "10.88.0.3")


async def test_removal_ends_what_runs():
    runtime, ends = await started()
    await runtime.start_container("u", container())
    await runtime.remove_sandbox("u")
    await runtime.remove_sandbox("u")
    assert [end.exit_code for end in ends] == [137]
    with pytest.raises(CannotStart, match="has no sandbox"):
        await runtime.start_container("u", container())


async def test_readiness():
    runtime, _ = await started(always(Behaviour(start_delay_s=2, ready_after_s=3)))
    target = ProbeTarget("tcp", 80)
    assert await runtime.probe("u", target, 1) == (False, "connection refused")
    await runtime.start_container("u", container())
    assert (await runtime.probe("u", target, 1))[0] is False
    assert (await runtime.exec(("u", "main", 0), ["x"], 1)).exit_code == 1
    await asyncio.sleep(3)
    assert (await runtime.probe("u", target, 1))[0] is True
    assert (await runtime.exec(("u", "main", 0), ["x"], 1)).exit_code == 0


async def test_closing_leaves_nothing():
    runtime, ends = await started(always(Behaviour(run_s=10)))
    await runtime.start_container("u", container())
    await runtime.close()
    await asyncio.sleep(20)
    assert len(ends) == 1 and runtime.sandboxes == 0
