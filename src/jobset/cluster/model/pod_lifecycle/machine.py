"""The life of one pod on its node: `step(state, event, now) -> (state, instructions)`. Pure.

Theory of operation
-------------------
A pod goes through stages. Each container of it goes through phases of its own, and through them again at each restart:

    pod:        PREPARING -> RUNNING -> ENDING -> DONE            container:  WAITING -> STARTING -> POST_START
                               |  ^                                              ^                       |
                               v  |                                              |                       v
                            RESTARTING (all containers)                       EXITED <- STOPPING <-  RUNNING

* PREPARING: volumes and sandbox are made, again and again until it works.
* RUNNING: init containers, sidecars and main containers are started, probed and restarted.
* RESTARTING: a rule asked to restart all containers (KEP-5532); they are killed, then the pod is RUNNING anew.
* ENDING: the main containers are done, an init container failed for good, the pod's deadline passed, or it is deleted:
  containers are only stopped. Whatever ends now stays ended.
* DONE: nothing runs. All that can still come is the deletion of the Pod, which is then confirmed.

A step has two halves. First the table below records what the event reports: facts only. Then `course.follow` looks at
all facts and gives the instructions they call for. So the order in which reports arrive does not matter, a report that
is late (of an earlier attempt, of a stopped container) finds no line in the table and changes nothing, and a step with
`Tick` is always allowed and never does anything twice.

Time is an input. The machine never waits; it names the moment when it wants to be called next (`next_wakeup`).
Starts, the sandbox and probes are answered for sure (by success or failure), an end is reported exactly once. A preStop
hook need not be: the grace period does not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeAlias

from jobset.cluster.model.pod_lifecycle import containers, probing
from jobset.cluster.model.pod_lifecycle.course import active_deadline, begin_ending, confirm_deletion, follow
from jobset.cluster.model.pod_lifecycle.spec import ContainerSpec
from jobset.cluster.model.pod_lifecycle.state import (
    Begin,
    Container,
    DeletionRequested,
    Event,
    Exited,
    HookDone,
    Instruction,
    Notice,
    Phase,
    PodState,
    Probed,
    Removed,
    SandboxFailed,
    SandboxReady,
    Stage,
    Started,
    StartFailed,
    StopStep,
    Tick,
)
from jobset.cluster.model.pod_lifecycle.turn import Turn

SANDBOX_RETRY_S = 2.0

ContainerHandler: TypeAlias = Callable[[Turn, ContainerSpec, Container, Any], None]

TRANSITIONS: Mapping[tuple[Phase, type], ContainerHandler] = {
    # phase, report               handler                              leads to
    (Phase.STARTING, Started): containers.started,  # RUNNING, or POST_START with a hook
    (Phase.STARTING, StartFailed): containers.start_failed,  # WAITING (configuration), or as after an end
    (Phase.STARTING, Exited): containers.exited_while_starting,  # as after an end
    (Phase.POST_START, HookDone): containers.post_start_done,  # RUNNING, or STOPPING when it failed
    (Phase.POST_START, Exited): containers.exited,  # WAITING (restart) or EXITED
    (Phase.RUNNING, Probed): probing.answered,  # RUNNING, or STOPPING when startup or liveness failed
    (Phase.RUNNING, Exited): containers.exited,  # WAITING (restart) or EXITED
    (Phase.STOPPING, HookDone): containers.pre_stop_done,  # STOPPING, the signal is next
    (Phase.STOPPING, Exited): containers.exited,  # WAITING (restart) or EXITED
    # WAITING and EXITED hear nothing; WAITING becomes STARTING in course.py.
}


def step(state: PodState, event: Event, now: datetime) -> tuple[PodState, tuple[Instruction, ...]]:
    """What the pod is after `event`, and what has to be done for it, in this order."""
    turn = Turn(state, now)
    match event:
        case Started() | StartFailed() | Exited() | HookDone() | Probed():
            _report(turn, event)
        case Begin():
            if state.begun is None:
                turn.change(begun=now)
        case SandboxReady(ip):
            _sandbox_ready(turn, ip)
        case SandboxFailed(reason, message):
            _sandbox_failed(turn, reason, message)
        case DeletionRequested(grace_s):
            _delete(turn, grace_s)
        case Removed():
            turn.change(gone=True, delete=True)
            _delete(turn, 0)
        case Tick():
            pass
    if turn.state.begun is not None and turn.state.stage is not Stage.DONE:
        follow(turn)
    return turn.result()


def _report(turn: Turn, event: Started | StartFailed | Exited | HookDone | Probed) -> None:
    """Find the container's line in the table; a report of another attempt has none."""
    container = turn[event.container]
    expected = container.starts if container.phase is Phase.STARTING else container.starts - 1
    handler = TRANSITIONS.get((container.phase, type(event)))
    if handler is not None and event.attempt == expected:
        spec = next(spec for spec in turn.spec.containers if spec.name == event.container)
        handler(turn, spec, container, event)


def _sandbox_ready(turn: Turn, ip: str) -> None:
    if turn.state.sandbox != "creating":
        return
    turn.change(sandbox="ready", ip=ip, sandbox_problem=("", ""))
    if turn.state.stage is Stage.PREPARING:
        turn.change(stage=Stage.RUNNING)


def _sandbox_failed(turn: Turn, reason: str, message: str) -> None:
    if turn.state.sandbox != "creating":
        return
    retry = turn.after(SANDBOX_RETRY_S)
    turn.change(sandbox="none", sandbox_retry=retry, sandbox_problem=(reason, message))
    turn.emit(Notice("Warning", reason, message))


def _delete(turn: Turn, grace_s: float) -> None:
    if turn.state.stage is Stage.DONE:
        if not turn.state.delete:
            turn.change(delete=True)
            confirm_deletion(turn)
        return
    turn.change(delete=True, begun=turn.state.begun or turn.now)
    begin_ending(turn, grace_s)


def next_wakeup(state: PodState, now: datetime) -> datetime | None:
    """The next moment at which a Tick may change something; None when only reports can. Always after `now`."""
    return min((moment for moment in _moments(state, now) if moment > now), default=None)


def _moments(state: PodState, now: datetime) -> Iterator[datetime]:
    if state.stage is Stage.DONE:
        return
    deadline = active_deadline(Turn(state, now))
    if deadline is not None:
        yield deadline
    if state.sandbox_retry is not None:
        yield state.sandbox_retry
    for container in state.containers.values():
        if container.phase is Phase.WAITING and container.not_before is not None:
            yield container.not_before
        elif container.phase is Phase.STOPPING and container.stop and container.stop.step is not StopStep.KILLED:
            yield container.stop.kill_at
        else:
            for probe in container.probes:
                if probe.due is not None and not probe.in_flight:
                    yield probe.due
