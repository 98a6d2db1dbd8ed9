"""A memory limit without control groups: look at what a container's processes hold, from time to time.

The limit is on resident memory that nobody else shares, summed over the container's processes. A process may pass it
for the length of one look; the machine is the real limit then. Better than RLIMIT_AS, which refuses the large address
spaces that JAX, Java and Go reserve without using them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

LOOK_EVERY_S = 0.2
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def held_bytes(pids: Iterable[int]) -> int:
    """A quick upper bound first; the exact, slow figure only for the caller that needs it: see `exact_bytes`."""
    pages = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/statm", "rb") as file:
                fields = file.read().split()
        except OSError:
            continue
        if len(fields) > 2:
            pages += int(fields[1]) - int(fields[2])
    return pages * _PAGE_BYTES


def exact_bytes(pids: Iterable[int]) -> int:
    """Memory shared by several processes (after a fork) is counted once."""
    kibibytes = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
                lines = file.read().splitlines()
        except OSError:
            continue
        kibibytes += sum(int(line.split()[1]) for line in lines if line.startswith(b"Pss_Anon:"))
    return kibibytes * 1024


def is_over(pids: list[int], limit_bytes: int) -> bool:
    return held_bytes(pids) > limit_bytes and exact_bytes(pids) > limit_bytes
