"""Resource limits of containers: as numbers for the runtime, and as text for resourceFieldRef. Pure."""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal

from jobset.api.meta import Object
from jobset.api.quantity import parse_quantity
from jobset.cluster.kubelet.sources import ConfigError


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
    containers = [*spec["containers"], *(c for c in spec.get("initContainers") or () if c.get("restartPolicy"))]
    memory = [memory_limit_bytes(container) for container in [spec] if container.get("resources")]
    cpu = [cpu_limit_cores(container) for container in [spec] if container.get("resources")]
    memory = memory if any(value is not None for value in memory) else [memory_limit_bytes(c) for c in containers]
    cpu = cpu if any(value is not None for value in cpu) else [cpu_limit_cores(c) for c in containers]
    known_memory = [value for value in memory if value is not None]
    known_cpu = [value for value in cpu if value is not None]
    return (
        sum(known_memory) if len(known_memory) == len(memory) else None,
        sum(known_cpu) if len(known_cpu) == len(cpu) else None,
    )


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
