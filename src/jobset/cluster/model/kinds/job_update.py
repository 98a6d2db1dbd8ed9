"""What may change of a Job once it exists. Pure.

Most of its spec never may. A suspended Job that runs no pods may get another placement (node selector, affinity,
tolerations, gates, labels) and other resources in its template: that is how a queue controller starts Jobs. An Indexed
Job may grow and shrink when completions and parallelism change together.
"""

from __future__ import annotations

from collections.abc import Iterator

from jobset.api.errors import Cause
from jobset.api.field_errors import invalid
from jobset.api.meta import Object, condition_of
from jobset.cluster.model.kinds.copy_on_write import put, without
from jobset.cluster.model.kinds.job_validation import job_problems, validate_job_spec
from jobset.cluster.model.kinds.problems import immutable

_IMMUTABLE = ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_PLACEMENT = ("nodeSelector", "tolerations", "schedulingGates")


def validate_job_update(new: Object, old: Object) -> list[Cause]:
    if new["spec"] is old["spec"] or new["spec"] == old["spec"]:
        return []
    spec_problems = list(validate_job_spec(new["spec"]))
    # Kubernetes checks the new Job and then the change, and both look at the spec: each problem of it is told twice.
    return [*job_problems(new, spec_problems), *spec_problems, *_update_problems(new, old)]


def _update_problems(new: Object, old: Object) -> Iterator[Cause]:
    spec, before = new["spec"], old["spec"]
    yield from _validate_completions(spec, before)
    for field in _IMMUTABLE:
        yield from immutable(f"spec.{field}", spec.get(field), before.get(field))
    template, earlier = spec["template"], before["template"]
    if template is not earlier and may_change_placement(old):
        template, earlier = _without_placement(template), _without_placement(earlier)
    if template != earlier:
        yield invalid("spec.template", spec["template"], "field is immutable")


def _validate_completions(spec: Object, before: Object) -> Iterator[Cause]:
    completions = spec.get("completions")
    if completions == before.get("completions"):
        return
    if spec.get("completionMode") != "Indexed" or before.get("completions") is None:
        yield invalid("spec.completions", completions, "field is immutable")
    elif completions != spec.get("parallelism"):
        yield invalid("spec.completions", completions, "can only be modified in tandem with spec.parallelism")


def may_change_placement(job: Object) -> bool:
    """Whether the template's placement and resources may still change: suspended, and nothing of it runs."""
    if not job["spec"].get("suspend"):
        return False
    status = job.get("status") or {}
    if not status.get("startTime"):
        return True
    suspended = condition_of(job, "Suspended")
    return suspended is not None and suspended.get("status") == "True" and not status.get("active")


def _without_placement(template: Object) -> Object:
    """What stays fixed of a template even while its Job is suspended."""
    spec = without(template["spec"], *_PLACEMENT)
    affinity = without(spec.get("affinity") or {}, "nodeAffinity")
    spec = put(spec, "affinity", affinity) if affinity else without(spec, "affinity")
    for key in ("containers", "initContainers"):
        if spec.get(key):
            spec = put(spec, key, [without(container, "resources") for container in spec[key]])
    metadata = without(template.get("metadata") or {}, "labels", "annotations")
    return {**template, "spec": spec, "metadata": metadata}
