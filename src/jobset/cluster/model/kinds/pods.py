"""The Pod as the API server handles it: what it adds on create, what its subresources may change. Pure.

Defaults are in pod_defaults.py, rules in pod_validation.py and its neighbours, the rules of a change in pod_update.py.
What needs other objects (a PriorityClass, whether a node exists) is decided where those can be read; the pure parts of
that are here: `admit_priority`.
"""

from __future__ import annotations

from jobset.api.meta import Object
from jobset.api.quantity import parse_quantity
from jobset.api.resources import PODS
from jobset.cluster.model.kinds.copy_on_write import change_each, change_in, put, without
from jobset.cluster.model.kinds.kind import Kind, Subresource
from jobset.cluster.model.kinds.memo import IdentityMemo
from jobset.cluster.model.kinds.pod_defaults import default_container, default_pod
from jobset.cluster.model.kinds.pod_update import (
    validate_ephemeral_update,
    validate_pod_status_update,
    validate_pod_update,
)
from jobset.cluster.model.kinds.pod_validation import validate_pod

_EVICTION_SECONDS = 300
_NOT_READY: Object = {
    "key": "node.kubernetes.io/not-ready",
    "operator": "Exists",
    "effect": "NoExecute",
    "tolerationSeconds": _EVICTION_SECONDS,
}
_UNREACHABLE: Object = {**_NOT_READY, "key": "node.kubernetes.io/unreachable"}
_BOTH_TOLERATIONS = [_NOT_READY, _UNREACHABLE]
_tolerations: IdentityMemo[list[Object], list[Object]] = IdentityMemo()
_TIMES = frozenset(("lastProbeTime", "lastTransitionTime"))
_GATED_MESSAGE = "Scheduling is blocked due to non-empty scheduling gates"


def prepare_pod(pod: Object) -> Object:
    """A new pod with what the server and its standard admission add: tolerations, first status, merged selectors."""
    spec = _merge_label_keys(pod["spec"], pod["metadata"].get("labels") or {})
    spec = _with_default_tolerations(spec)
    status: Object = {"phase": "Pending", "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        status["conditions"] = [_gated(pod["metadata"].get("creationTimestamp"))]
    return {**pod, "spec": spec, "status": status}


def _gated(created: str | None) -> Object:
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": _GATED_MESSAGE,
        "lastProbeTime": None,
        "lastTransitionTime": created,
    }


def _with_default_tolerations(spec: Object) -> Object:
    """A pod stays five minutes on a node that is not ready or unreachable, unless it says otherwise."""
    tolerations = spec.get("tolerations")
    if not tolerations:
        return {**spec, "tolerations": _BOTH_TOLERATIONS}
    return put(spec, "tolerations", _tolerations.get(tolerations, _default_tolerations))


def _default_tolerations(tolerations: list[Object]) -> list[Object]:
    missing = [one for one in _BOTH_TOLERATIONS if not any(_covers(mine, one["key"]) for mine in tolerations)]
    return [*tolerations, *missing] if missing else tolerations


def _covers(toleration: Object, key: str) -> bool:
    return toleration.get("key") in (key, None, "") and toleration.get("effect") in ("NoExecute", None, "")


def _merge_label_keys(spec: Object, labels: Object) -> Object:
    """Write matchLabelKeys and mismatchLabelKeys into the selectors they extend."""

    def extend(term: Object) -> Object:
        added = [
            {"key": key, "operator": operator, "values": [labels[key]]}
            for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
            for key in term.get(field) or ()
            if key in labels
        ]
        if not added or term.get("labelSelector") is None:
            return term
        selector = term["labelSelector"]
        expressions = [*(selector.get("matchExpressions") or ()), *added]
        return put(term, "labelSelector", put(selector, "matchExpressions", expressions))

    def extend_affinity(affinity: Object) -> Object:
        required, preferred = (
            "requiredDuringSchedulingIgnoredDuringExecution",
            "preferredDuringSchedulingIgnoredDuringExecution",
        )
        affinity = change_in(affinity, required, lambda terms: change_each(terms, extend))
        return change_in(
            affinity,
            preferred,
            lambda terms: change_each(terms, lambda weighted: change_in(weighted, "podAffinityTerm", extend)),
        )

    def extend_all(affinity: Object) -> Object:
        return change_in(change_in(affinity, "podAffinity", extend_affinity), "podAntiAffinity", extend_affinity)

    spec = change_in(spec, "affinity", extend_all)
    return change_in(spec, "topologySpreadConstraints", lambda constraints: change_each(constraints, extend))


