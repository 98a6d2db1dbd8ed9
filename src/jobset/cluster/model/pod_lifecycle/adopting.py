"""A pod that an earlier kubelet began: its state, from what that one reported and what is there of the pod. Pure.

Beside `initial` (state.py) the other way into the machine. The runtime is right about what runs and how it ended, the
status about what was decided. Whatever neither knows happened between two moments and is taken as if its report came
late: an end that nobody heard goes through the same handler as any other, a hook without an answer is run again.

`facts` None: nothing of the pod is there, because it was not made yet, or because the machine was switched off. Then
what ran is lost, and starts again if its policy says so: in a new sandbox, after its init containers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from datetime import datetime

import msgspec

from jobset.api.meta import Object, condition_of, parse_time
from jobset.cluster.model.pod_lifecycle import containers, probing, stopping
from jobset.cluster.model.pod_lifecycle.course import begin_ending
from jobset.cluster.model.pod_lifecycle.restarting import restart_action
from jobset.cluster.model.pod_lifecycle.spec import ContainerSpec, PodSpec, Role, Value
from jobset.cluster.model.pod_lifecycle.state import (
    ALIVE,
    BackOff,
    Container,
    End,
    Exited,
    Instruction,
    Phase,
    PodState,
    RunHook,
    Stage,
    Stop,
    StopStep,
    initial,
)
from jobset.cluster.model.pod_lifecycle.status import LOST_EXIT_CODE, LOST_MESSAGE, LOST_REASON
from jobset.cluster.model.pod_lifecycle.turn import Turn


class Run(Value, frozen=True):
    """One run of a container, as the runtime tells. `signal` is the last one it was sent."""

    attempt: int
    started_at: datetime
    signal: int = 0
    end: End | None = None


class Facts(Value, frozen=True):
    """What is there of a pod: its address, and the last runs of each container by name, oldest first."""

    ip: str
    runs: Mapping[str, Sequence[Run]]


class _Reported(Value, frozen=True):
    """What a status says of a container. `end` is of the run number `starts - 1`, `last` of one before."""

    starts: int = 0
    running_since: datetime | None = None
    waits: bool = False
    """It ended, and it was decided that it starts again."""
    started: bool = False
    ready: bool = False
    end: End | None = None
    last: End | None = None


class _Known(Value, frozen=True):
    """Both accounts of one container put together. `run` is the latest, and without an end while it goes on."""

    reported: _Reported
    run: Run | None = None
    last: End | None = None

    @property
    def is_reported(self) -> bool:
        return self.run is not None and self.run.attempt == self.reported.starts - 1


def adopt(
    spec: PodSpec,
    back_off: BackOff,
    status: Object,
    facts: Facts | None,
    now: datetime,
    grace_left_s: float | None = None,
) -> tuple[PodState, tuple[Instruction, ...]]:
    """The state of a pod whose status tells that a kubelet saw it, or of which `facts` are there.

    `grace_left_s` None: it is not being deleted. A `Tick` must follow.
    """
    known = {container.name: _known(container, status, facts, now) for container in spec.containers}
    turn = Turn(_frame(spec, back_off, status, facts, known, now), now)
    if grace_left_s is not None:
        turn.change(delete=True)
        begin_ending(turn, grace_left_s, *_failure(status))
    former = _of_former_life(spec, known) if turn.state.stage is Stage.RUNNING else frozenset()
    for container in spec.containers:
        _place(turn, container, known, former)
    if any(turn[name].phase in ALIVE for name in former):
        turn.change(stage=Stage.RESTARTING)
    _hear_ends(turn, known, former)
    if facts is None:
        _begin_anew(turn)
    return turn.result()


def _frame(
    spec: PodSpec,
    back_off: BackOff,
    status: Object,
    facts: Facts | None,
    known: Mapping[str, _Known],
    now: datetime,
) -> PodState:
    """The pod without its containers."""
    started = parse_time(status["startTime"]) if status.get("startTime") else now
    mains_ran = any(known[c.name].run is not None for c in spec.containers if c.role is Role.MAIN)
    said = condition_of({"status": status}, "Initialized")
    has_init = any(container.role is not Role.MAIN for container in spec.containers)
    return msgspec.structs.replace(
        initial(spec, back_off),
        begun=started,
        stage=Stage.RUNNING,
        sandbox="ready",
        ip=facts.ip if facts else status.get("podIP", ""),
        initialized=mains_ran or (has_init and said is not None and said.get("status") == "True"),
    )


def _failure(status: Object) -> tuple[str, str]:
    """Why the pod failed as a whole, if it did already."""
    return (status.get("reason", ""), status.get("message", "")) if status.get("phase") == "Failed" else ("", "")


# -- what is known of a container ---------------------------------------------------------------------------------


def _known(spec: ContainerSpec, status: Object, facts: Facts | None, now: datetime) -> _Known:
    reported = _reported(spec, status)
    runs = facts.runs.get(spec.name, ()) if facts else ()
    latest = runs[-1] if runs else None
    if latest is not None and latest.attempt >= reported.starts - 1:
        before = runs[-2].end if len(runs) > 1 else None
        told = reported.last if latest.attempt == reported.starts - 1 else reported.end
        return _Known(reported, latest, before or told or reported.last)
    if reported.starts == 0:
        return _Known(reported)
    end = reported.end or _lost(reported, now)  # a start that failed leaves no run
    return _Known(reported, Run(end.attempt, end.started_at, end=end), reported.last)


def _lost(reported: _Reported, now: datetime) -> End:
    since = reported.running_since or now
    return End(LOST_EXIT_CODE, LOST_REASON, since, now, reported.starts - 1, message=LOST_MESSAGE)


def _reported(spec: ContainerSpec, status: Object) -> _Reported:
    field = "containerStatuses" if spec.role is Role.MAIN else "initContainerStatuses"
    said = next((entry for entry in status.get(field) or () if entry["name"] == spec.name), None)
    if said is None or not said.get("containerID"):
        return _Reported()
    starts = int(said.get("restartCount", 0)) + 1
    state, last = said.get("state") or {}, (said.get("lastState") or {}).get("terminated")
    running = state.get("running")
    ended = state.get("terminated") or (last if "waiting" in state else None)
    return _Reported(
        starts=starts,
        running_since=_moment(running.get("startedAt")) if running else None,
        waits="waiting" in state,
        started=running is not None and bool(said.get("started")),
        ready=running is not None and bool(said.get("ready")),
        end=_end(ended, starts - 1) if ended else None,
        last=_end(last, starts - 2) if last and last is not ended else None,
    )


def _end(terminated: Object, attempt: int) -> End | None:
    started, finished = _moment(terminated.get("startedAt")), _moment(terminated.get("finishedAt"))
    if started is None or finished is None:
        return None
    return End(
        exit_code=terminated["exitCode"],
        reason=terminated.get("reason", ""),
        started_at=started,
        finished_at=finished,
        attempt=attempt,
        signal=terminated.get("signal", 0),
        message=terminated.get("message", ""),
    )


def _moment(text: str | None) -> datetime | None:
    return parse_time(text) if text else None


# -- where that puts a container ----------------------------------------------------------------------------------


def _of_former_life(spec: PodSpec, known: Mapping[str, _Known]) -> Set[str]:
    """Containers that have not run since all were last told to restart (KEP-5532)."""
    orders = [
        end.finished_at
        for container in spec.containers
        for end in _ends(known[container.name])
        if restart_action(container, end.exit_code) == "RestartAllContainers"
    ]
    if not orders:
        return frozenset()
    latest = max(orders)
    runs = ((name, entry.run) for name, entry in known.items())
    return frozenset(name for name, run in runs if run is not None and run.started_at < latest)


def _ends(known: _Known) -> list[End]:
    return [end for end in (known.run.end if known.run else None, known.last) if end is not None]


def _place(turn: Turn, spec: ContainerSpec, known: Mapping[str, _Known], former: Set[str]) -> None:
    """Put the container where its latest run is; whether that ended is looked at afterwards."""
    entry = known[spec.name]
    run = entry.run
    if run is None:
        return
    if spec.name in former and run.end is not None:
        turn.put(spec.name, Container(starts=run.attempt + 1, last=run.end))
        return
    back_off_s = _back_off_s(turn.state.back_off, entry)
    container = Container(
        phase=Phase.RUNNING,
        starts=run.attempt + 1,
        started_at=(entry.reported.running_since if entry.is_reported else None) or run.started_at,
        last=entry.last,
        passed=_has_passed(turn, spec, known, former),
        back_off_s=back_off_s,
        back_off_since=run.started_at if back_off_s else None,
    )
    turn.put(spec.name, container)
    if run.end is None:
        _resume(turn, spec, entry, run)


def _has_passed(turn: Turn, spec: ContainerSpec, known: Mapping[str, _Known], former: Set[str]) -> bool:
    """Whether what comes after it was started."""
    if spec.role is Role.MAIN:
        return False
    if turn.state.initialized and not former:
        return True
    names = [container.name for container in turn.spec.containers]
    later = names[names.index(spec.name) + 1 :]
    return any(known[name].run is not None and name not in former for name in later)


def _back_off_s(policy: BackOff, entry: _Known) -> float:
    """What the machine would have come to by counting starts; it forgets after a long run."""
    assert entry.run is not None
    restarts = entry.run.attempt
    if restarts == 0:
        return 0.0
    before = entry.last
    if before and (before.finished_at - before.started_at).total_seconds() > policy.reset_after_s:
        return policy.base_s
    return min(policy.base_s * 2.0 ** min(restarts - 1, 30), policy.max_s)


def _resume(turn: Turn, spec: ContainerSpec, entry: _Known, run: Run) -> None:
    """Go on with a run that goes on."""
    if run.signal:
        ending = turn.state.ending
        kill_at = turn.after(turn.spec.grace_s)
        step = StopStep.KILLED if run.signal == stopping.SIGKILL else StopStep.SIGNALLED
        stop = Stop(step, min(kill_at, ending.kill_at) if ending else kill_at, _was_stopped_by_probe(turn, spec))
        turn.update(spec.name, phase=Phase.STOPPING, stop=stop)
    elif entry.is_reported and entry.reported.started:
        probing.resume(turn, spec, entry.reported.ready)
    elif spec.post_start is not None:
        turn.update(spec.name, phase=Phase.POST_START)
        limit_s = containers.POST_START_LIMIT_S
        turn.emit(RunHook(spec.name, run.attempt, "postStart", spec.post_start, limit_s))
    else:
        probing.begin(turn, spec)


def _was_stopped_by_probe(turn: Turn, spec: ContainerSpec) -> bool:
    """Of a container that was signalled: a pod that is not ending stops it for nothing else, but for a failed hook."""
    probed = spec.probe("liveness") is not None or spec.probe("startup") is not None
    return probed and turn.state.stage is Stage.RUNNING


# -- what nobody heard --------------------------------------------------------------------------------------------


def _hear_ends(turn: Turn, known: Mapping[str, _Known], former: Set[str]) -> None:
    """Main containers first: when they are done, a sidecar that ended is done too."""
    for spec in sorted(turn.spec.containers, key=lambda spec: spec.role is not Role.MAIN):
        entry = known[spec.name]
        if entry.run is None or entry.run.end is None or spec.name in former:
            continue
        if spec.role is not Role.MAIN and turn.state.stage is Stage.RUNNING and _mains_are_over(turn):
            begin_ending(turn, turn.spec.grace_s)
        again = (entry.is_reported and entry.reported.waits) or (
            entry.run.signal != 0 and _was_stopped_by_probe(turn, spec)
        )
        if again:  # whatever the exit code says
            turn.update(spec.name, stop=Stop(StopStep.SIGNALLED, turn.now, for_probe=True))
        if entry.run.end.reason == LOST_REASON:
            turn.update(spec.name, back_off_s=0.0, back_off_since=None)  # it did not crash
        end = entry.run.end
        heard = (end.exit_code, end.reason, end.started_at, end.finished_at, end.signal, end.message)
        containers.exited(turn, spec, turn[spec.name], Exited(spec.name, end.attempt, *heard))


def _mains_are_over(turn: Turn) -> bool:
    return all(container.phase is Phase.EXITED for spec, container in turn if spec.role is Role.MAIN)


def _begin_anew(turn: Turn) -> None:
    """Nothing of the pod is there. What is to run runs in a new sandbox, after all that comes before it."""
    if turn.state.stage is Stage.ENDING:
        return
    failed = any(
        spec.role is Role.INIT and container.phase is Phase.EXITED and not container.passed for spec, container in turn
    )
    if turn.state.stage is Stage.RUNNING and (failed or _mains_are_over(turn)):
        begin_ending(turn, turn.spec.grace_s)
        return
    for spec, container in turn:
        if spec.role is not Role.MAIN or turn.state.stage is Stage.RESTARTING:
            turn.put(spec.name, Container(starts=container.starts, last=container.end or container.last))
    turn.change(stage=Stage.PREPARING, sandbox="none")
