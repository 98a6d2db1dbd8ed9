"""What may change of a pod once it exists: its image, fewer gates, more tolerations, and little else. Pure.

A change that leaves the spec alone (labels, finalizers, status) is not looked at further: that is most writes of a pod.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jobset.api.errors import Cause
from jobset.api.field_errors import forbidden, invalid
from jobset.api.meta import Object
from jobset.api.name_rules import dns_subdomain_problems, qualified_name_problems
from jobset.cluster.model.kinds.pod_validation import validate_pod_spec
from jobset.cluster.model.kinds.pod_validation_scheduling import REQUIRED
from jobset.cluster.model.kinds.problems import invalid_each

_CHANGEABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_ONLY_ADDITIONS = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
_TOLERATIONS = "existing toleration can not be modified except its tolerationSeconds"
_STILL_ENDED: Object = {"terminated": {}}
"""For a container that the new status does not mention."""
_CONTAINERS = ("containers", "initContainers")


def validate_pod_update(new: Object, old: Object) -> list[Cause]:
    if new["spec"] is old["spec"] or new["spec"] == old["spec"]:
        return []
    return list(_update_problems(new["spec"], old["spec"]))


def _update_problems(new: Object, old: Object) -> Iterator[Cause]:
    yield from validate_pod_spec(new, "spec")
    for key in _CONTAINERS:
        if len(new.get(key) or ()) != len(old.get(key) or ()):
            yield forbidden(f"spec.{key}", "pod updates may not add or remove containers")
            return
    yield from _validate_deadline(new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"))
    yield from _validate_gates(new.get("schedulingGates") or [], old.get("schedulingGates") or [])
    added_only = _keeps_tolerations(new.get("tolerations") or [], old.get("tolerations") or [])
    if not added_only:
        yield forbidden("spec.tolerations", _TOLERATIONS)
    gated = bool(old.get("schedulingGates"))
    if gated:
        yield from _validate_gated(new, old)
    if _fixed(new, gated) != _fixed(old, gated):
        yield forbidden("spec", _CHANGEABLE)


def _validate_deadline(new: int | None, old: int | None) -> Iterator[Cause]:
    path = "spec.activeDeadlineSeconds"
    if old is None:
        return
    if new is None:
        yield invalid(path, new, "must not update from a positive integer to nil value")
    elif new > old:
        yield invalid(path, new, "must be less than or equal to previous value")


def _validate_gates(new: list[Object], old: list[Object]) -> Iterator[Cause]:
    known = {gate["name"] for gate in old}
    for index, gate in enumerate(new):
        if gate["name"] not in known:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate['name']}'"
            yield forbidden(f"spec.schedulingGates[{index}].name", detail)


def _keeps_tolerations(new: list[Object], old: list[Object]) -> bool:
    """Every old toleration is still there, perhaps with another tolerationSeconds."""

    def essence(toleration: Object) -> Object:
        return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}

    kept = [essence(one) for one in new]
    return all(essence(one) in kept for one in old)


def _validate_gated(new: Object, old: Object) -> Iterator[Cause]:
    """While gated, a pod's choice of nodes may be narrowed."""
    selector, before = new.get("nodeSelector") or {}, old.get("nodeSelector") or {}
    if any(selector.get(key) != value for key, value in before.items()):
        yield invalid("spec.nodeSelector", selector, _ONLY_ADDITIONS)
    yield from _validate_affinity(_node_affinity(new), _node_affinity(old))


def _node_affinity(spec: Object) -> Object:
    return (spec.get("affinity") or {}).get("nodeAffinity") or {}


