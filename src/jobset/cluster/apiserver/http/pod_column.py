"""What kubectl says of a pod in one word, how many of its containers are ready, and how often they restarted. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from jobset.api.meta import Object

_TERMINAL = ("Succeeded", "Failed")


@dataclass(slots=True)
class PodSummary:
    reason: str
    total: int
    ready: int = 0
    restarts: int = 0
    last_restart: str = ""
    """RFC 3339; empty when never."""


def pod_summary(pod: Object) -> PodSummary:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    sidecars = {one["name"] for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"}
    phase = status.get("phase", "")
    summary = PodSummary(status.get("reason") or phase, len(spec.get("containers") or ()) + len(sidecars))
    if any(
        one.get("type") == "PodScheduled" and one.get("reason") == "SchedulingGated"
        for one in status.get("conditions") or ()
    ):
        summary.reason = "SchedulingGated"
    initializing = _look_at_init_containers(summary, spec, status, sidecars)
    if not initializing or _holds(status, "Initialized"):
        _look_at_containers(summary, status, sidecars)
    if "deletionTimestamp" in pod["metadata"]:
        if status.get("reason") == "NodeLost":
            summary.reason = "Unknown"
        elif phase not in _TERMINAL:
            summary.reason = "Terminating"
    return summary


def _look_at_init_containers(summary: PodSummary, spec: Object, status: Object, sidecars: set[str]) -> bool:
    """Whether the pod is still at its init containers, with `reason` saying at which."""
    statuses = status.get("initContainerStatuses") or ()
    for index, one in enumerate(statuses):
        _count_restarts(summary, (one,))
        state = one.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if one.get("name") in sidecars and one.get("started"):
            summary.ready += bool(one.get("ready"))
            continue
        if terminated is not None:
            summary.reason = f"Init:{_end_text(terminated)}"
        elif waiting.get("reason") and waiting["reason"] != "PodInitializing":
            summary.reason = f"Init:{waiting['reason']}"
        else:
            summary.reason = f"Init:{index}/{len(spec.get('initContainers') or ())}"
        return True
    return False


def _look_at_containers(summary: PodSummary, status: Object, sidecars: set[str]) -> None:
    summary.restarts, summary.last_restart = 0, ""
    _count_restarts(summary, (one for one in status.get("initContainerStatuses") or () if one.get("name") in sidecars))
    running = False
    statuses = status.get("containerStatuses") or ()
    _count_restarts(summary, statuses)
    for one in reversed(statuses):
        state = one.get("state") or {}
        waiting, terminated = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            summary.reason = waiting["reason"]
        elif terminated is not None:
            summary.reason = _end_text(terminated)
        elif one.get("ready") and state.get("running") is not None:
            running = True
            summary.ready += 1
    if summary.reason == "Completed" and running:
        summary.reason = "Running" if _holds(status, "Ready") else "NotReady"


def _count_restarts(summary: PodSummary, statuses: Iterable[Object]) -> None:
    for one in statuses:
        summary.restarts += one.get("restartCount", 0)
        ended = (one.get("lastState") or {}).get("terminated") or {}
        summary.last_restart = max(summary.last_restart, ended.get("finishedAt") or "")


def _end_text(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _holds(status: Object, type_: str) -> bool:
    return any(one.get("type") == type_ and one.get("status") == "True" for one in status.get("conditions") or ())
