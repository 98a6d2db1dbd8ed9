"""Which containers of pods ended badly, and which of them first. Pure.

For those who explain an end to people; no decision of a pass hangs on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta

from msgspec import Struct

from jobset.api.meta import Object, parse_time

ENDED_BY_SIGNAL = (128 + 15, 128 + 9)
"""Exit codes of a container that was told to end."""


class ContainerFailure(Struct, frozen=True):
    """A container that ended badly. `exit_code` is 128+N for signal N.

    `log_tail` are its last lines, or what was in the way when it did not even start.
    """

    pod: str
    container: str
    exit_code: int
    reason: str
    finished_at: str
    """RFC 3339 in whole seconds, as the pod's status has it."""
    last_output_at: str = ""
    log_tail: tuple[str, ...] = ()


def in_order(failures: Iterable[ContainerFailure]) -> list[ContainerFailure]:
    """Which failed first: ends are known to the second only, so those within one are told apart by their last output.

    Whoever fails because a neighbour is gone says so after the neighbour's own last words.
    """
    by_end = sorted(failures, key=lambda each: each.finished_at)
    together = by_end[: count_of_first(by_end)]
    return sorted(together, key=lambda each: each.last_output_at) + by_end[len(together) :]


def count_of_first(by_end: list[ContainerFailure]) -> int:
    """How many, of those sorted by their end, may have been the first."""
    if not by_end:
        return 0
    limit = parse_time(by_end[0].finished_at) + timedelta(seconds=1)
    return sum(1 for each in by_end if parse_time(each.finished_at) <= limit)


def ended_containers(pod: Object) -> Iterator[tuple[str, int, Object]]:
    """(name, run, how it ended) of each container that ended, and of its run before that; runs count from 0."""
    status = pod.get("status") or {}
    for kind in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(kind) or ():
            restarts = container.get("restartCount", 0)
            if ended := (container.get("state") or {}).get("terminated"):
                yield container["name"], restarts, ended
            if (before := (container.get("lastState") or {}).get("terminated")) and restarts > 0:
                yield container["name"], restarts - 1, before


def is_bad_end(pod: Object, terminated: Object) -> bool:
    """Whether the container failed by itself: one whose pod is being deleted was told to end."""
    forgiven = (0, *ENDED_BY_SIGNAL) if pod["metadata"].get("deletionTimestamp") else (0,)
    return terminated.get("exitCode", 0) not in forgiven
