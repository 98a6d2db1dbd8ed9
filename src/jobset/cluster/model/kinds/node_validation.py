"""Rules of Nodes and Namespaces, and of their updates. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from jobset.api.errors import Cause
from jobset.api.field_errors import duplicate, forbidden, invalid, not_supported, required
from jobset.api.meta import Object
from jobset.api.name_rules import label_value_problems, qualified_name_problems
from jobset.api.quantity import parse_quantity
from jobset.cluster.model.kinds.pod_validation_resources import is_extended
from jobset.cluster.model.kinds.pod_validation_scheduling import EFFECTS
from jobset.cluster.model.kinds.problems import invalid_each

_TAINTS = "metadata.taints"
"""Not where taints stand, but where Kubernetes reports them."""


def validate_node(node: Object) -> list[Cause]:
    return [*_taint_problems(node["spec"].get("taints") or []), *_status_problems(node.get("status") or {})]


def _taint_problems(taints: list[Object]) -> Iterator[Cause]:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        path, key, effect = f"{_TAINTS}[{index}]", taint.get("key") or "", taint.get("effect") or ""
        yield from invalid_each(f"{path}.key", key, qualified_name_problems(key))
        yield from invalid_each(f"{path}.value", taint.get("value", ""), label_value_problems(taint.get("value") or ""))
        if not effect:
            yield required(f"{path}.effect")
        elif effect not in EFFECTS:
            yield not_supported(f"{path}.effect", effect, EFFECTS)
        if (key, effect) in seen:
            yield duplicate(path, {"key": key, "effect": effect})
        seen.add((key, effect))


def _status_problems(status: Object) -> Iterator[Cause]:
    for field in ("capacity", "allocatable"):
        for name, amount in (status.get(field) or {}).items():
            value, path = parse_quantity(amount), f"status.{field}[{name}]"
            if value < 0:
                yield invalid(path, amount, "must be greater than or equal to 0")
            if value % 1 and (is_extended(name) or name == "pods"):
                yield invalid(path, amount, "must be an integer")


def validate_node_update(new: Object, old: Object) -> list[Cause]:
    if new["spec"] == old["spec"]:
        return []
    return [*_taint_problems(new["spec"].get("taints") or []), *_fixed_problems(new["spec"], old["spec"])]


def _fixed_problems(spec: Object, before: Object) -> Iterator[Cause]:
    """What the cloud or the network gave a node stays."""
    if before.get("podCIDRs") and spec.get("podCIDRs") != before["podCIDRs"]:
        yield forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid')
    if before.get("providerID") and spec.get("providerID") != before["providerID"]:
        yield forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid')


def validate_node_status_update(new: Object, old: Object) -> list[Cause]:
    status = new.get("status") or {}
    return [] if status is old.get("status") else list(_status_problems(status))


def validate_namespace(namespace: Object) -> list[Cause]:
    return [
        cause
        for index, finalizer in enumerate(namespace["spec"].get("finalizers") or ())
        if finalizer != "kubernetes"
        for cause in _finalizer_problems(finalizer, f"spec.finalizers[{index}]")
    ]


def _finalizer_problems(finalizer: str, path: str) -> Iterator[Cause]:
    yield from invalid_each(path, finalizer, qualified_name_problems(finalizer))
    if "/" not in finalizer:
        yield invalid(path, finalizer, "name is neither a standard finalizer name nor is it fully qualified")
