"""Why a JobSet is not finished yet: asks the core's explanation, with what the API knows at this moment. Only reads."""

from __future__ import annotations

from datetime import datetime
from typing import cast

from jobset.api.errors import NotFound
from jobset.api.jobs import Job
from jobset.api.jobset import from_object
from jobset.api.meta import Object
from jobset.api.resources import JOBS, JOBSETS, PERSISTENT_VOLUME_CLAIMS, SERVICES
from jobset.client.port import Reader
from jobset.core.explain import observed_at_once, why_waiting
from jobset.core.features import FeatureGates
from jobset.core.names import service_name

_RAW = cast("type[Object]", dict)


async def why_not_finished(reader: Reader, namespace: str, name: str, now: datetime) -> list[str]:
    """Sentences; none when all its Jobs run, or when there is no such JobSet."""
    try:
        raw = await reader.get(JOBSETS, namespace, name, _RAW)
    except NotFound:
        return []
    jobset = from_object(raw)
    try:
        service: Object | None = await reader.get(SERVICES, namespace, service_name(jobset), _RAW)
    except NotFound:
        service = None
    observed = observed_at_once(
        raw,
        jobs=(await reader.list(JOBS, Job, namespace=namespace)).items,
        claims=(await reader.list(PERSISTENT_VOLUME_CLAIMS, _RAW, namespace=namespace)).items,
        service=service,
        gates=FeatureGates(),
        now=now,
    )
    return why_waiting(observed)
