"""What a pass needs of a Job's spec, read once, with the defaults of Kubernetes 1.36. Pure.

The pod template is not read here: `template.py` copies it into pods without losing a field.
"""

from __future__ import annotations

from msgspec import Struct

from jobset.api.meta import Object

JOB_CONTROLLER = "kubernetes.io/job-controller"
UNLIMITED = 2**31 - 1
DEFAULT_BACKOFF_LIMIT = 6


class JobSpec(Struct, frozen=True):
    parallelism: int
    completions: int | None
    """None: a work queue, complete once a pod succeeded and none is left."""
    indexed: bool
    suspended: bool
    backoff_limit: int
    backoff_limit_per_index: int | None
    max_failed_indexes: int | None
    active_deadline_s: int | None
    replaces_only_failed: bool
    """Whether a terminating pod still holds its place (podReplacementPolicy Failed)."""
    restarts_in_place: bool
    """Whether containers restart in their pod (restartPolicy OnFailure), so that their restarts count too."""
    failure_policy: Object | None
    success_policy: Object | None

    def counts_index(self, index: int | None) -> bool:
        """Whether a pod of this index counts: those of no index, or beyond completions after a shrink, do not."""
        return not self.indexed or (index is not None and index < (self.completions or 0))


def read_spec(job: Object) -> JobSpec:
    spec = job["spec"]
    per_index = spec.get("backoffLimitPerIndex")
    return JobSpec(
        parallelism=spec.get("parallelism", 1),
        completions=spec.get("completions"),
        indexed=spec.get("completionMode") == "Indexed",
        suspended=bool(spec.get("suspend")),
        backoff_limit=spec.get("backoffLimit", DEFAULT_BACKOFF_LIMIT if per_index is None else UNLIMITED),
        backoff_limit_per_index=per_index,
        max_failed_indexes=spec.get("maxFailedIndexes"),
        active_deadline_s=spec.get("activeDeadlineSeconds"),
        replaces_only_failed=spec.get("podReplacementPolicy") == "Failed" or spec.get("podFailurePolicy") is not None,
        restarts_in_place=spec["template"]["spec"].get("restartPolicy") == "OnFailure",
        failure_policy=spec.get("podFailurePolicy"),
        success_policy=spec.get("successPolicy"),
    )


def is_managed_here(job: Object) -> bool:
    """Whether the Job is the Job controller's own: `managedBy` may name another one, who must not be disturbed."""
    return bool(job["spec"].get("managedBy", JOB_CONTROLLER) == JOB_CONTROLLER)
