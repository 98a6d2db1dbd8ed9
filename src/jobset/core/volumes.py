"""Claims made from spec.volumeClaimPolicies, and the volumes by which pods use them (section 10.2). Pure.

A claim that exists is left alone, whoever made it: reusing one that was retained is what `Retain` is for.
"""

from __future__ import annotations

from collections.abc import Iterator

from jobset.api import labels
from jobset.api.jobset import JobSet, VolumeClaimPolicy
from jobset.api.meta import Object
from jobset.api.resources import PERSISTENT_VOLUME_CLAIMS
from jobset.core.actions import CreateObject, Why
from jobset.core.labels import annotations_of, labels_of
from jobset.core.names import claim_name
from jobset.core.observed import Observed
from jobset.core.owner import owner_reference


def claim_names(jobset: JobSet) -> list[str]:
    return [claim_name(template["metadata"]["name"], jobset.metadata.name) for _, template in _templates(jobset)]


def create_claims(observed: Observed) -> list[CreateObject]:
    """The claims that are not there."""
    return [each for each in claims(observed.jobset) if each.body["metadata"]["name"] not in observed.claims]


def claims(jobset: JobSet) -> list[CreateObject]:
    return [_claim(jobset, policy, template) for policy, template in _templates(jobset)]


def with_claims(pod_spec: Object, jobset: JobSet) -> Object:
    """With a volume for every claim template that a container mounts by name."""
    mounted = {
        mount.get("name")
        for kind in ("initContainers", "containers")
        for container in pod_spec.get(kind) or ()
        for mount in container.get("volumeMounts") or ()
    }
    names = [template["metadata"]["name"] for _, template in _templates(jobset)]
    added = [
        {"name": name, "persistentVolumeClaim": {"claimName": claim_name(name, jobset.metadata.name)}}
        for name in names
        if name in mounted
    ]
    return {**pod_spec, "volumes": [*(pod_spec.get("volumes") or ()), *added]} if added else pod_spec


def _templates(jobset: JobSet) -> Iterator[tuple[VolumeClaimPolicy, Object]]:
    for policy in jobset.spec.volume_claim_policies:
        for template in policy.templates:
            yield policy, template


def _claim(jobset: JobSet, policy: VolumeClaimPolicy, template: Object) -> CreateObject:
    name = template["metadata"]["name"]
    metadata: Object = {
        "name": claim_name(name, jobset.metadata.name),
        "namespace": jobset.metadata.namespace,
        "labels": {**labels_of(template), labels.JOBSET_NAME: jobset.metadata.name},
    }
    if annotations := annotations_of(template):
        metadata["annotations"] = annotations
    retention = policy.retention_policy
    if retention is not None and retention.when_deleted == "Delete":
        metadata["ownerReferences"] = [owner_reference(jobset)]
    body: Object = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": template.get("spec") or {},
    }
    return CreateObject(
        PERSISTENT_VOLUME_CLAIMS,
        body,
        Why("CreateClaim", f"claim of template {name}, shared by all pods that mount it"),
        failure_event="PVCCreationFailed",
    )
