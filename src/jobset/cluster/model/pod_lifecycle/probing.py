"""When a running container is probed, and what the answers mean. Pure.

The startup probe goes first; liveness and readiness begin when it has succeeded. A container without a readiness probe
is ready as soon as it is started. Counts are of answers in a row. One answer at a time is awaited per probe.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from jobset.cluster.model.pod_lifecycle.spec import ContainerSpec, ProbeSpec, Role
from jobset.cluster.model.pod_lifecycle.state import Container, Notice, Phase, Probed, ProbeState, RunProbe
from jobset.cluster.model.pod_lifecycle.stopping import stop
from jobset.cluster.model.pod_lifecycle.turn import Turn

EARLY_DELAYS_S = (0.1, 0.2, 0.4, 0.8)
"""Pauses after the first probes of a container that just started. A process is there in milliseconds, but rarely ready
in the first: without these tries it would wait a whole period, ten seconds by default. A failure among them does not
count and is no event, so thresholds mean what they say. Liveness is not asked early: nobody waits for it."""

NOT_YET_READY_PERIOD_S = 1.0
"""A container that is not ready is asked at least this often, as the kubelet asks at every sync of such a pod and not
only every period: one more failure has no consequence."""


def begin(turn: Turn, spec: ContainerSpec) -> None:
    """The container runs and its postStart hook is over: set up its probes."""
    if spec.probe("startup"):
        container = turn[spec.name]
        turn.update(spec.name, phase=Phase.RUNNING, probes=(_scheduled(turn, spec.probes[0], container),))
    else:
        _is_started(turn, spec)


def resume(turn: Turn, spec: ContainerSpec, ready: bool) -> None:
    """The container was started before our time, and was ready or not when somebody last looked."""
    _is_started(turn, spec)
    if ready:
        turn.update(spec.name, ready=True)


def _is_started(turn: Turn, spec: ContainerSpec) -> None:
    container = turn[spec.name]
    later = tuple(_scheduled(turn, probe, container) for probe in spec.probes if probe.kind != "startup")
    ready = spec.probe("readiness") is None
    passed = container.passed or spec.role is Role.SIDECAR
    turn.update(spec.name, phase=Phase.RUNNING, started=True, passed=passed, ready=ready, probes=later)


def _scheduled(turn: Turn, probe: ProbeSpec, container: Container) -> ProbeState:
    first = (container.started_at or turn.now) + timedelta(seconds=probe.initial_delay_s)
    return ProbeState(probe.kind, due=max(first, turn.now))


def run_due(turn: Turn, spec: ContainerSpec) -> None:
    """Ask for every probe whose time has come."""
    container = turn[spec.name]
    if not container.probes:
        return
    probes = []
    for state in container.probes:
        if state.due is not None and not state.in_flight and state.due <= turn.now:
            probe = _spec_of(spec, state)
            turn.emit(RunProbe(spec.name, container.attempt, probe.kind, probe.handler, probe.timeout_s))
            due = _next(turn, probe, container, state.asked)
            state = msgspec.structs.replace(state, in_flight=True, asked=state.asked + 1, due=due)
        probes.append(state)
    turn.update(spec.name, probes=tuple(probes))


def _spec_of(spec: ContainerSpec, state: ProbeState) -> ProbeSpec:
    return next(probe for probe in spec.probes if probe.kind == state.kind)


def _next(turn: Turn, probe: ProbeSpec, container: Container, asked: int) -> datetime:
    delay_s = probe.period_s
    if _is_early(probe, container, asked):
        delay_s = min(delay_s, EARLY_DELAYS_S[asked])
    elif probe.kind == "readiness" and not container.ready:
        delay_s = min(delay_s, NOT_YET_READY_PERIOD_S)
    return turn.after(delay_s)


def _is_early(probe: ProbeSpec, container: Container, asked: int) -> bool:
    """Whether the probe that follows `asked` others is one of the early tries."""
    return probe.kind != "liveness" and not container.ready and asked < len(EARLY_DELAYS_S)


def answered(turn: Turn, spec: ContainerSpec, container: Container, event: Probed) -> None:
    """Count the answer, and act when a threshold is reached."""
    state = next((state for state in container.probes if state.kind == event.kind), None)
    if state is None:
        return
    probe = _spec_of(spec, state)
    if not event.ok and _is_early(probe, container, state.asked - 1):
        again = msgspec.structs.replace(state, in_flight=False, successes=0)
        turn.update(spec.name, probes=tuple(again if old is state else old for old in container.probes))
        return
    successes = state.successes + 1 if event.ok else 0
    failures = 0 if event.ok else state.failures + 1
    counted = msgspec.structs.replace(state, in_flight=False, successes=successes, failures=failures)
    turn.update(spec.name, probes=tuple(counted if old is state else old for old in container.probes))
    if not event.ok:
        message = f"{probe.kind.capitalize()} probe failed: {event.message}"
        turn.emit(Notice("Warning", "Unhealthy", message))
    if successes >= probe.success_threshold:
        _succeeded(turn, spec, probe)
    elif failures >= probe.failure_threshold:
        _failed(turn, spec, probe)


def _succeeded(turn: Turn, spec: ContainerSpec, probe: ProbeSpec) -> None:
    if probe.kind == "startup":
        _is_started(turn, spec)
    elif probe.kind == "readiness" and not turn[spec.name].ready:
        turn.update(spec.name, ready=True)


def _failed(turn: Turn, spec: ContainerSpec, probe: ProbeSpec) -> None:
    if probe.kind == "readiness":
        if turn[spec.name].ready:
            turn.update(spec.name, ready=False)
        return
    grace_s = turn.spec.grace_s if probe.grace_s is None else probe.grace_s
    again = spec.restart_policy != "Never"
    consequence = "will be restarted" if again else "will be stopped"
    message = f"Container {spec.name} failed {probe.kind} probe, {consequence}"
    turn.emit(Notice("Normal", "Killing", message))
    stop(turn, spec, grace_s, for_probe=True)
