"""Exclusive placement: one Job per topology domain (section 9). Pure.

A Job's leader (completion index 0) is held off other Jobs' domains by pod affinity; its followers must go where the
leader is. The original refuses followers until the leader is bound. Here they are let in with a scheduling gate, and
released, all at once, when the leader's domain is known: no pod is created in vain.

`place_pod` is the pod's admission; `place_followers` is what follows a change of a Job's pods. Pods of a Job that is
not Indexed have no leader: each gets the leader's affinities, which keep them together just as well.

A leader that has done its work never comes back, but followers may, after an eviction or a suspension. They follow a
follower that has a node; if none has, the first is let go where it likes. It cannot intrude: the affinities of other
Jobs' leaders hold it off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from jobset.api import labels
from jobset.api.meta import Object, condition_of, controller_of, format_time
from jobset.api.resources import PODS
from jobset.core.actions import Action, DeleteObject, PatchObject, Why

WAIT_FOR_LEADER = "jobset.sigs.k8s.io/wait-for-leader"
"""Scheduling gate of followers whose leader has no node yet."""

_INDEXES_THAT_ARE_OVER = ("completedIndexes", "failedIndexes")
VIOLATION = "ExclusivePlacementViolation"
_VIOLATION_MESSAGE = "Pod violated JobSet exclusive placement policy"


class JobPods(Struct, frozen=True):
    """The pods of one Job that is placed exclusively."""

    topology_key: str
    followers: tuple[Object, ...]
    """Those that are alive, by completion index."""
    guide: Object | None
    """The pod to follow, which has a node: the leader, or a follower when no leader is to come."""
    domain: str | None
    """The guide's; None while it is not known."""
    leader_is_over: bool


def place_pod(pod: Object) -> Object:
    """The pod as it shall be created; the very same when JobSet does not place it."""
    annotations: dict[str, str] = pod["metadata"].get("annotations") or {}
    if labels.JOBSET_NAME not in annotations or labels.NODE_SELECTOR_STRATEGY in annotations:
        return pod
    pod = _with_priority_label(pod)
    topology_key = annotations.get(labels.EXCLUSIVE_TOPOLOGY)
    if topology_key is None:
        return pod
    spec: Object = pod["spec"]
    if is_follower(pod):
        gates = [*(spec.get("schedulingGates") or ()), {"name": WAIT_FOR_LEADER}]
        return {**pod, "spec": {**spec, "schedulingGates": gates}}
    return {**pod, "spec": {**spec, "affinity": _with_exclusive_terms(pod, topology_key)}}


def is_placed_exclusively(pod: Object) -> bool:
    """Whether pods of this Job follow a leader: not those that admins placed by the node-selector strategy."""
    annotations: dict[str, str] = pod["metadata"].get("annotations") or {}
    return labels.EXCLUSIVE_TOPOLOGY in annotations and labels.NODE_SELECTOR_STRATEGY not in annotations


def is_leader(pod: Object) -> bool:
    return _completion_index(pod) == "0"


def is_follower(pod: Object) -> bool:
    return _completion_index(pod) not in (None, "0")


def leader_of(pods: Sequence[Object]) -> Object | None:
    """The one leader that is alive and has a node; None when there is none, or when it is not certain which."""
    alive = [pod for pod in pods if is_leader(pod) and is_alive(pod)]
    return alive[0] if len(alive) == 1 and alive[0]["spec"].get("nodeName") else None


def is_alive(pod: Object) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return phase not in ("Succeeded", "Failed") and not pod["metadata"].get("deletionTimestamp")


def leader_is_over(job: Object | None) -> bool:
    """Whether a Job's index 0 is done for good, so that no leader is to come."""
    status = (job or {}).get("status") or {}
    return any((status.get(field) or "").split(",")[0].split("-")[0] == "0" for field in _INDEXES_THAT_ARE_OVER)


def job_pods(pods: Sequence[Object], job: Object | None, node_of: Callable[[str], Object | None]) -> JobPods | None:
    """`pods` of one Job. None when there is no pod to place."""
    followers = sorted((pod for pod in pods if is_follower(pod) and is_alive(pod)), key=_index_order)
    if not followers:
        return None
    topology_key: str = followers[0]["metadata"]["annotations"][labels.EXCLUSIVE_TOPOLOGY]
    over = leader_is_over(job)
    guide = leader_of(pods)
    if guide is None and over:
        guide = next((pod for pod in followers if pod["spec"].get("nodeName")), None)
    node = node_of(guide["spec"]["nodeName"]) if guide is not None else None
    node_labels = (node["metadata"].get("labels") or {}) if node is not None else {}
    return JobPods(topology_key, tuple(followers), guide, node_labels.get(topology_key), over)


