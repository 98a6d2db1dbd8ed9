"""The pods of a Job, made from its template. Pure.

Pods share the template's own spec: thousands of them would not fit into memory as copies. Only what a completion index
adds is new, and what all indexes have alike is made once a pass.
"""

from __future__ import annotations

from collections.abc import Iterator

from jobset.api.labels import JOB_COMPLETION_INDEX, JOB_TRACKING_FINALIZER
from jobset.api.meta import Object
from jobset.cluster.model.job.failure_policy import rule_on
from jobset.cluster.model.job.pods import INDEX_FAILURES, INDEX_IGNORED_FAILURES, JobPod, index_failures
from jobset.cluster.model.job.spec import JobSpec

MAX_PREFIX = 58
"""A generated name is at most 63 characters, five of them random."""
_INDEX_ENV: Object = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{JOB_COMPLETION_INDEX}']"}},
}


def controller_reference(job: Object) -> Object:
    metadata = job["metadata"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


class PodTemplate:
    """Makes the pods of one pass. `suffixes` yields the random ends of their names."""

    def __init__(self, job: Object, spec: JobSpec, suffixes: Iterator[str]) -> None:
        template = job["spec"]["template"]
        self._job_name: str = job["metadata"]["name"]
        self._spec = spec
        self._suffixes = suffixes
        self._metadata: Object = template.get("metadata") or {}
        self._pod_spec: Object = _with_index_env(template["spec"]) if spec.indexed else template["spec"]
        self._shared: Object = {
            "namespace": job["metadata"]["namespace"],
            "finalizers": _with_tracking(self._metadata.get("finalizers") or []),
            "ownerReferences": [controller_reference(job)],
        }

    def pod(self) -> Object:
        """A pod of a NonIndexed Job."""
        return self._build(f"{self._job_name}-", self._metadata, self._pod_spec)

    def pod_of_index(self, index: int, predecessor: JobPod | None) -> Object:
        """A pod of this completion index, which takes over the failure counts of its predecessor."""
        annotations = {**(self._metadata.get("annotations") or {}), JOB_COMPLETION_INDEX: str(index)}
        if self._spec.backoff_limit_per_index is not None:
            annotations.update(_failure_counts(self._spec, predecessor))
        labels = {**(self._metadata.get("labels") or {}), JOB_COMPLETION_INDEX: str(index)}
        metadata = {"labels": labels, "annotations": annotations}
        hostname = f"{self._job_name}-{index}"
        return self._build(_index_prefix(self._job_name, index), metadata, {**self._pod_spec, "hostname": hostname})

    def _build(self, prefix: str, own: Object, pod_spec: Object) -> Object:
        metadata = {"name": prefix[:MAX_PREFIX] + next(self._suffixes), "generateName": prefix, **self._shared}
        for key in ("labels", "annotations"):
            if own.get(key):
                metadata[key] = own[key]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec}


def _with_index_env(pod_spec: Object) -> Object:
    changed = {
        key: [_container_with_index(container) for container in pod_spec[key]]
        for key in ("initContainers", "containers")
        if pod_spec.get(key)
    }
    return {**pod_spec, **changed}


def _container_with_index(container: Object) -> Object:
    env = container.get("env") or []
    if any(variable["name"] == "JOB_COMPLETION_INDEX" for variable in env):
        return container
    return {**container, "env": [*env, _INDEX_ENV]}


def _with_tracking(finalizers: list[str]) -> list[str]:
    return finalizers if JOB_TRACKING_FINALIZER in finalizers else [*finalizers, JOB_TRACKING_FINALIZER]


def _index_prefix(job_name: str, index: int) -> str:
    """`<job>-<index>-`, of which a long Job name is cut and never the index."""
    end = f"-{index}-"
    return job_name[: MAX_PREFIX - len(end)] + end


def _failure_counts(spec: JobSpec, predecessor: JobPod | None) -> dict[str, str]:
    if predecessor is None:
        return {INDEX_FAILURES: "0"}
    counted, ignored = index_failures(predecessor)
    if rule_on(spec.failure_policy, predecessor.raw).counted:
        counted += 1
    else:
        ignored += 1
    return {INDEX_FAILURES: str(counted), **({INDEX_IGNORED_FAILURES: str(ignored)} if ignored else {})}
