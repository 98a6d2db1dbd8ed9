"""How a JobSet's Jobs are built, created and deleted (sections 6.5 and 6.10). Pure.

Templates are raw and stay whole: a Job shares with its template everything that is not the Job's own.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from jobset.api import labels
from jobset.api.jobs import Job
from jobset.api.jobset import JobSet, ReplicatedJob
from jobset.api.meta import Object
from jobset.api.resources import JOBS
from jobset.core.actions import CreateObject, DeleteObject, Why
from jobset.core.labels import JobLabels, annotations_of, labels_by_replicated_job, labels_of, placement_annotations
from jobset.core.names import job_name, namespaced_job
from jobset.core.network import pod_subdomain
from jobset.core.observed import Observed
from jobset.core.owner import owner_reference
from jobset.core.startup_policy import Startup
from jobset.core.volumes import with_claims


class JobBuilder(Struct, frozen=True):
    """Makes the Jobs of one replicated job; what they have in common is computed once."""

    jobset: JobSet
    labels: JobLabels
    job_labels: dict[str, str]
    job_annotations: dict[str, str]
    spec: Object
    """Of the Job, without its pod template."""
    pod_labels: dict[str, str]
    pod_annotations: dict[str, str]
    pod_template: Object
    pod_spec: Object
    placement: dict[str, str]
    owner: Object

    def build(self, replicated_job: str, index: int) -> Object:
        """The Job with this job index, of the JobSet's present attempt."""
        metadata = self.jobset.metadata
        name = job_name(metadata.name, replicated_job, index)
        own = self.labels.of(index, name)
        annotations = {**self.job_annotations, **own, **self.placement}
        pod_metadata = {
            **(self.pod_template.get("metadata") or {}),
            "labels": {**self.pod_labels, **own},
            "annotations": {**self.pod_annotations, **own, **self.placement},
        }
        pod_spec = self.pod_spec
        if labels.EXCLUSIVE_TOPOLOGY in annotations and labels.NODE_SELECTOR_STRATEGY in annotations:
            pod_spec = _with_node_selector(pod_spec, namespaced_job(metadata.namespace, name))
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "namespace": metadata.namespace,
                "labels": {**self.job_labels, **own},
                "annotations": annotations,
                "ownerReferences": [self.owner],
            },
            "spec": {**self.spec, "template": {**self.pod_template, "metadata": pod_metadata, "spec": pod_spec}},
        }


def job_builder(jobset: JobSet, replicated_job: ReplicatedJob, job_labels: JobLabels) -> JobBuilder:
    template = replicated_job.template
    spec: Object = template.get("spec") or {}
    pod_template: Object = spec.get("template") or {}
    pod_spec: Object = pod_template.get("spec") or {}
    if domain := pod_subdomain(jobset):
        pod_spec = {**pod_spec, "subdomain": domain}
    return JobBuilder(
        jobset=jobset,
        labels=job_labels,
        job_labels=labels_of(template),
        job_annotations=annotations_of(template),
        spec={**spec, "suspend": bool(jobset.spec.suspend)},
        pod_labels=labels_of(pod_template),
        pod_annotations=annotations_of(pod_template),
        pod_template=pod_template,
        pod_spec=with_claims(pod_spec, jobset),
        placement=placement_annotations(jobset, replicated_job),
        owner=owner_reference(jobset),
    )


def create_jobs(observed: Observed, startup: Startup) -> list[CreateObject]:
    """The Jobs that are missing of replicated jobs whose turn it is. A Job that is not gone yet keeps its name."""
    jobset = observed.jobset
    policy = jobset.spec.failure_policy
    if policy is not None and policy.restart_strategy == "BlockingRecreate" and observed.buckets.previous:
        return []
    if not observed.missing:
        return []
    job_labels = labels_by_replicated_job(jobset, observed.gates)
    actions: list[CreateObject] = []
    for each in startup.open:
        if indexes := observed.missing.get(each.name):
            actions.extend(create_jobs_of(jobset, each, job_labels[each.name], indexes))
    return actions


def create_jobs_of(
    jobset: JobSet, replicated_job: ReplicatedJob, job_labels: JobLabels, indexes: Iterable[int], when: str = ""
) -> list[CreateObject]:
    """`when` adds to the reason what the Jobs wait for, in words."""
    builder = job_builder(jobset, replicated_job, job_labels)
    attempt = jobset.status.restarts
    return [
        CreateObject(
            JOBS,
            builder.build(replicated_job.name, index),
            Why(
                "CreateJob",
                f"job {index} of {replicated_job.replicas} of replicated job {replicated_job.name}, "
                f"attempt {attempt}{when}",
            ),
            failure_event="JobCreationFailed",
        )
        for index in indexes
    ]


def delete_jobs(jobs: Iterable[Job], why: Why) -> list[DeleteObject]:
    """Foreground: a Job's name is free again only when its pods are gone."""
    return [
        DeleteObject(JOBS, job.metadata.namespace, job.metadata.name, job.metadata.uid, why, propagation="Foreground")
        for job in jobs
        if not job.metadata.deletion_timestamp
    ]


def _with_node_selector(pod_spec: Object, value: str) -> Object:
    toleration = {"key": labels.NO_SCHEDULE_TAINT, "operator": "Exists", "effect": "NoSchedule"}
    return {
        **pod_spec,
        "nodeSelector": {**(pod_spec.get("nodeSelector") or {}), labels.NAMESPACED_JOB: value},
        "tolerations": [*(pod_spec.get("tolerations") or ()), toleration],
    }
