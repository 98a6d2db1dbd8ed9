"""The labels and annotations of a JobSet's Jobs and pods (section 2.1). Pure.

What is common to a replicated job's Jobs is computed once; each Job adds five keys of its own.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from jobset.api import labels
from jobset.api.jobset import JobSet, ReplicatedJob
from jobset.api.meta import Object
from jobset.core.features import FeatureGates
from jobset.core.names import coordinator_endpoint, job_key, subdomain


class JobLabels(Struct, frozen=True):
    """Makes the labels of any Job of one replicated job."""

    namespace: str
    common: dict[str, str]
    first_global_index: int
    first_group_index: int
    restarts: tuple[int, ...] | None
    """Individual restarts by job index; None without gate RestartJob."""

    def of(self, index: int, name: str) -> dict[str, str]:
        found = {
            **self.common,
            labels.JOB_INDEX: str(index),
            labels.JOB_GLOBAL_INDEX: str(self.first_global_index + index),
            labels.JOB_GROUP_INDEX: str(self.first_group_index + index),
            labels.JOB_KEY: job_key(self.namespace, name),
        }
        if self.restarts is not None:
            attempt = self.restarts[index] if index < len(self.restarts) else 0
            found[labels.JOB_RESTART_ATTEMPT] = str(attempt)
        return found


def labels_by_replicated_job(jobset: JobSet, gates: FeatureGates) -> dict[str, JobLabels]:
    """For every replicated job of the spec."""
    replicated_jobs = jobset.spec.replicated_jobs
    group_replicas: dict[str, int] = {}
    for each in replicated_jobs:
        group_replicas[each.group_name] = group_replicas.get(each.group_name, 0) + each.replicas
    for_all = _of_jobset(jobset, sum(group_replicas.values()))
    restarts = {entry.name: entry.job_restarts for entry in jobset.status.replicated_jobs_status}
    found: dict[str, JobLabels] = {}
    global_index = 0
    group_index = dict.fromkeys(group_replicas, 0)
    for each in replicated_jobs:
        own = restarts.get(each.name, msgspec.UNSET)
        found[each.name] = JobLabels(
            namespace=jobset.metadata.namespace,
            common={
                **for_all,
                labels.REPLICATED_JOB_NAME: each.name,
                labels.REPLICATED_JOB_REPLICAS: str(each.replicas),
                labels.GROUP_NAME: each.group_name,
                labels.GROUP_REPLICAS: str(group_replicas[each.group_name]),
            },
            first_global_index=global_index,
            first_group_index=group_index[each.group_name],
            restarts=(own if isinstance(own, tuple) else ()) if gates.restart_job else None,
        )
        global_index += each.replicas
        group_index[each.group_name] += each.replicas
    return found


def placement_annotations(jobset: JobSet, replicated_job: ReplicatedJob) -> dict[str, str]:
    """Exclusive placement as asked for by the JobSet or, which weighs more, by the replicated job."""
    found: dict[str, str] = {}
    for level in (jobset.metadata.annotations, annotations_of(replicated_job.template)):
        if labels.EXCLUSIVE_TOPOLOGY in level:
            keys = (labels.EXCLUSIVE_TOPOLOGY, labels.NODE_SELECTOR_STRATEGY)
            found.update((key, level[key]) for key in keys if key in level)
    return found


def labels_of(template: Object) -> dict[str, str]:
    return (template.get("metadata") or {}).get("labels") or {}


def annotations_of(template: Object) -> dict[str, str]:
    return (template.get("metadata") or {}).get("annotations") or {}


def _of_jobset(jobset: JobSet, replicas: int) -> dict[str, str]:
    name = jobset.metadata.name
    found = {
        labels.JOBSET_NAME: name,
        labels.JOBSET_UID: jobset.metadata.uid,
        labels.GLOBAL_REPLICAS: str(replicas),
        labels.RESTART_ATTEMPT: str(jobset.status.restarts),
    }
    if jobset.spec.coordinator is not None:
        found[labels.COORDINATOR] = coordinator_endpoint(name, jobset.spec.coordinator, subdomain(jobset))
    return found
