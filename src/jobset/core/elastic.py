"""Bringing running Jobs to a changed parallelism and completions (section 10.1, gate ElasticJobSet). Pure."""

from __future__ import annotations

from jobset.api import labels
from jobset.api.resources import JOBS
from jobset.core.actions import PatchObject, Why
from jobset.core.observed import Observed


def resize_jobs(observed: Observed) -> list[PatchObject]:
    """A patch for each active Job that differs from its template; templates that are not elastic are left alone."""
    if not observed.gates.elastic_jobset:
        return []
    sizes: dict[str, int] = {}
    for each in observed.jobset.spec.replicated_jobs:
        spec = each.template.get("spec") or {}
        size = spec.get("parallelism")
        if size is not None and size == spec.get("completions"):
            sizes[each.name] = size
    actions = []
    for job in observed.buckets.active:
        size = sizes.get(job.metadata.labels.get(labels.REPLICATED_JOB_NAME, ""))
        if (
            size is None
            or job.metadata.deletion_timestamp
            or (job.spec.parallelism, job.spec.completions) == (size, size)
        ):
            continue
        actions.append(
            PatchObject(
                JOBS,
                job.metadata.namespace,
                job.metadata.name,
                {"spec": {"parallelism": size, "completions": size}},
                Why("ResizeJob", f"the template now asks for {size} pods"),
                uid=job.metadata.uid,
            )
        )
    return actions
