"""The Job as the API server handles it: defaults, the selector it generates, what an update may touch. Pure.

Rules are in job_validation.py and job_update.py. The Job controller (cluster/model) never writes a spec.
"""

from __future__ import annotations

from jobset.api.meta import Object
from jobset.api.resources import JOBS
from jobset.cluster.model.kinds.copy_on_write import change_each, change_in, drop_zero, fill, fill_zero, put
from jobset.cluster.model.kinds.job_status_validation import validate_job_status_update
from jobset.cluster.model.kinds.job_update import validate_job_update
from jobset.cluster.model.kinds.job_validation import CONTROLLER_UID, generated_labels, validate_job
from jobset.cluster.model.kinds.kind import Kind, Subresource
from jobset.cluster.model.kinds.pod_defaults import default_template

_STATUS_ZERO = frozenset(("active", "succeeded", "failed", "conditions", "completedIndexes"))
_LONGEST_LABEL = 63
_MAX_INT32 = 2**31 - 1


def default_job(job: Object) -> Object:
    spec = job.get("spec") or {}
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec = {**spec, "completions": 1}
    failure_policy = spec.get("podFailurePolicy")
    spec = fill(
        spec,
        {
            "parallelism": 1,
            "backoffLimit": 6 if spec.get("backoffLimitPerIndex") is None else _MAX_INT32,
            "completionMode": "NonIndexed",
            "suspend": False,
            "manualSelector": False,
            "podReplacementPolicy": "TerminatingOrFailed" if failure_policy is None else "Failed",
        },
    )
    spec = change_in(spec, "podFailurePolicy", _default_failure_policy)
    spec = put(spec, "template", default_template(spec.get("template")))
    job = fill(put(job, "spec", spec), {"status": {}})
    return _labels_from_template(job)


def _default_failure_policy(policy: Object) -> Object:
    def pattern(one: Object) -> Object:
        return fill_zero(one, {"status": "True"})

    def rule(one: Object) -> Object:
        return change_in(one, "onPodConditions", lambda patterns: change_each(patterns, pattern))

    return change_in(policy, "rules", lambda rules: change_each(rules, rule))


def _labels_from_template(job: Object) -> Object:
    """A Job without labels takes those of its template."""
    labels = (job["spec"]["template"].get("metadata") or {}).get("labels")
    metadata = job.get("metadata") or {}
    if metadata.get("labels") or not labels:
        return job
    return put(job, "metadata", put(metadata, "labels", labels))


def prepare_job(job: Object) -> Object:
    """A new Job: no status yet, a selector and template labels of its own unless it brings a manual selector."""
    job = put(job, "status", {})
    if job["spec"].get("manualSelector"):
        return job
    return _generate_selector(job)


def _generate_selector(job: Object) -> Object:
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    spec = job["spec"]
    selector = spec.get("selector") or {}
    match = {CONTROLLER_UID: uid, **(selector.get("matchLabels") or {})}
    template = spec["template"]
    metadata = template.get("metadata") or {}
    labels = {**generated_labels(name, uid), **(metadata.get("labels") or {})}
    spec = {
        **spec,
        "selector": {**selector, "matchLabels": match},
        "template": {**template, "metadata": {**metadata, "labels": labels}},
    }
    job = {**job, "spec": spec}
    # A name too long for a label is reported of the template alone, where the labels belong.
    return job if len(name) > _LONGEST_LABEL else _labels_from_template(job)


def keep_status(new: Object, old: Object) -> Object:
    """An update of the Job itself does not touch its status."""
    return put(new, "status", old.get("status", {}))


def merge_status(new: Object, old: Object) -> Object:
    """The status subresource changes the status alone."""
    return put(put(new, "spec", old["spec"]), "status", drop_zero(new.get("status") or {}, _STATUS_ZERO))


JOB = Kind(
    resource=JOBS,
    definition="io.k8s.api.batch.v1.Job",
    default=default_job,
    prepare_create=prepare_job,
    prepare_update=keep_status,
    validate=validate_job,
    validate_update=validate_job_update,
    subresources={"status": Subresource(merge_status, validate_job_status_update)},
    orphans_by_default=True,
    field_selectors=("status.successful",),
    categories=("all",),
)
