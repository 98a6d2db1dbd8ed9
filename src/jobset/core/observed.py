"""Everything that may matter to one pass over a JobSet, in one frozen value. Pure.

Stands between the caches and `plan`: `operator/jobset.py` hands over what the caches hold, `observed_of` sorts it.
Nothing is decided here but which objects are ours, which are in the way, and which are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime

from msgspec import Struct

from jobset.api.jobs import Job
from jobset.api.jobset import KIND, JobSet
from jobset.api.meta import Object, controller_of
from jobset.core.buckets import Buckets, sort_into_buckets
from jobset.core.features import FeatureGates
from jobset.core.names import job_name


class Observed(Struct, frozen=True):
    """What a pass knows. `raw` is the JobSet as the API gave it, `jobset` its view."""

    raw: Object
    jobset: JobSet
    buckets: Buckets
    missing: dict[str, tuple[int, ...]]
    """Job indexes, by replicated job, whose Job name nobody bears."""
    foreign: tuple[Job, ...]
    """Jobs that bear one of our names without being ours, by name."""
    service: Object | None
    """Whatever Service bears the subdomain's name."""
    claims: frozenset[str]
    """Names of the PersistentVolumeClaims there are, among those the JobSet wants."""
    gates: FeatureGates
    now: datetime

    @property
    def suspended(self) -> bool:
        return bool(self.jobset.spec.suspend)


def observed_of(
    raw: Object,
    jobset: JobSet,
    *,
    jobs: Iterable[Job],
    find_job: Callable[[str], Job | None],
    service: Object | None,
    claims: Collection[str],
    gates: FeatureGates,
    now: datetime,
) -> Observed:
    """`jobs` are those the JobSet controls; `find_job` looks a name up among all Jobs of its namespace."""
    owned = sorted(jobs, key=lambda job: job.metadata.name)
    taken = {job.metadata.name for job in owned}
    missing: dict[str, tuple[int, ...]] = {}
    foreign: list[Job] = []
    for replicated_job in jobset.spec.replicated_jobs:
        absent: list[int] = []
        for index in range(replicated_job.replicas):
            name = job_name(jobset.metadata.name, replicated_job.name, index)
            if name in taken:
                continue
            other = find_job(name)
            if other is None:
                absent.append(index)
            else:
                foreign.append(other)
        if absent:
            missing[replicated_job.name] = tuple(absent)
    return Observed(
        raw=raw,
        jobset=jobset,
        buckets=sort_into_buckets(jobset, owned, gates),
        missing=missing,
        foreign=tuple(sorted(foreign, key=lambda job: job.metadata.name)),
        service=service,
        claims=frozenset(claims),
        gates=gates,
        now=now,
    )


def is_controlled_by(obj: Object, jobset: JobSet) -> bool:
    """Whether a raw object's controller is this very JobSet."""
    owner = controller_of(obj)
    return owner is not None and owner.get("uid") == jobset.metadata.uid


def is_leaving(job: Job, jobset: JobSet) -> bool:
    """Whether a foreign Job goes away by itself: it is being deleted, or its owner was a JobSet of the same name."""
    owner = job.metadata.controller
    namesake = owner is not None and owner.kind == KIND and owner.name == jobset.metadata.name
    return bool(job.metadata.deletion_timestamp) or namesake
