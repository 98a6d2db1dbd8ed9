"""Which address a pod gets: the one it asks for if that is free, else the one after the last that was given."""

from __future__ import annotations

import socket
from collections.abc import Iterable

POD_SUBNETS = ("10.244.0.0", "10.88.0.0", "10.189.0.0", "172.29.0.0", "192.168.0.0")
"""All /16."""
SIZE = 1 << 16
_FIRST_POD = 256  # what comes before is for the bridge and the way out
_LEASE_PORT = 47_001


def to_number(address: str) -> int:
    return int.from_bytes(socket.inet_aton(address))


def to_text(number: int) -> str:
    return socket.inet_ntoa(number.to_bytes(4))


class AddressPool:
    """The addresses of one /16, named by its first address."""

    def __init__(self, subnet: str) -> None:
        self._first = to_number(subnet)
        self._next = _FIRST_POD
        self._taken: set[str] = set()

    def take(self, wanted: str = "") -> str:
        """Raises OSError when none is left."""
        if wanted and wanted not in self._taken and self._is_for_pods(wanted):
            self._taken.add(wanted)
            return wanted
        for _ in range(SIZE):
            address = to_text(self._first + self._next)
            self._next = self._next + 1 if self._next + 2 < SIZE else _FIRST_POD
            if address not in self._taken and not address.endswith((".0", ".255")):
                self._taken.add(address)
                return address
        raise OSError(f"no address is left in {to_text(self._first)}/16")

    def give_back(self, address: str) -> None:
        self._taken.discard(address)

    def reserved(self, number: int) -> str:
        """One of the addresses that pods do not get."""
        return to_text(self._first + number)

    def _is_for_pods(self, address: str) -> bool:
        try:
            number = to_number(address) - self._first
        except OSError:
            return False
        return _FIRST_POD <= number < SIZE


def free_pod_subnet(routes: Iterable[str]) -> str:
    """The first of our subnets that the machine's own routes (lines of /proc/net/route) do not touch."""
    used: list[tuple[int, int]] = []
    for line in routes:
        fields = line.split()
        if len(fields) > 7 and fields[0] != "Iface":
            network, mask = (socket.ntohl(int(fields[column], 16)) for column in (1, 7))
            if mask:
                used.append((network, network | ~mask & 0xFFFFFFFF))
    for subnet in POD_SUBNETS:
        first = to_number(subnet)
        if not any(low < first + SIZE and first <= high for low, high in used):
            return subnet
    return POD_SUBNETS[0]


def has_default_route(routes: Iterable[str]) -> bool:
    """Whether the machine itself reaches other networks."""
    return any(fields[1:2] == ["00000000"] and fields[7:8] == ["00000000"] for fields in map(str.split, routes))


def lease_loopback_subnet() -> tuple[str, socket.socket | None]:
    """A /16 of 127/8 that no other run on this machine uses, and the socket that says it is taken."""
    for second in range(64, 255):
        lease = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            lease.bind((f"127.{second}.0.1", _LEASE_PORT))
        except OSError:
            lease.close()
            continue
        return f"127.{second}.0.0", lease
    return "127.63.0.0", None
