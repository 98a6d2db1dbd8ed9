"""Host ports: two pods of one node may not ask for the same one. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from jobset.api.meta import Object

HostPort: TypeAlias = tuple[str, str, int]
"""(address, protocol, port); the address 0.0.0.0 is every address."""

ANY_ADDRESS = "0.0.0.0"


def host_ports(spec: Object) -> tuple[HostPort, ...]:
    """The host ports of a pod's containers and sidecars."""
    sidecars = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    ports = {
        (port.get("hostIP") or ANY_ADDRESS, port.get("protocol") or "TCP", port["hostPort"])
        for container in (*(spec.get("containers") or ()), *sidecars)
        for port in container.get("ports") or ()
        if port.get("hostPort")
    }
    return tuple(sorted(ports))


def conflicts(wanted: Iterable[HostPort], used: Iterable[HostPort]) -> bool:
    taken: dict[tuple[str, int], set[str]] = {}
    for address, protocol, port in used:
        taken.setdefault((protocol, port), set()).add(address)
    for address, protocol, port in wanted:
        addresses = taken.get((protocol, port))
        if addresses and (address == ANY_ADDRESS or ANY_ADDRESS in addresses or address in addresses):
            return True
    return False
