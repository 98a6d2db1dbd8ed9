"""What may change of a Job once it exists. Pure.

Most of its spec never may. A suspended Job that never started, or is at rest again, may get another placement in its
template (node selector, node affinity, tolerations, gates, labels): that is how a queue controller starts Jobs. At rest
it may get other resources too. An Indexed Job may grow and shrink when completions and parallelism change together.
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
    yield from _validate_template(spec["template"], before["template"], old)


def _validate_template(template: Object, earlier: Object, old: Object) -> Iterator[Cause]:
    if template is earlier:
        return
    path = "spec.template"
    if may_change_placement(old):
        template, earlier = _without_placement(template), _without_placement(earlier)
    if is_at_rest(old):
        template, earlier = _without_resources(template["spec"]), _without_resources(earlier["spec"])
        path = "spec.template.spec"
    if template != earlier:
        yield invalid(path, template, "field is immutable")


def _validate_completions(spec: Object, before: Object) -> Iterator[Cause]:
    completions = spec.get("completions")
    if completions == before.get("completions"):
        return
    if spec.get("completionMode") != "Indexed":
        yield invalid("spec.completions", completions, "field is immutable")
    elif completions is not None and completions != spec.get("parallelism"):
        yield invalid("spec.completions", completions, "can only be modified in tandem with spec.parallelism")


def may_change_placement(job: Object) -> bool:
    """Whether the template's placement may still change: suspended, and never started or at rest."""
    if not job["spec"].get("suspend"):
        return False
    return not (job.get("status") or {}).get("startTime") or is_at_rest(job)


def is_at_rest(job: Object) -> bool:
    """Suspended, and the Job controller has seen to it: nothing runs. Then resources may change as well (KEP-5440)."""
    if not job["spec"].get("suspend") or (job.get("status") or {}).get("active"):
        return False
    suspended = condition_of(job, "Suspended")
    return suspended is not None and suspended.get("status") == "True"


def _without_placement(template: Object) -> Object:
    """A template without what decides where its pods may run."""
    spec = without(template["spec"], *_PLACEMENT)
    affinity = without(spec.get("affinity") or {}, "nodeAffinity")
    spec = put(spec, "affinity", affinity) if affinity else without(spec, "affinity")
    metadata = without(template.get("metadata") or {}, "labels", "annotations")
    return {**template, "spec": spec, "metadata": metadata}


def _without_resources(spec: Object) -> Object:
    for key in ("containers", "initContainers"):
        if spec.get(key):
            spec = put(spec, key, [without(container, "resources") for container in spec[key]])
    return spec
