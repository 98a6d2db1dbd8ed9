"""What the Job controller sees in a pod: its phase, index, finalizer, readiness and when it ended. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from jobset.api.labels import JOB_COMPLETION_INDEX, JOB_TRACKING_FINALIZER
from jobset.api.meta import Object, parse_time
from jobset.cluster.model.job.spec import JobSpec

INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED_FAILURES = "batch.kubernetes.io/job-index-ignored-failure-count"


class JobPod(Struct, frozen=True):
    raw: Object
    uid: str
    phase: str
    deleted: bool
    """Deletion was asked for; the pod may go on for its grace period."""
    tracked: bool
    """Its finalizer says that it has not been counted yet."""
    index: int | None

    @property
    def ended(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def active(self) -> bool:
        return not self.deleted and not self.ended

    @property
    def terminating(self) -> bool:
        return self.deleted and not self.ended

    @property
    def name(self) -> str:
        return str(self.raw["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.raw["metadata"]["namespace"])


def read_pod(raw: Object) -> JobPod:
    metadata = raw["metadata"]
    return JobPod(
        raw=raw,
        uid=metadata["uid"],
        phase=raw.get("status", {}).get("phase", "Pending"),
        deleted="deletionTimestamp" in metadata,
        tracked=is_finalized(raw),
        index=_number((metadata.get("annotations") or {}).get(JOB_COMPLETION_INDEX)),
    )


def is_finalized(raw: Object) -> bool:
    """Whether a raw pod has the tracking finalizer."""
    return JOB_TRACKING_FINALIZER in (raw["metadata"].get("finalizers") or ())


def is_failed(pod: JobPod, spec: JobSpec) -> bool:
    """A deleted pod counts as failed at once, as it may never reach a phase, unless the Job waits for that phase."""
    if pod.phase == "Failed":
        return True
    return pod.deleted and pod.phase != "Succeeded" and not spec.replaces_only_failed


def is_ready(pod: JobPod) -> bool:
    return ready_since(pod.raw) is not None


def ready_since(raw: Object) -> str | None:
    """When the pod became ready, as RFC 3339 text (empty if unknown); None when it is not ready."""
    for condition in raw.get("status", {}).get("conditions") or ():
        if condition["type"] == "Ready":
            return (condition.get("lastTransitionTime") or "") if condition["status"] == "True" else None
    return None


def restarts(raw: Object) -> int:
    """Restarts of all containers together."""
    status = raw.get("status", {})
    lists = (status.get("initContainerStatuses") or (), status.get("containerStatuses") or ())
    return sum(container.get("restartCount", 0) for statuses in lists for container in statuses)


def index_failures(pod: JobPod) -> tuple[int, int]:
    """(counted, ignored) failures of the pod's index before this pod; each pod hands them on to its successor."""
    annotations = pod.raw["metadata"].get("annotations") or {}
    return _number(annotations.get(INDEX_FAILURES)) or 0, _number(annotations.get(INDEX_IGNORED_FAILURES)) or 0


def finished_at(raw: Object) -> datetime:
    """When the pod ended: its last container's end, else when it ceased to be ready, else when it was deleted."""
    status, metadata = raw.get("status", {}), raw["metadata"]
    statuses = status.get("containerStatuses") or ()
    ends = [(container.get("state") or {}).get("terminated", {}).get("finishedAt") for container in statuses]
    if ends and all(ends):
        return max(parse_time(end) for end in ends)
    for condition in status.get("conditions") or ():
        if condition["type"] == "Ready" and condition["status"] == "False" and condition.get("lastTransitionTime"):
            return parse_time(condition["lastTransitionTime"])
    if "deletionTimestamp" in metadata:
        grace = timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
        return parse_time(metadata["deletionTimestamp"]) - grace
    return parse_time(metadata["creationTimestamp"])


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
