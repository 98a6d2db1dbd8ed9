"""How much a pod asks for and whether a node has that much left. Pure.

Amounts are whole numbers in the smallest unit that Kubernetes schedules by: thousandths for cpu, pieces or bytes for
everything else, extended resources included.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from jobset.api.meta import Object
from jobset.api.quantity import parse_bytes, parse_milli

Amounts: TypeAlias = dict[str, int]

POD_LEVEL = ("cpu", "memory", "hugepages-")
"""Resources that `spec.resources` of a pod may set for all its containers together (KEP-2837)."""
UNSPECIFIED_CPU_MILLI = 100
UNSPECIFIED_MEMORY_BYTES = 200 * 1024 * 1024


def amount_of(name: str, quantity: str | int | float) -> int:
    return parse_milli(quantity) if name == "cpu" else parse_bytes(quantity)


def amounts_of(quantities: Mapping[str, str | int | float] | None) -> Amounts:
    """A resource list (`{"cpu": "500m"}`) as amounts."""
    return {name: amount_of(name, quantity) for name, quantity in (quantities or {}).items()}


def container_requests(container: Object) -> Amounts:
    """What one container asks for; a limit without a request asks for as much as the limit."""
    resources = container.get("resources") or {}
    return amounts_of({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def pod_requests(spec: Object) -> Amounts:
    """What a pod asks for: its containers and sidecars together, or what its start needs if that is more (KEP-753)."""
    total = _sum(container_requests(container) for container in spec.get("containers") or ())
    sidecars: Amounts = {}
    start: Amounts = {}
    for container in spec.get("initContainers") or ():
        asked = container_requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars = _sum((sidecars, asked))
            asked = sidecars
        else:
            asked = _sum((sidecars, asked))
        start = {name: max(start.get(name, 0), asked.get(name, 0)) for name in start.keys() | asked.keys()}
    total = _sum((total, sidecars))
    total = {name: max(total.get(name, 0), start.get(name, 0)) for name in sorted(total.keys() | start.keys())}
    for name, amount in container_requests(spec).items():
        if name.startswith(POD_LEVEL):
            total[name] = amount
    return _sum((total, amounts_of(spec.get("overhead"))))


def shortages(asked: Amounts, allocatable: Amounts, used: Amounts) -> list[str]:
    """The resources of which less is left than asked for. Nothing asked is never short, even of an overfull node."""
    return [
        name for name, amount in asked.items() if amount > allocatable.get(name, 0) - used.get(name, 0) and amount > 0
    ]


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total