def qos_class(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort, by the CPU and memory that containers ask for and are limited to."""
    resources = [
        container.get("resources") or {}
        for key in ("containers", "initContainers")
        for container in spec.get(key) or ()
    ]
    if spec.get("resources"):
        resources = [spec["resources"]]
    asked = [_compute(one.get("requests")) for one in resources]
    limited = [_compute(one.get("limits")) for one in resources]
    if not any(asked) and not any(limited):
        return "BestEffort"
    guaranteed = all(
        len(limit) == 2 and limit == {**limit, **request} for limit, request in zip(limited, asked, strict=True)
    )
    return "Guaranteed" if guaranteed else "Burstable"


def _compute(amounts: Object | None) -> dict[str, object]:
    values = {name: parse_quantity(amounts[name]) for name in ("cpu", "memory") if name in amounts} if amounts else {}
    return {name: value for name, value in values.items() if value}


def admit_priority(pod: Object, priority_class: Object | None) -> Object:
    """Write the priority that a PriorityClass gives to a new pod; without a class it is 0."""
    value = priority_class.get("value", 0) if priority_class else 0
    policy = (priority_class or {}).get("preemptionPolicy") or "PreemptLowerPriority"
    spec = {**pod["spec"], "priority": value}
    if not spec.get("preemptionPolicy"):
        spec["preemptionPolicy"] = policy
    if priority_class is not None and not spec.get("priorityClassName"):
        spec["priorityClassName"] = priority_class["metadata"]["name"]
    return {**pod, "spec": spec}


def keep_status(new: Object, old: Object) -> Object:
    """An update of the pod itself does not touch its status."""
    return put(new, "status", old["status"]) if "status" in old else without(new, "status")


def merge_status(new: Object, old: Object) -> Object:
    """What an update of the status subresource may change of a pod: the status, not its QoS class."""
    status = change_in(new.get("status") or {}, "conditions", lambda items: change_each(items, _with_times))
    status = put(status, "qosClass", old.get("status", {}).get("qosClass"))
    return put(
        put(new, "spec", old["spec"]), "status", without(status, "qosClass") if status["qosClass"] is None else status
    )


def _with_times(condition: Object) -> Object:
    """A condition always shows its times, even those nobody set."""
    return condition if condition.keys() >= _TIMES else {**dict.fromkeys(_TIMES), **condition}


def merge_ephemeral_containers(new: Object, old: Object) -> Object:
    """The ephemeralcontainers subresource adds ephemeral containers and nothing else."""
    containers = change_each((new.get("spec") or {}).get("ephemeralContainers") or [], default_container)
    spec = (
        put(old["spec"], "ephemeralContainers", containers)
        if containers
        else without(old["spec"], "ephemeralContainers")
    )
    return put(keep_status(new, old), "spec", spec)


POD = Kind(
    resource=PODS,
    definition="io.k8s.api.core.v1.Pod",
    default=default_pod,
    prepare_create=prepare_pod,
    prepare_update=keep_status,
    validate=validate_pod,
    validate_update=validate_pod_update,
    subresources={
        "status": Subresource(merge_status, validate_pod_status_update),
        "ephemeralcontainers": Subresource(merge_ephemeral_containers, validate_ephemeral_update),
    },
    graceful=True,
    field_selectors=(
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    short_names=("po",),
    categories=("all",),
)
