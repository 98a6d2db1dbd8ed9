"""A pod's status as the kubelet reports it: phase, conditions, container statuses. Pure, the last step of the flow.

`build_status` turns the machine's state into `Pod.status`, keeping what others wrote there (PodScheduled, qosClass,
DisruptionTarget, ...) and each condition's transition time where its status did not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from jobset.api.meta import Object, format_time
from jobset.cluster.model.pod_lifecycle.spec import ContainerSpec, Role, Value
from jobset.cluster.model.pod_lifecycle.state import Container, End, Phase, PodState, Stage

OWN_CONDITIONS = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "AllContainersRestarting",
)
FAILURE_PHASES = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}
LOST_REASON = "ContainerStatusUnknown"
LOST_MESSAGE = "The container could not be located when the pod was terminated"
LOST_EXIT_CODE = 137


class Place(Value, frozen=True):
    """What a node adds to a pod's status. `runtime` names it in container ids."""

    host_ip: str
    runtime: str = "process"


def phase_of(state: PodState) -> str:
    """Pending, Running, Succeeded or Failed; the last two only when nothing runs any more."""
    mains = [state.containers[spec.name] for spec in state.spec.containers if spec.role is Role.MAIN]
    if state.stage is Stage.DONE:
        failed = state.ending is not None and state.ending.reason
        good = all(container.end is not None and container.end.exit_code == 0 for container in mains)
        return "Succeeded" if good and not failed else "Failed"
    if not all(state.containers[spec.name].passed for spec in state.spec.containers if spec.role is not Role.MAIN):
        return "Pending"
    ran = any(container.starts > 0 for container in mains)
    return "Running" if ran else "Pending"


def build_status(state: PodState, pod: Object, place: Place, now: datetime) -> Object:
    """The whole status of `pod`, which holds the one to start from."""
    phase = phase_of(state)
    previous = pod.get("status") or {}
    generation = pod["metadata"].get("generation")
    if state.stage is Stage.ENDING:
        # The deletion alone is a new generation: that it was seen is told together with what comes of it.
        generation = previous.get("observedGeneration", generation)
    status = {key: value for key, value in previous.items() if key not in {"reason", "message"}}
    status["phase"] = phase
    if generation:
        status["observedGeneration"] = generation
    if place.host_ip:
        status["hostIP"] = place.host_ip
        status["hostIPs"] = [{"ip": place.host_ip}]
    if state.begun is not None:
        status.setdefault("startTime", format_time(state.begun))
    if state.ip:
        status["podIP"] = state.ip
        status["podIPs"] = [{"ip": state.ip}]
    if phase == "Failed" and state.ending is not None and state.ending.reason:
        status["reason"] = state.ending.reason
        status["message"] = state.ending.message
    for field, roles in (
        ("initContainerStatuses", (Role.INIT, Role.SIDECAR)),
        ("containerStatuses", (Role.MAIN,)),
    ):
        specs = [spec for spec in state.spec.containers if spec.role in roles]
        if specs:
            status[field] = [_container_status(state, spec, place) for spec in specs]
    status["conditions"] = _conditions(state, phase, previous.get("conditions") or [], generation, now)
    return status


# -- containers ---------------------------------------------------------------------------------------------------


def _container_status(state: PodState, spec: ContainerSpec, place: Place) -> Object:
    container = state.containers[spec.name]
    ready = container.ready
    if spec.role is Role.INIT:
        ready = container.end is not None and container.end.exit_code == 0
    status: Object = {
        "name": spec.name,
        "state": _current(state, spec, container, place),
        "lastState": {},
        "ready": ready,
        "restartCount": container.attempt,
        "image": spec.image,
        "imageID": spec.image if container.starts else "",
        "started": container.started,
    }
    last = container.end if _shows_waiting(state, container) and container.end else container.last
    if last is not None:
        status["lastState"] = {"terminated": _terminated(state, spec, last, place)}
    if container.starts:
        status["containerID"] = _container_id(state, spec, container.attempt, place)
    return status


def _container_id(state: PodState, spec: ContainerSpec, attempt: int, place: Place) -> str:
    return f"{place.runtime}://{state.spec.uid}-{spec.name}-{attempt}"


def _shows_waiting(state: PodState, container: Container) -> bool:
    """A container that waits to be started again shows its end only as its last state, unless it never will be."""
    return container.phase in {Phase.WAITING, Phase.STARTING} and state.stage is not Stage.DONE


def _current(state: PodState, spec: ContainerSpec, container: Container, place: Place) -> Object:
    if container.phase in {Phase.POST_START, Phase.RUNNING, Phase.STOPPING}:
        return {"running": {"startedAt": format_time(container.started_at)} if container.started_at else {}}
    if not _shows_waiting(state, container):
        if container.end is not None:
            return {"terminated": _terminated(state, spec, container.end, place)}
        if state.initialized or container.starts:
            return {"terminated": {"exitCode": LOST_EXIT_CODE, "reason": LOST_REASON, "message": LOST_MESSAGE}}
    return {"waiting": _waiting(state, spec, container)}


