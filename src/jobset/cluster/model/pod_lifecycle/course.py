"""What a pod needs next, seen as a whole: what to start, what to stop, whether it is over. Pure.

Called after every event (machine.py): it looks at the facts, not at the event, so whatever the order of reports, the
same facts lead to the same instructions. Order of start: init containers one by one, sidecars among them as soon as
they are started, then the main ones, each after its predecessor's postStart hook. Order of end: main containers
together, then sidecars from last to first.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from jobset.cluster.model.pod_lifecycle import probing, stopping
from jobset.cluster.model.pod_lifecycle.restarting import next_back_off_s
from jobset.cluster.model.pod_lifecycle.spec import ContainerSpec, Role
from jobset.cluster.model.pod_lifecycle.state import (
    ALIVE,
    ConfirmDeletion,
    Container,
    CreateSandbox,
    Ending,
    Notice,
    Phase,
    RemoveSandbox,
    Stage,
    StartContainer,
)
from jobset.cluster.model.pod_lifecycle.turn import Turn

DEADLINE_REASON = "DeadlineExceeded"
DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"


def follow(turn: Turn) -> None:
    """Give every instruction that the facts call for now."""
    deadline = active_deadline(turn)
    if deadline is not None and turn.now >= deadline:
        begin_ending(turn, turn.spec.grace_s, DEADLINE_REASON, DEADLINE_MESSAGE)
    if turn.state.stage is Stage.PREPARING:
        _prepare(turn)
    if turn.state.stage is Stage.RESTARTING:
        _restart_all(turn)
    if turn.state.stage is Stage.RUNNING:
        _run(turn)
    if turn.state.stage is Stage.RESTARTING:
        _restart_all(turn)
    if turn.state.stage is Stage.ENDING:
        _end(turn)


def active_deadline(turn: Turn) -> datetime | None:
    """When the pod will have been active for too long; None without such a limit, or when it is ending anyway."""
    seconds, begun = turn.spec.active_deadline_s, turn.state.begun
    if seconds is None or begun is None or turn.state.stage in {Stage.ENDING, Stage.DONE}:
        return None
    return begun + timedelta(seconds=seconds)


def begin_ending(turn: Turn, grace_s: float, reason: str = "", message: str = "") -> None:
    """From now on containers are only stopped. Called again it can only shorten the time left."""
    kill_at = turn.after(max(grace_s, 0))
    ending = turn.state.ending
    if turn.state.stage is Stage.ENDING and ending is not None:
        kill_at = min(kill_at, ending.kill_at)
        reason, message = ending.reason, ending.message
    turn.change(stage=Stage.ENDING, ending=Ending(kill_at, reason, message))
    for spec, _ in turn:
        stopping.shorten(turn, spec, kill_at)


def _prepare(turn: Turn) -> None:
    retry = turn.state.sandbox_retry
    if turn.state.sandbox == "none" and (retry is None or retry <= turn.now):
        turn.change(sandbox="creating", sandbox_retry=None)
        turn.emit(CreateSandbox())


def _run(turn: Turn) -> None:
    for spec, container in turn:
        if container.phase is Phase.STOPPING:
            stopping.proceed(turn, spec)
        elif container.phase is Phase.RUNNING:
            probing.run_due(turn, spec)
    if not _initialize(turn):
        return
    _start_main(turn)
    if all(container.phase is Phase.EXITED for _, container in _main(turn)):
        begin_ending(turn, turn.spec.grace_s)


def _main(turn: Turn) -> Iterator[tuple[ContainerSpec, Container]]:
    return ((spec, container) for spec, container in turn if spec.role is Role.MAIN)


def _initialize(turn: Turn) -> bool:
    """Start what comes before the main containers; True when these may start."""
    for spec, container in turn:
        if spec.role is Role.MAIN:
            break
        if spec.role is Role.INIT:
            if container.passed:
                continue
            if container.phase is Phase.EXITED:
                begin_ending(turn, turn.spec.grace_s)
                return False
        _start_if_due(turn, spec)
        if not turn[spec.name].passed:
            return False
    if not turn.state.initialized:
        turn.change(initialized=True)
    return True


def _start_main(turn: Turn) -> None:
    for spec, _ in _main(turn):
        _start_if_due(turn, spec)
        if turn[spec.name].phase in {Phase.STARTING, Phase.POST_START}:
            return


def _start_if_due(turn: Turn, spec: ContainerSpec) -> None:
    container = turn[spec.name]
    if container.phase is not Phase.WAITING:
        return
    if container.not_before is not None and container.not_before > turn.now:
        return
    if container.end is not None:
        back_off_s = next_back_off_s(turn.state.back_off, container, turn.now)
        turn.update(spec.name, phase=Phase.STARTING, back_off_s=back_off_s, back_off_since=turn.now)
    else:
        turn.update(spec.name, phase=Phase.STARTING)
    turn.emit(StartContainer(spec.name, container.starts))


def _restart_all(turn: Turn) -> None:
    """KEP-5532: kill everything without grace, then begin anew with the same sandbox and volumes.

    There is no back-off between such restarts: the containers are new ones.
    """
    for spec, _ in turn:
        stopping.kill(turn, spec)
    if any(container.phase in ALIVE for _, container in turn):
        return
    for spec, container in turn:
        turn.put(spec.name, Container(starts=container.starts, last=container.end or container.last))
    turn.change(stage=Stage.RUNNING)
    _run(turn)


def _end(turn: Turn) -> None:
    ending = turn.state.ending
    assert ending is not None
    left_s = (ending.kill_at - turn.now).total_seconds()
    for spec, container in turn:
        if container.phase in stopping.STOPPABLE:
            turn.emit(Notice("Normal", "Killing", f"Stopping container {spec.name}"))
            stopping.stop(turn, spec, left_s)
    others_live = False
    for spec in reversed(turn.spec.containers):
        stopping.proceed(turn, spec, may_signal=spec.role is not Role.SIDECAR or not others_live)
        others_live = others_live or turn[spec.name].phase in ALIVE
    if not others_live and turn.state.sandbox != "creating":
        _finish(turn)


def _finish(turn: Turn) -> None:
    if turn.state.sandbox == "ready" or turn.state.sandbox_problem[0]:
        turn.emit(RemoveSandbox())
    turn.change(stage=Stage.DONE, sandbox="removed")
    confirm_deletion(turn)


def confirm_deletion(turn: Turn) -> None:
    if turn.state.stage is Stage.DONE and turn.state.delete and not turn.state.gone:
        turn.emit(ConfirmDeletion())
