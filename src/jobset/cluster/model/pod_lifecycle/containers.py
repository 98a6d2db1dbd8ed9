"""What each report about one container does to it: the handlers of the table in machine.py. Pure.

They record facts. What follows for the pod (what to start, what to stop, whether it is over) is decided afterwards, for
the pod as a whole, in course.py; the one exception is a container's own restart, which its end alone decides.
"""

from __future__ import annotations

from jobset.cluster.model.pod_lifecycle import probing
from jobset.cluster.model.pod_lifecycle.restarting import go_duration, not_before, restart_action
from jobset.cluster.model.pod_lifecycle.spec import ContainerSpec
from jobset.cluster.model.pod_lifecycle.state import (
    Container,
    End,
    Exited,
    HookDone,
    Notice,
    Phase,
    RunHook,
    Stage,
    Started,
    StartFailed,
    StopStep,
)
from jobset.cluster.model.pod_lifecycle.stopping import stop
from jobset.cluster.model.pod_lifecycle.turn import Turn

POST_START_LIMIT_S = 3600.0
CONFIG_RETRY_S = 2.0


def started(turn: Turn, spec: ContainerSpec, container: Container, event: Started) -> None:
    turn.emit(Notice("Normal", "Created", f"Created container {spec.name}"))
    turn.emit(Notice("Normal", "Started", f"Started container {spec.name}"))
    _runs(turn, spec, container, Phase.POST_START)
    if spec.post_start is None:
        probing.begin(turn, spec)
    else:
        turn.emit(RunHook(spec.name, event.attempt, "postStart", spec.post_start, POST_START_LIMIT_S))


def _runs(turn: Turn, spec: ContainerSpec, container: Container, phase: Phase) -> None:
    turn.update(
        spec.name,
        phase=phase,
        starts=container.starts + 1,
        started_at=turn.now,
        last=container.end or container.last,
        end=None,
        not_before=None,
        waiting_reason="",
        waiting_message="",
    )


def start_failed(turn: Turn, spec: ContainerSpec, container: Container, event: StartFailed) -> None:
    turn.emit(Notice("Warning", "Failed", f"Error: {event.message}"))
    if event.exit_code is None:
        turn.update(
            spec.name,
            phase=Phase.WAITING,
            not_before=turn.after(CONFIG_RETRY_S),
            waiting_reason=event.reason,
            waiting_message=event.message,
        )
        return
    _runs(turn, spec, container, Phase.EXITED)
    end = End(event.exit_code, event.reason, turn.now, turn.now, event.attempt, message=event.message)
    _ended(turn, spec, end, for_probe=False)


def exited_while_starting(turn: Turn, spec: ContainerSpec, container: Container, event: Exited) -> None:
    """Its end was reported before its start: it ran all the same."""
    _runs(turn, spec, container, Phase.RUNNING)
    exited(turn, spec, turn[spec.name], event)


def exited(turn: Turn, spec: ContainerSpec, container: Container, event: Exited) -> None:
    end = End(
        event.exit_code,
        event.reason,
        event.started_at,
        event.finished_at,
        event.attempt,
        event.signal,
        event.message,
    )
    _ended(turn, spec, end, for_probe=container.stop is not None and container.stop.for_probe)


def _ended(turn: Turn, spec: ContainerSpec, end: End, *, for_probe: bool) -> None:
    container = turn.update(
        spec.name,
        phase=Phase.EXITED,
        end=end,
        started=False,
        ready=False,
        stop=None,
        probes=(),
    )
    if turn.state.stage is not Stage.RUNNING:
        return
    action = restart_action(spec, end.exit_code, for_probe)
    if action == "RestartAllContainers":
        turn.change(stage=Stage.RESTARTING)
        message = f"Container {spec.name} exited with code {end.exit_code}: restarting all containers"
        turn.emit(Notice("Normal", "RestartAllContainers", message))
    elif action == "Restart":
        _wait_for_restart(turn, spec, container, end)
    elif end.exit_code == 0:
        turn.update(spec.name, passed=True)


def _wait_for_restart(turn: Turn, spec: ContainerSpec, container: Container, end: End) -> None:
    due = not_before(turn.state.back_off, container, end.finished_at)
    if due <= turn.now:
        turn.update(spec.name, phase=Phase.WAITING, not_before=None)
        return
    wait = go_duration(container.back_off_s)
    message = f"back-off {wait} restarting failed container={spec.name} pod={turn.spec.name}"
    turn.emit(Notice("Warning", "BackOff", f"Back-off restarting failed container {spec.name}"))
    turn.update(
        spec.name,
        phase=Phase.WAITING,
        not_before=due,
        waiting_reason="CrashLoopBackOff",
        waiting_message=message,
    )


def post_start_done(turn: Turn, spec: ContainerSpec, container: Container, event: HookDone) -> None:
    if event.hook != "postStart":
        return
    if event.ok:
        probing.begin(turn, spec)
        return
    turn.emit(Notice("Warning", "FailedPostStartHook", f"PostStartHook failed: {event.message}"))
    turn.emit(Notice("Normal", "Killing", f"Container {spec.name} failed its postStart hook and will be stopped"))
    stop(turn, spec, turn.spec.grace_s)


def pre_stop_done(turn: Turn, spec: ContainerSpec, container: Container, event: HookDone) -> None:
    if event.hook != "preStop" or container.stop is None or container.stop.step is not StopStep.PRE_STOP:
        return
    if not event.ok:
        turn.emit(Notice("Warning", "FailedPreStopHook", f"PreStopHook failed: {event.message}"))
    turn.update(spec.name, stop=type(container.stop)(StopStep.TURN, container.stop.kill_at, container.stop.for_probe))
