"""Why a JobSet is not finished yet: asks the core's explanation, with what the API knows at this moment. Only reads."""

from __future__ import annotations

from datetime import datetime
from typing import cast

from jobset.api.errors import NotFound
from jobset.api.jobs import Job
from jobset.api.jobset import JobSet, from_object
from jobset.api.meta import Object
from jobset.api.resources import JOBS, JOBSETS, PERSISTENT_VOLUME_CLAIMS, SERVICES
from jobset.client.port import Reader
from jobset.core.explain import why_waiting
from jobset.core.features import FeatureGates
from jobset.core.names import service_name
from jobset.core.observed import Observed, observed_of
from jobset.core.volumes import claim_names

_RAW = cast("type[Object]", dict)


async def why_not_finished(reader: Reader, namespace: str, name: str, now: datetime) -> list[str]:
    """Sentences; none when all its Jobs run, or when there is no such JobSet."""
    try:
        raw = await reader.get(JOBSETS, namespace, name, _RAW)
    except NotFound:
        return []
    return why_waiting(await _observe(reader, raw, from_object(raw), now))


async def _observe(reader: Reader, raw: Object, jobset: JobSet, now: datetime) -> Observed:
    namespace = jobset.metadata.namespace
    jobs = {job.metadata.name: job for job in (await reader.list(JOBS, Job, namespace=namespace)).items}
    claims = await reader.list(PERSISTENT_VOLUME_CLAIMS, _RAW, namespace=namespace)
    existing = {claim["metadata"]["name"] for claim in claims.items}
    try:
        service: Object | None = await reader.get(SERVICES, namespace, service_name(jobset), _RAW)
    except NotFound:
        service = None
    return observed_of(
        raw,
        jobset,
        jobs=[job for job in jobs.values() if _owner_uid(job) == jobset.metadata.uid],
        find_job=jobs.get,
        service=service,
        claims=[claim for claim in claim_names(jobset) if claim in existing],
        gates=FeatureGates(),
        now=now,
    )


def _owner_uid(job: Job) -> str:
    owner = job.metadata.controller
    return "" if owner is None else owner.uid
