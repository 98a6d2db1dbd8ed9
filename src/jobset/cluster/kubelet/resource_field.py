"""Resource limits of containers: as numbers for the runtime, and as text for resourceFieldRef. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_CEILING, Decimal
from typing import TypeVar

from jobset.api.meta import Object
from jobset.api.quantity import parse_quantity
from jobset.cluster.kubelet.sources import ConfigError

N = TypeVar("N", int, float)


def limit(container: Object, resource: str) -> Decimal | None:
    text = ((container.get("resources") or {}).get("limits") or {}).get(resource)
    return None if text is None else parse_quantity(text)


def memory_limit_bytes(container: Object) -> int | None:
    value = limit(container, "memory")
    return None if value is None else int(value.to_integral_value(rounding=ROUND_CEILING))


def cpu_limit_cores(container: Object) -> float | None:
    value = limit(container, "cpu")
    return None if value is None else float(value)


def pod_limits(pod: Object) -> tuple[int | None, float | None]:
    """Memory in bytes and CPU in cores of the whole pod: its own limits, or the sum when every container has one."""
    spec = pod["spec"]
    lasting = [
        *spec["containers"],
        *(c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"),
    ]
    memory, cpu = memory_limit_bytes(spec), cpu_limit_cores(spec)
    return (
        _sum(map(memory_limit_bytes, lasting)) if memory is None else memory,
        _sum(map(cpu_limit_cores, lasting)) if cpu is None else cpu,
    )


def _sum(values: Iterable[N | None]) -> N | None:
    """None when one of them is unknown."""
    total: N | None = None
    for value in values:
        if value is None:
            return None
        total = value if total is None else total + value
    return total


def resource_field(pod: Object, own: Object, ref: Object, allocatable: Object) -> str:
    """The value of a resourceFieldRef, divided and rounded up. A limit that is not set is what the node has.

    `own` is the container that asks. Raises ConfigError.
    """
    name = ref.get("containerName")
    container = own if not name else _container_named(pod, name)
    kind, _, resource = ref["resource"].partition(".")
    if kind not in ("limits", "requests") or not resource:
        raise ConfigError(f"resource {ref['resource']!r} is not supported: it must be limits.NAME or requests.NAME")
    amounts = (container.get("resources") or {}).get(kind) or {}
    text = amounts.get(resource)
    if text is None:
        text = allocatable.get(resource, "0") if kind == "limits" else "0"
    divisor = parse_quantity(ref.get("divisor") or "1") or Decimal(1)
    return str(int((parse_quantity(text) / divisor).to_integral_value(rounding=ROUND_CEILING)))


def _container_named(pod: Object, name: str) -> Object:
    spec = pod["spec"]
    for container in (*spec["containers"], *(spec.get("initContainers") or ())):
        if container["name"] == name:
            return dict(container)
    raise ConfigError(f"resourceFieldRef names container {name!r}, which the pod does not have")
