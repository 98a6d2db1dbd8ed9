"""How one container is stopped: preStop hook, its turn, its stop signal, and at the end of its grace SIGKILL. Pure.

The hook and the wait for other containers use up grace; whoever lost time to them still gets `LAST_WINDOW_S` between
signal and kill. Without any grace there is no hook and no signal but SIGKILL.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from jobset.cluster.model.pod_lifecycle.spec import ContainerSpec
from jobset.cluster.model.pod_lifecycle.state import Phase, RunHook, SignalContainer, Stop, StopStep
from jobset.cluster.model.pod_lifecycle.turn import Turn

SIGKILL = 9
LAST_WINDOW_S = 2.0
STOPPABLE = frozenset({Phase.POST_START, Phase.RUNNING})


def stop(turn: Turn, spec: ContainerSpec, grace_s: float, *, for_probe: bool = False) -> None:
    """Begin to stop a container that runs. One that is already stopping is left to go on."""
    container = turn[spec.name]
    if container.phase not in STOPPABLE:
        return
    kill_at = turn.after(max(grace_s, 0))
    step = StopStep.PRE_STOP if spec.pre_stop else StopStep.TURN
    turn.update(spec.name, phase=Phase.STOPPING, stop=Stop(step, kill_at, for_probe), probes=())
    if grace_s <= 0:
        kill(turn, spec)
    elif spec.pre_stop:
        turn.emit(RunHook(spec.name, container.attempt, "preStop", spec.pre_stop, grace_s))


def kill(turn: Turn, spec: ContainerSpec) -> None:
    """SIGKILL, once, to a container that runs or is stopping."""
    container = turn[spec.name]
    if container.phase in STOPPABLE:
        container = turn.update(spec.name, phase=Phase.STOPPING, stop=Stop(StopStep.TURN, turn.now), probes=())
    if container.stop is None or container.stop.step is StopStep.KILLED:
        return
    turn.update(spec.name, stop=msgspec.structs.replace(container.stop, step=StopStep.KILLED))
    turn.emit(SignalContainer(spec.name, container.attempt, SIGKILL))


def proceed(turn: Turn, spec: ContainerSpec, *, may_signal: bool = True) -> None:
    """Take a stopping container as far as the time allows. `may_signal` False: others must end before it."""
    container = turn[spec.name]
    if container.phase is not Phase.STOPPING or container.stop is None:
        return
    current = container.stop
    out_of_time = turn.now >= current.kill_at
    if current.step is StopStep.SIGNALLED and out_of_time:
        kill(turn, spec)
    elif (current.step is StopStep.TURN and (may_signal or out_of_time)) or (
        current.step is StopStep.PRE_STOP and out_of_time
    ):
        lost_time = current.step is StopStep.PRE_STOP or spec.pre_stop is not None or out_of_time
        kill_at = max(current.kill_at, turn.after(LAST_WINDOW_S)) if lost_time else current.kill_at
        turn.update(spec.name, stop=msgspec.structs.replace(current, step=StopStep.SIGNALLED, kill_at=kill_at))
        turn.emit(SignalContainer(spec.name, container.attempt, spec.stop_signal))


def shorten(turn: Turn, spec: ContainerSpec, kill_at: datetime) -> None:
    """A stopping container has only until `kill_at` from now on; at once means without another signal."""
    container = turn[spec.name]
    if container.phase is not Phase.STOPPING or container.stop is None:
        return
    if kill_at <= turn.now:
        kill(turn, spec)
    elif kill_at < container.stop.kill_at:
        turn.update(spec.name, stop=msgspec.structs.replace(container.stop, kill_at=kill_at))
