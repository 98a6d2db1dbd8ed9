"""How many Jobs of each replicated job are ready, succeeded, failed, active, suspended (section 6.4). Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from jobset.api import labels
from jobset.api.jobs import Job
from jobset.api.jobset import JobSet, ReplicatedJobStatus
from jobset.core.buckets import Buckets
from jobset.core.features import FeatureGates


def count_jobs(jobset: JobSet, buckets: Buckets, gates: FeatureGates) -> tuple[ReplicatedJobStatus, ...]:
    """One entry per replicated job of the spec, by name descending as the original writes them.

    Jobs of previous attempts count nowhere. Restart counters are carried over, but dropped with gate RestartJob off:
    Jobs made while it is off bear no attempt, and must not look outdated once it is on again.
    """
    names = {each.name for each in jobset.spec.replicated_jobs}
    tallies = {
        "ready": _tally(names, filter(is_ready, buckets.active)),
        "succeeded": _tally(names, buckets.successful),
        "failed": _tally(names, buckets.failed),
        "active": _tally(names, (job for job in buckets.active if job.status.active > 0)),
        "suspended": _tally(names, (job for job in buckets.active if job.spec.suspend)),
    }
    before = {each.name: each for each in jobset.status.replicated_jobs_status}
    entries = []
    for name in sorted(names, reverse=True):
        counts = {field: tally[name] for field, tally in tallies.items()}
        kept = before.get(name) if gates.restart_job else None
        entries.append(msgspec.structs.replace(kept or ReplicatedJobStatus(name=name), **counts))
    return tuple(entries)


def is_ready(job: Job) -> bool:
    """As many pods ready or succeeded as the Job runs at once."""
    spec = job.spec
    wanted = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is not None:
        wanted = min(wanted, spec.completions)
    return job.status.succeeded + job.status.ready >= wanted


def started(entry: ReplicatedJobStatus) -> int:
    """How many Jobs have come to run, however it ended."""
    return entry.ready + entry.succeeded + entry.failed


def _tally(names: Iterable[str], jobs: Iterable[Job]) -> dict[str, int]:
    tally = dict.fromkeys(names, 0)
    for job in jobs:
        name = job.metadata.labels.get(labels.REPLICATED_JOB_NAME, "")
        if name in tally:
            tally[name] += 1
    return tally
