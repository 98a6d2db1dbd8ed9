"""Suspending and resuming a JobSet's Jobs (sections 6.11 and 6.12). Pure.

On resuming, a Job's pod template gets what a Job built now would have: labels, annotations, nodeSelector, tolerations
and schedulingGates of the JobSet's template, in its order and without what was removed from it. Keys of JobSet's and
Kubernetes' own stay. The API server takes such a change only from a Job that its controller has seen suspended, and
older ones only while its status has no start time: so a Job that ran before needs two passes.
"""

from __future__ import annotations

from collections.abc import Iterable

from jobset.api import labels
from jobset.api.jobs import Job
from jobset.api.meta import Object, is_true
from jobset.api.resources import JOBS
from jobset.core import conditions
from jobset.core.actions import PatchObject, Why
from jobset.core.labels import annotations_of, labels_of
from jobset.core.observed import Observed
from jobset.core.startup_policy import Startup
from jobset.core.status import StatusDraft

_RESERVED_KEYS = ("controller-uid", "job-name")
_RESERVED_DOMAINS = ("batch.kubernetes.io", "jobset.sigs.k8s.io", "alpha.jobset.sigs.k8s.io")


def suspend_jobs(observed: Observed, draft: StatusDraft) -> list[PatchObject]:
    """Suspend every active Job that runs."""
    message = "jobset is suspended"
    draft.set_condition(conditions.SUSPENDED, "True", "SuspendedJobs", message, "Normal")
    draft.end_restart("JobSetSuspended", message)
    why = Why("SuspendJob", message)
    return [
        _patch(job, {"spec": {"suspend": True}}, why)
        for job in observed.buckets.active
        if not job.spec.suspend and not job.metadata.deletion_timestamp
    ]


def resume_jobs(observed: Observed, startup: Startup, draft: StatusDraft) -> list[PatchObject]:
    """Resume the suspended Jobs of replicated jobs whose turn it is; resumed is the JobSet once all had theirs."""
    suspended = [job for job in observed.buckets.active if job.spec.suspend and not job.metadata.deletion_timestamp]
    templates = {each.name: (each.template.get("spec") or {}).get("template") or {} for each in startup.open}
    closed = {each.name for each, _ in startup.waiting}
    actions: list[PatchObject] = []
    whole = startup.complete
    for job in suspended:
        name = job.metadata.labels.get(labels.REPLICATED_JOB_NAME, "")
        if name in closed:
            continue
        patch = _next_step(job, templates.get(name))
        whole = whole and patch is not None and not patch.subresource
        if patch is not None:
            actions.append(patch)
    if whole:
        draft.set_condition(conditions.SUSPENDED, "False", "ResumeJobs", "jobset is resumed", "Normal")
    return actions


def _next_step(job: Job, template: Object | None) -> PatchObject | None:
    """One patch towards a running Job; None while its template may not change."""
    changes = _template_patch(job, template) if template is not None else {}
    if not changes:
        return _patch(job, {"spec": {"suspend": False}}, Why("ResumeJob", "jobset is resumed"))
    if not is_true(job.status.conditions, "Suspended"):
        return None
    if job.status.start_time:
        why = Why("ResetStartTime", "its pod template changed while it was suspended")
        return _patch(job, {"status": {"startTime": None}}, why, subresource="status")
    why = Why("ResumeJob", "jobset is resumed with a changed pod template")
    return _patch(job, {"spec": {"suspend": False, "template": changes}}, why)


def _patch(job: Job, patch: Object, why: Why, subresource: str = "") -> PatchObject:
    metadata = job.metadata
    return PatchObject(JOBS, metadata.namespace, metadata.name, patch, why, subresource=subresource, uid=metadata.uid)


def _template_patch(job: Job, template: Object) -> Object:
    """The merge patch that gives the Job's pod template what the JobSet's has now; empty when it has it."""
    present = job.spec.template
    metadata = _only_changed(
        labels=_map_patch(present.metadata.get("labels"), labels_of(template)),
        annotations=_map_patch(present.metadata.get("annotations"), annotations_of(template)),
    )
    wanted: Object = template.get("spec") or {}
    selector = _map_patch(present.spec.get("nodeSelector"), wanted.get("nodeSelector") or {})
    spec = _only_changed(nodeSelector=selector)
    tolerations = [*(wanted.get("tolerations") or ()), *_own_tolerations(present.spec)]
    for field, items in (("tolerations", tolerations), ("schedulingGates", list(wanted.get("schedulingGates") or ()))):
        if items != list(present.spec.get(field) or ()):
            spec[field] = items or None
    return _only_changed(metadata=metadata, spec=spec)


def _map_patch(present: dict[str, str] | None, wanted: dict[str, str]) -> Object:
    """Reserved keys keep their values; every other key becomes as wanted, or goes."""
    present = present or {}
    patch: Object = {
        key: value
        for key, value in wanted.items()
        if present.get(key) != value and not (key in present and _is_reserved(key))
    }
    patch.update((key, None) for key in present if key not in wanted and not _is_reserved(key))
    return patch


def _is_reserved(key: str) -> bool:
    return key in _RESERVED_KEYS or key.partition("/")[0] in _RESERVED_DOMAINS


def _own_tolerations(pod_spec: Object) -> Iterable[Object]:
    return [each for each in pod_spec.get("tolerations") or () if each.get("key") == labels.NO_SCHEDULE_TAINT]


def _only_changed(**parts: Object) -> Object:
    return {key: part for key, part in parts.items() if part}
