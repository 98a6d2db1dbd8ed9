"""Sessions of the scripted runtime, on virtual time."""

from __future__ import annotations

import pytest

from jobset.cluster.runtime.port import CannotStart, ContainerConfig, SandboxConfig
from jobset.cluster.runtime.scripted import ScriptedRuntime
from jobset.sim.loop import wall_clock


async def test_commands_repeat_what_they_are_told(tmp_path) -> None:
    runtime = ScriptedRuntime(wall_clock())
    await runtime.create_sandbox(SandboxConfig("u", "default", "p", "n", "p", "", False, tmp_path))
    with pytest.raises(CannotStart, match="has ended"):
        await runtime.attach(("u", "main", 0), stdin=False, ends_stdin=False)
    await runtime.start_container("u", ContainerConfig("main", 0, ("run",), {}, "/", tmp_path / "log"))
    printing = await runtime.open_session(("u", "main", 0), ["echo", "hi"], tty=False, stdin=False)
    assert [each async for each in printing.output()] == [(1, b"echo hi\n")]
    assert await printing.wait() == 0
    repeating = await runtime.open_session(("u", "main", 0), ["cat"], tty=True, stdin=True)
    repeating.resize(80, 24)
    await repeating.send_stdin(b"text")
    await repeating.close_stdin()
    assert [each async for each in repeating.output()] == [(1, b"text")]
    assert repeating.size == (80, 24)
    with pytest.raises(ConnectionRefusedError):
        await runtime.dial("u", 80)