def _waiting(state: PodState, spec: ContainerSpec, container: Container) -> Object:
    if container.waiting_reason:
        return {"reason": container.waiting_reason, "message": container.waiting_message}
    if state.sandbox_problem[0] and not state.ip:
        return {"reason": "ContainerCreating", "message": state.sandbox_problem[1]}
    has_init = any(other.role is not Role.MAIN for other in state.spec.containers)
    blocked = has_init and (spec.role is not Role.MAIN or not _init_passed(state))
    return {"reason": "PodInitializing" if blocked else "ContainerCreating"}


def _init_passed(state: PodState) -> bool:
    return all(state.containers[spec.name].passed for spec in state.spec.containers if spec.role is not Role.MAIN)


def _terminated(state: PodState, spec: ContainerSpec, end: End, place: Place) -> Object:
    shown: Object = {
        "exitCode": end.exit_code,
        "reason": end.reason,
        "startedAt": format_time(end.started_at),
        "finishedAt": format_time(end.finished_at),
        "containerID": _container_id(state, spec, end.attempt, place),
    }
    if end.signal:
        shown["signal"] = end.signal
    if end.message:
        shown["message"] = end.message
    return shown


# -- conditions ---------------------------------------------------------------------------------------------------


def _conditions(
    state: PodState, phase: str, previous: list[Object], generation: int | None, now: datetime
) -> list[Object]:
    known = {condition["type"]: condition for condition in previous}
    containers = _containers_ready(state, phase)
    wanted = [
        _truth("PodReadyToStartContainers", state.sandbox == "ready"),
        _initialized(state, phase),
        _ready(state, containers, known),
        {"type": "ContainersReady", **containers},
    ]
    if any(spec.can_restart_all for spec in state.spec.containers):
        wanted.append(_restarting(state, phase))
    own = [_dated(condition, known.get(condition["type"]), generation, now) for condition in wanted]
    return own + [condition for condition in previous if condition["type"] not in OWN_CONDITIONS]


def _dated(condition: Object, before: Object | None, generation: int | None, now: datetime) -> Object:
    condition["lastProbeTime"] = None  # as Kubernetes shows it, always
    if generation:
        condition["observedGeneration"] = generation
    if before is not None and before.get("status") == condition["status"]:
        condition["lastTransitionTime"] = before.get("lastTransitionTime") or format_time(now)
    else:
        condition["lastTransitionTime"] = format_time(now)
    return condition


def _truth(type_: str, value: bool) -> Object:
    return {"type": type_, "status": "True" if value else "False"}


def _because(reason: str, message: str = "") -> Object:
    return {"status": "False", "reason": reason, **({"message": message} if message else {})}


def _names(specs: Iterable[ContainerSpec]) -> str:
    return "[" + " ".join(spec.name for spec in specs) + "]"


def _initialized(state: PodState, phase: str) -> Object:
    incomplete = [
        spec for spec in state.spec.containers if spec.role is not Role.MAIN and not state.containers[spec.name].passed
    ]
    if state.initialized or not incomplete:
        reason = {"reason": "PodCompleted"} if phase == "Succeeded" else {}
        return {"type": "Initialized", "status": "True", **reason}
    message = f"containers with incomplete status: {_names(incomplete)}"
    return {"type": "Initialized", **_because("ContainersNotInitialized", message)}


def _containers_ready(state: PodState, phase: str) -> Object:
    if reason := FAILURE_PHASES.get(phase):
        return _because(reason)
    unready = [
        spec for spec in state.spec.containers if spec.role is not Role.INIT and not state.containers[spec.name].ready
    ]
    if not unready:
        return {"status": "True"}
    return _because("ContainersNotReady", f"containers with unready status: {_names(unready)}")


def _ready(state: PodState, containers: Object, known: Mapping[str, Object]) -> Object:
    if containers["status"] == "False":
        return {"type": "Ready", **containers}
    problems = []
    for gate in state.spec.readiness_gates:
        condition = known.get(gate)
        if condition is None:
            problems.append(f'corresponding condition of pod readiness gate "{gate}" does not exist.')
        elif condition.get("status") != "True":
            problems.append(f'the status of pod readiness gate "{gate}" is not "True", but {condition["status"]}')
    if problems:
        return {"type": "Ready", **_because("ReadinessGatesNotReady", ", ".join(problems))}
    return {"type": "Ready", "status": "True"}


def _restarting(state: PodState, phase: str) -> Object:
    if state.stage is Stage.RESTARTING:
        return {
            "type": "AllContainersRestarting",
            "status": "True",
            "reason": "RestartAllContainersStarted",
            "message": "a container's exit asked for all containers to be restarted",
        }
    reason = FAILURE_PHASES.get(phase)
    return {"type": "AllContainersRestarting", "status": "False", **({"reason": reason} if reason else {})}
