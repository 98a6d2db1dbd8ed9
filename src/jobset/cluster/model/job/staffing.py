"""Which pods a running Job gets, and which it has to give up. Pure.

Taking away goes first: a pass that removes pods creates none. At most `MAX_PODS_A_PASS` either way, so that one big Job
does not keep all others waiting.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from msgspec import Struct

from jobset.api.meta import Object
from jobset.cluster.model.job.backoff import Failures, RetryDelays
from jobset.cluster.model.job.indexes import Indexes
from jobset.cluster.model.job.pods import JobPod, finished_at, index_failures
from jobset.cluster.model.job.removal import pods_to_remove
from jobset.cluster.model.job.spec import JobSpec
from jobset.cluster.model.job.tally import Tally
from jobset.cluster.model.job.template import PodTemplate

MAX_PODS_A_PASS = 500


class Staffing(Struct, frozen=True):
    remove: tuple[JobPod, ...] = ()
    create: tuple[Object, ...] = ()
    retry_after_s: float | None = None
    """When there is more to do: once a back-off is over, or at once after as much as one pass may do."""


class Retry(Struct, frozen=True):
    """What decides when a failed pod's replacement may come."""

    delays: RetryDelays
    failures: Failures
    now: datetime


UNCHANGED = Staffing()


def staff(job: Object, spec: JobSpec, pods: Tally, retry: Retry, suffixes: Iterator[str]) -> Staffing:
    active = len(pods.active)
    if spec.suspended:
        return Staffing(remove=tuple(pods_to_remove(spec, pods.active, active)))
    wanted = _wanted(spec, pods)
    if surplus := pods_to_remove(spec, pods.active, max(0, active - wanted)):
        more = 0.0 if len(surplus) > MAX_PODS_A_PASS else None
        return Staffing(remove=tuple(surplus[:MAX_PODS_A_PASS]), retry_after_s=more)
    held = pods.terminating if spec.replaces_only_failed else 0
    missing = wanted - active - held
    if missing <= 0:
        return UNCHANGED
    if spec.backoff_limit_per_index is None:
        wait_s = retry.delays.remaining_s(retry.failures.count, retry.failures.last, retry.now)
        if wait_s > 0:
            return Staffing(retry_after_s=wait_s)
    template = PodTemplate(job, spec, suffixes)
    count = min(missing, MAX_PODS_A_PASS)
    wait: float | None = None
    if spec.indexed:
        indexes, wait = _indexes_due(pods, _pending_indexes(spec, pods, count), retry)
        created = tuple(template.pod_of_index(index, pods.predecessors.get(index)) for index in indexes)
    else:
        created = tuple(template.pod() for _ in range(count))
    return Staffing(create=created, retry_after_s=0.0 if created and missing > count else wait)


def _wanted(spec: JobSpec, pods: Tally) -> int:
    """How many pods should be active. A work queue that saw a success gets no more."""
    if spec.completions is None:
        return len(pods.active) if pods.succeeded else spec.parallelism
    return max(0, min(spec.completions - pods.succeeded, spec.parallelism))


def _pending_indexes(spec: JobSpec, pods: Tally, count: int) -> list[int]:
    """The lowest indexes that have neither an outcome nor a pod in their place."""
    holding = {pod.index for pod in pods.active}
    if spec.replaces_only_failed:
        holding.update(pod.index for pod in pods.pods if pod.terminating)
    taken = pods.succeeded_indexes.union(pods.failed_indexes or Indexes())
    taken = taken.with_indexes(index for index in holding if index is not None)
    return taken.first_missing(count, spec.completions or 0)


def _indexes_due(pods: Tally, indexes: list[int], retry: Retry) -> tuple[list[int], float | None]:
    """The indexes whose own back-off is over, and how long the others have to wait at least.

    Only with backoffLimitPerIndex do indexes have predecessors, and so a back-off of their own.
    """
    due: list[int] = []
    waits: list[float] = []
    for index in indexes:
        predecessor = pods.predecessors.get(index)
        if predecessor is None:
            due.append(index)
            continue
        failures = sum(index_failures(predecessor)) + 1
        wait_s = retry.delays.remaining_s(failures, finished_at(predecessor.raw), retry.now)
        if wait_s > 0:
            waits.append(wait_s)
        else:
            due.append(index)
    return due, min(waits, default=None)
