"""Rules of resource requests and limits. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from jobset.api.errors import Cause
from jobset.api.field_errors import forbidden, invalid, not_found, required
from jobset.api.meta import Object
from jobset.api.name_rules import qualified_name_problems
from jobset.api.quantity import parse_quantity
from jobset.cluster.model.kinds.problems import invalid_each

_CONTAINER_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_STANDARD_RESOURCES = (
    *_CONTAINER_RESOURCES, "requests.cpu", "requests.memory", "requests.ephemeral-storage", "limits.cpu",
    "limits.memory", "limits.ephemeral-storage", "pods", "resourcequotas", "services", "replicationcontrollers",
    "secrets", "configmaps", "persistentvolumeclaims", "storage", "requests.storage", "services.nodeports",
    "services.loadbalancers",
)  # fmt: skip
_HUGE_PAGES = "hugepages-"


def is_extended(name: str) -> bool:
    """A resource that nodes offer under a domain of its own (nvidia.com/gpu): whole pieces, never overcommitted."""
    return "/" in name and not name.startswith(("requests.", "kubernetes.io/")) and ".kubernetes.io/" not in name


def is_overcommitable(name: str) -> bool:
    native = "/" not in name or "kubernetes.io/" in name
    return native and not name.startswith(_HUGE_PAGES)


def validate_resources(resources: Object, path: str, claims: frozenset[str] = frozenset()) -> Iterator[Cause]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, amount in limits.items():
        yield from _validate_amount(name, amount, f"{path}.limits[{name}]")
    for name, amount in requests.items():
        yield from _validate_amount(name, amount, f"{path}.requests[{name}]")
        yield from _validate_against_limit(name, amount, limits.get(name), path)
    asked = {*limits, *requests}
    if any(name.startswith(_HUGE_PAGES) for name in asked) and not asked & {"cpu", "memory"}:
        yield forbidden(path, "HugePages require cpu or memory")
    for index, claim in enumerate(resources.get("claims") or ()):
        if not claim.get("name"):
            yield required(f"{path}.claims[{index}]")
        elif claim["name"] not in claims:
            yield not_found(f"{path}.claims[{index}]", claim["name"])


def _validate_amount(name: str, amount: str, path: str) -> Iterator[Cause]:
    yield from validate_resource_name(name, path)
    value = _value(amount)
    if value is None:
        yield invalid(path, amount, "must be a quantity such as 500m, 2 or 1Gi")
        return
    if value < 0:
        yield invalid(path, str(amount), "must be greater than or equal to 0")
    if is_extended(name) and value % 1:
        yield invalid(path, str(amount), "must be an integer")


def validate_resource_name(name: str, path: str) -> Iterator[Cause]:
    yield from invalid_each(path, name, qualified_name_problems(name))
    if "/" in name:
        return
    huge = name.startswith(_HUGE_PAGES)
    if name not in _STANDARD_RESOURCES and not huge:
        yield invalid(path, name, "must be a standard resource type or fully qualified")
    if name not in _CONTAINER_RESOURCES and not huge:
        yield invalid(path, name, "must be a standard resource for containers")


def _validate_against_limit(name: str, amount: str, limit: str | None, path: str) -> Iterator[Cause]:
    value, bound = _value(amount), _value(limit)
    if value is None:
        return
    if limit is None:
        if not is_overcommitable(name):
            yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
    elif bound is not None and value != bound and not is_overcommitable(name):
        yield invalid(f"{path}.requests", str(amount), f"must be equal to {name} limit of {limit}")
    elif bound is not None and value > bound:
        yield invalid(f"{path}.requests", str(amount), f"must be less than or equal to {name} limit of {limit}")


def _value(amount: str | None) -> Decimal | None:
    if amount is None:
        return None
    try:
        return parse_quantity(amount)
    except ValueError:
        return None
