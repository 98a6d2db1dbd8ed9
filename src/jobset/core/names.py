"""The names of everything a JobSet brings about: Jobs, pods, the Service, claims, the coordinator (section 3). Pure.

Names are API: users, Kueue and the pods themselves rely on them. Whether a name is legal is admission's to decide.
"""

from __future__ import annotations

import hashlib

from jobset.api.jobset import Coordinator, JobSet

POD_NAME_SUFFIX_LENGTH = 6
"""A dash and the five random characters that the Job controller adds to a pod's hostname."""

GENERATED_NAME_PREFIX_MAX = 58
GENERATED_NAME_SUFFIX_LENGTH = 5


def job_name(jobset: str, replicated_job: str, index: int) -> str:
    """The child Job of one replica; `index` is its job index."""
    return f"{jobset}-{replicated_job}-{index}"


def pod_hostname(job: str, pod_index: int) -> str:
    """The hostname of the pod with this completion index; the pod's name has a random suffix on top."""
    return f"{job}-{pod_index}"


def subdomain(jobset: JobSet) -> str:
    """The pods' subdomain, which is also the headless Service's name."""
    network = jobset.spec.network
    return (network.subdomain if network else "") or jobset.metadata.name


service_name = subdomain


def claim_name(template: str, jobset: str) -> str:
    """The PersistentVolumeClaim made from a template of spec.volumeClaimPolicies."""
    return f"{template}-{jobset}"


def coordinator_endpoint(jobset: str, coordinator: Coordinator, domain: str) -> str:
    """The DNS name at which the pods of a JobSet reach its coordinator; `domain` is the subdomain."""
    job = job_name(jobset, coordinator.replicated_job, coordinator.job_index)
    return f"{pod_hostname(job, coordinator.pod_index)}.{domain}"


def job_key(namespace: str, job: str) -> str:
    """A label-sized key unique to a Job in the cluster: SHA-1, as hexadecimal digits. Not for secrecy."""
    return hashlib.sha1(f"{namespace}/{job}".encode(), usedforsecurity=False).hexdigest()


def namespaced_job(namespace: str, job: str) -> str:
    """The value of the node label that the node-selector placement strategy selects by."""
    return f"{namespace}_{job}"