def _validate_affinity(new: Object, old: Object) -> Iterator[Cause]:
    path = f"spec.affinity.nodeAffinity.{REQUIRED}"
    if old.get(REQUIRED) is None:
        return
    terms = (new.get(REQUIRED) or {}).get("nodeSelectorTerms") or []
    before = old[REQUIRED].get("nodeSelectorTerms") or []
    if len(terms) != len(before):
        yield invalid(
            f"{path}.nodeSelectorTerms", terms, "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        )
        return
    for index, (term, earlier) in enumerate(zip(terms, before, strict=True)):
        if not all(_extends(term, earlier, field) for field in ("matchExpressions", "matchFields")):
            detail = "only additions are allowed (no mutations or deletions)"
            yield invalid(f"{path}.nodeSelectorTerms[{index}]", term, detail)


def _extends(term: Object, earlier: Object, field: str) -> bool:
    new, old = term.get(field) or [], earlier.get(field) or []
    return bool(new[: len(old)] == old)


def _fixed(spec: Object, gated: bool) -> Object:
    """The part of a spec that no update may change."""
    loose: tuple[str, ...] = ("activeDeadlineSeconds", "schedulingGates", "tolerations", *_CONTAINERS)
    if gated:
        loose = (*loose, "nodeSelector", "affinity")
    fixed: dict[str, Any] = {key: value for key, value in spec.items() if key not in loose}
    for key in _CONTAINERS:
        fixed[key] = [{**container, "image": ""} for container in spec.get(key) or ()]
    if gated:
        affinity = spec.get("affinity") or {}
        fixed["affinity"] = {key: value for key, value in affinity.items() if key != "nodeAffinity"}
    return fixed


def validate_pod_status_update(new: Object, old: Object) -> list[Cause]:
    status, before = new.get("status") or {}, old.get("status") or {}
    return [] if status is before else list(_status_problems(status, before, old["spec"]))


def _status_problems(status: Object, before: Object, spec: Object) -> Iterator[Cause]:
    for index, condition in enumerate(status.get("conditions") or ()):
        type_ = condition.get("type", "")
        yield from invalid_each(f"status.conditions[{index}].Type", type_, qualified_name_problems(type_))
    nominated = status.get("nominatedNodeName")
    if nominated and nominated != before.get("nominatedNodeName"):
        yield from invalid_each("status.nominatedNodeName", nominated, dns_subdomain_problems(nominated))
    yield from _comebacks("ephemeralContainerStatuses", status, before, "Never")
    policy = spec.get("restartPolicy") or ""
    if policy != "Always" and not _has_container_policies(spec):
        for field in ("containerStatuses", "initContainerStatuses"):
            yield from _comebacks(field, status, before, policy)


def _comebacks(field: str, status: Object, before: Object, policy: str) -> Iterator[Cause]:
    """A container that ended for good does not come back."""
    if not before.get(field) or status.get(field) is before[field]:
        return
    states = {one.get("name"): one.get("state") or {} for one in status.get(field) or ()}
    for index, earlier in enumerate(before[field]):
        ended = (earlier.get("state") or {}).get("terminated")
        if not ended or (policy == "OnFailure" and ended.get("exitCode")):
            continue
        if "terminated" not in states.get(earlier.get("name"), _STILL_ENDED):
            yield forbidden(f"status.{field}[{index}].state", "may not be transitioned to non-terminated state")


def validate_ephemeral_update(new: Object, old: Object) -> list[Cause]:
    """Ephemeral containers are added, never changed or taken away."""
    causes = list(validate_pod_spec(new["spec"], "spec"))
    added = {one.get("name"): one for one in new["spec"].get("ephemeralContainers") or ()}
    for one in old["spec"].get("ephemeralContainers") or ():
        name = one.get("name")
        if name not in added:
            detail = f'existing ephemeral containers "{name}" may not be removed'
            causes.append(forbidden("spec.ephemeralContainers", detail))
        elif added[name] != one:
            detail = f'existing ephemeral containers "{name}" may not be changed'
            causes.append(forbidden("spec.ephemeralContainers", detail))
    return causes


def _has_container_policies(spec: Object) -> bool:
    return any(
        container.get("restartPolicy") or container.get("restartPolicyRules")
        for key in _CONTAINERS
        for container in spec.get(key) or ()
    )