def place_followers(job: JobPods, now: datetime) -> list[Action]:
    """Release those that wait. If one that was released is bound for another domain, replace every released one."""
    waiting = [pod for pod in job.followers if _waits(pod)]
    released = [pod for pod in job.followers if not _waits(pod)]
    if job.guide is None:
        return [_release(waiting[0])] if job.leader_is_over and waiting and not released else []
    if job.domain is None:
        return []  # asked again when the node, or its label, is there
    actions: list[Action] = [_release(pod, job.topology_key, job.domain) for pod in waiting]
    follows_leader = is_leader(job.guide)
    if follows_leader and any(_selector(pod).get(job.topology_key) != job.domain for pod in released):
        actions += [_evict(pod, now) for pod in released]
    return actions


def _index_order(pod: Object) -> int:
    return int(_completion_index(pod) or 0)


def _completion_index(pod: Object) -> str | None:
    annotations: dict[str, str] = pod["metadata"].get("annotations") or {}
    return annotations.get(labels.JOB_COMPLETION_INDEX)


def _with_priority_label(pod: Object) -> Object:
    priority = pod["spec"].get("priority")
    if priority is None:
        return pod
    metadata = pod["metadata"]
    own = {**(metadata.get("labels") or {}), labels.PRIORITY: str(priority)}
    return {**pod, "metadata": {**metadata, "labels": own}}


def _with_exclusive_terms(pod: Object, topology_key: str) -> Object:
    own: dict[str, str] = pod["metadata"].get("labels") or {}
    key, priority = own.get(labels.JOB_KEY, ""), own.get(labels.PRIORITY, "")
    same_job: list[Object] = [{"key": labels.JOB_KEY, "operator": "In", "values": [key]}]
    other_jobs: list[Object] = [
        {"key": labels.JOB_KEY, "operator": "Exists"},
        {"key": labels.JOB_KEY, "operator": "NotIn", "values": [key]},
        {"key": labels.PRIORITY, "operator": "In", "values": [priority]},
    ]
    affinity: Object = pod["spec"].get("affinity") or {}
    return {
        **affinity,
        "podAffinity": _with_term(affinity.get("podAffinity"), same_job, topology_key),
        "podAntiAffinity": _with_term(affinity.get("podAntiAffinity"), other_jobs, topology_key),
    }


def _with_term(present: Object | None, expressions: list[Object], topology_key: str) -> Object:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    term: dict[str, Any] = {
        "labelSelector": {"matchExpressions": expressions},
        "topologyKey": topology_key,
        "namespaceSelector": {},
    }
    present = present or {}
    return {**present, required: [*(present.get(required) or ()), term]}


def _waits(pod: Object) -> bool:
    return any(gate.get("name") == WAIT_FOR_LEADER for gate in pod["spec"].get("schedulingGates") or ())


def _selector(pod: Object) -> dict[str, str]:
    return pod["spec"].get("nodeSelector") or {}


def _release(pod: Object, topology_key: str = "", domain: str = "") -> PatchObject:
    """To this domain, or, without a key, to wherever the scheduler finds room."""
    gates = [gate for gate in pod["spec"]["schedulingGates"] if gate.get("name") != WAIT_FOR_LEADER]
    spec: Object = {"schedulingGates": gates or None}
    why = Why("GoAhead", "the leader has finished, and no other pod has a node to follow")
    if topology_key:
        spec["nodeSelector"] = {topology_key: domain}
        why = Why("FollowLeader", f"the Job runs where {topology_key} is {domain}")
    metadata = pod["metadata"]
    return PatchObject(PODS, metadata["namespace"], metadata["name"], {"spec": spec}, why, uid=metadata["uid"])


def _evict(pod: Object, now: datetime) -> Action:
    """First the condition, by which a podFailurePolicy may excuse the pod; the deletion in the pass that sees it."""
    metadata = pod["metadata"]
    why = Why(VIOLATION, _VIOLATION_MESSAGE)
    present = condition_of(pod, "DisruptionTarget")
    if present is not None and present["status"] == "True":
        return DeleteObject(PODS, metadata["namespace"], metadata["name"], metadata["uid"], why)
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": VIOLATION,
        "message": _VIOLATION_MESSAGE,
        "lastTransitionTime": format_time(now),
    }
    others = [each for each in (pod.get("status") or {}).get("conditions") or () if each["type"] != "DisruptionTarget"]
    return PatchObject(
        PODS,
        metadata["namespace"],
        metadata["name"],
        {"status": {"conditions": [*others, condition]}},
        why,
        subresource="status",
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
    )


def job_of(pod: Object) -> str:
    """The name of the Job that controls a pod; empty when none does."""
    owner = controller_of(pod)
    return owner["name"] if owner is not None and owner.get("kind") == "Job" else ""
