"""What a Job's pods amount to: counts, indexes, and who newly ended. Pure.

A pod that ended carries the tracking finalizer until its end is on record. So the totals are what status counts
already, plus the ended pods under the finalizer, plus those that status names as uncounted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from jobset.api.meta import Object
from jobset.cluster.model.job.failure_policy import rule_on
from jobset.cluster.model.job.indexes import Indexes, parse_indexes
from jobset.cluster.model.job.pods import JobPod, finished_at, index_failures, is_failed, is_ready
from jobset.cluster.model.job.spec import JobSpec


class Uncounted(Struct, frozen=True):
    """UIDs of ended pods that status names but does not count yet (status.uncountedTerminatedPods)."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.succeeded) + len(self.failed)


class Tally(Struct, frozen=True):
    pods: tuple[JobPod, ...]
    active: tuple[JobPod, ...]
    ready: int
    terminating: int
    newly_succeeded: tuple[JobPod, ...]
    newly_failed: tuple[JobPod, ...]
    uncounted: Uncounted
    succeeded: int
    failed: int
    recorded_indexes: Indexes
    """Completed indexes that status knows of, within completions."""
    succeeded_indexes: Indexes
    failed_indexes: Indexes | None
    """Only with backoffLimitPerIndex."""
    predecessors: Mapping[int, JobPod]
    """Per index that waits for a new pod, the failed pod whose failure count the new one takes over."""


def read_uncounted(status: Object) -> Uncounted:
    uncounted = status.get("uncountedTerminatedPods") or {}
    return Uncounted(tuple(uncounted.get("succeeded") or ()), tuple(uncounted.get("failed") or ()))


def tally(job: Object, spec: JobSpec, pods: Sequence[JobPod]) -> Tally:
    status = job.get("status", {})
    uncounted = read_uncounted(status)
    active = tuple(pod for pod in pods if pod.active)
    succeeded, failed = _newly_ended(spec, pods, uncounted)
    counted_failures = sum(rule_on(spec.failure_policy, pod.raw).counted for pod in failed)
    recorded, done = Indexes(), Indexes()
    succeeded_count = status.get("succeeded", 0) + len(succeeded) + len(uncounted.succeeded)
    failed_indexes = None
    predecessors: Mapping[int, JobPod] = {}
    if spec.indexed:
        recorded = parse_indexes(status.get("completedIndexes", ""), spec.completions or 0)
        done = recorded.with_indexes(pod.index for pod in succeeded if pod.index is not None)
        succeeded_count = len(done)
        if spec.backoff_limit_per_index is not None:
            failed_indexes = _failed_indexes(status, spec, pods)
            predecessors = _predecessors(spec, pods, done.union(failed_indexes))
    return Tally(
        pods=tuple(pods),
        active=active,
        ready=sum(is_ready(pod) for pod in active),
        terminating=sum(pod.terminating for pod in pods),
        newly_succeeded=succeeded,
        newly_failed=failed,
        uncounted=uncounted,
        succeeded=succeeded_count,
        failed=status.get("failed", 0) + counted_failures + len(uncounted.failed),
        recorded_indexes=recorded,
        succeeded_indexes=done,
        failed_indexes=failed_indexes,
        predecessors=predecessors,
    )


def _newly_ended(
    spec: JobSpec, pods: Sequence[JobPod], uncounted: Uncounted
) -> tuple[tuple[JobPod, ...], tuple[JobPod, ...]]:
    named = {*uncounted.succeeded, *uncounted.failed}
    valid = [pod for pod in pods if pod.tracked and pod.uid not in named and spec.counts_index(pod.index)]
    succeeded = tuple(pod for pod in valid if pod.phase == "Succeeded")
    failed = tuple(pod for pod in valid if is_failed(pod, spec))
    return succeeded, failed


def _failed_indexes(status: Object, spec: JobSpec, pods: Sequence[JobPod]) -> Indexes:
    """The indexes that used up backoffLimitPerIndex, or that a FailIndex rule failed at once."""
    new = {
        pod.index
        for pod in pods
        if pod.tracked and pod.index is not None and spec.counts_index(pod.index) and _fails_index(pod, spec)
    }
    return parse_indexes(status.get("failedIndexes", ""), spec.completions or 0).with_indexes(new)


def _fails_index(pod: JobPod, spec: JobSpec) -> bool:
    if not is_failed(pod, spec):
        return False
    ruling = rule_on(spec.failure_policy, pod.raw)
    if ruling.action == "FailIndex":
        return True
    return ruling.counted and index_failures(pod)[0] >= (spec.backoff_limit_per_index or 0)


def _predecessors(spec: JobSpec, pods: Sequence[JobPod], settled: Indexes) -> dict[int, JobPod]:
    active = {pod.index for pod in pods if pod.active}
    last: dict[int, JobPod] = {}
    for pod in pods:
        index = pod.index
        if index is None or not (pod.tracked and spec.counts_index(index) and is_failed(pod, spec)):
            continue
        if index in active or index in settled:
            continue
        if index not in last or _order(last[index]) <= _order(pod):
            last[index] = pod
    return last


def _order(pod: JobPod) -> tuple[int, float]:
    return sum(index_failures(pod)), finished_at(pod.raw).timestamp()
