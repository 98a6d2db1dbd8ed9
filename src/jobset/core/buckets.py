"""Which of a JobSet's Jobs are active, successful, failed, or left from a previous attempt (section 6.3). Pure.

First step of every pass. A Job counts as failed as soon as the Job controller has given it up (`FailureTarget`), not
only when its last pod has terminated (`Failed`): the time in between belongs to the restart.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct

from jobset.api import labels
from jobset.api.jobs import Job
from jobset.api.jobset import JobSet
from jobset.api.meta import Condition, is_true
from jobset.core.features import FeatureGates


class Buckets(Struct, frozen=True):
    """Every Job the JobSet controls is in exactly one of these, by name."""

    active: tuple[Job, ...] = ()
    successful: tuple[Job, ...] = ()
    failed: tuple[Job, ...] = ()
    previous: tuple[Job, ...] = ()
    """Of an attempt that a restart has put an end to."""
    unreadable: tuple[Job, ...] = ()
    """Their labels, which are not ours any more, do not tell which Job of which attempt they are."""


def sort_into_buckets(jobset: JobSet, jobs: Iterable[Job], gates: FeatureGates) -> Buckets:
    """`jobs` in the order they shall keep."""
    attempts = _Attempts(jobset, gates)
    found: dict[str, list[Job]] = {name: [] for name in Buckets.__struct_fields__}
    for job in jobs:
        found[attempts.standing(job) or outcome(job)].append(job)
    return Buckets(**{name: tuple(of_it) for name, of_it in found.items()})


def failure_of(job: Job) -> Condition | None:
    """The condition by which a Job failed, or is bound to fail."""
    target = None
    for condition in job.status.conditions:
        if condition.status == "True":
            if condition.type == "Failed":
                return condition
            if condition.type == "FailureTarget":
                target = condition
    return target


def outcome(job: Job) -> str:
    """The bucket of a current Job."""
    if not job.status.conditions:
        return "active"
    if failure_of(job) is not None:
        return "failed"
    return "successful" if is_true(job.status.conditions, "Complete") else "active"


class _Attempts:
    """What a Job's attempt labels must be for the Job to be current."""

    def __init__(self, jobset: JobSet, gates: FeatureGates) -> None:
        self._restarts = jobset.status.restarts
        self._per_job = gates.restart_job
        self._replicas = {each.name: each.replicas for each in jobset.spec.replicated_jobs}
        self._job_restarts = {
            each.name: each.job_restarts
            for each in jobset.status.replicated_jobs_status
            if isinstance(each.job_restarts, tuple)
        }

    def standing(self, job: Job) -> str:
        """`previous`, `unreadable`, or empty for a current Job. An attempt ahead of the status is current."""
        found = job.metadata.labels
        attempt = number(found.get(labels.RESTART_ATTEMPT))
        if attempt is None:
            return "unreadable"
        if attempt < self._restarts:
            return "previous"
        return self._standing_alone(found) if self._per_job else ""

    def _standing_alone(self, found: dict[str, str]) -> str:
        replicated_job = found.get(labels.REPLICATED_JOB_NAME, "")
        index = number(found.get(labels.JOB_INDEX))
        if index is None or not 0 <= index < self._replicas.get(replicated_job, 0):
            return "unreadable"
        # A Job from before the gate was on bears no label: it is the Job's first attempt.
        attempt = number(found.get(labels.JOB_RESTART_ATTEMPT, "0"))
        if attempt is None:
            return "unreadable"
        restarts = self._job_restarts.get(replicated_job, ())
        return "previous" if index < len(restarts) and attempt < restarts[index] else ""


@lru_cache(maxsize=4096)
def number(text: str | None) -> int | None:
    """The whole number that a label's text is, or None."""
    return int(text) if text is not None and text.isascii() and text.removeprefix("-").isdigit() else None
