"""What may change in a JobSet (section 5.2): suspend, time to live, coordinator, some of a pod template. Pure.

Beyond the original: an immutable part can neither be added nor removed, unless that changes nothing (a part that is
absent means its default); the coordinator must still fit. Names and templates are not judged again: what an earlier
version accepted must stay changeable.
"""

from __future__ import annotations

from typing import Any

from jobset.api.errors import Cause
from jobset.api.field_errors import forbidden, invalid
from jobset.api.jobset_schema import DEFINITIONS, IMMUTABLE_RULE, JOBSET_SPEC
from jobset.api.meta import Object, condition_of
from jobset.api.quantity import same_quantity
from jobset.api.structure import check_structure
from jobset.core.admission.defaulting import SCHEMA
from jobset.core.admission.naming import effective_name
from jobset.core.admission.policies import coordinator_problems
from jobset.core.admission.replicated import Replicated, replicated_jobs
from jobset.core.admission.validation import order_problems
from jobset.core.features import FeatureGates

_IMMUTABLE_PARTS = tuple(
    name
    for name, schema in DEFINITIONS[JOBSET_SPEC]["properties"].items()
    if any(rule["rule"] == IMMUTABLE_RULE for rule in schema.get("x-kubernetes-validations", ()))
)
_AMOUNTS = ("limits", "requests")
_WHEN_ABSENT: Object = {
    "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
    "successPolicy": {"operator": "All"},
    "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
}
_MUTABLE_METADATA = frozenset({"annotations", "labels"})
_MUTABLE_POD_SPEC = frozenset({"nodeSelector", "tolerations", "schedulingGates"})
_MUTABLE_IN_TEMPLATE = (
    *(f"metadata.{field}" for field in sorted(_MUTABLE_METADATA)),
    *(f"spec.{field}" for field in sorted(_MUTABLE_POD_SPEC)),
)
_REPLICATED_JOBS = "spec.replicatedJobs"
_ELASTIC = ("parallelism", "completions")
_SAME_WHEN_EMPTY = frozenset(
    {"metadata", "labels", "annotations", "resources", "limits", "requests", "nodeSelector", "matchLabels"}
)
"""Mappings of which Kubernetes does not tell empty from absent. Of others (emptyDir, nodeAffinity) it does."""
_FINISHED = ("Completed", "Failed")
_EMPTY: Object = {}


def update_problems(new: Object, old: Object, gates: FeatureGates) -> list[Cause]:
    """All problems of replacing `old` by `new`, both with checked types."""
    causes = check_structure(new, SCHEMA)
    told = {cause.field for cause in causes}
    return causes + [cause for cause in _change_problems(new, old, gates) if cause.field not in told]


def _change_problems(new: Object, old: Object, gates: FeatureGates) -> list[Cause]:
    spec, old_spec = new.get("spec", _EMPTY), old.get("spec", _EMPTY)
    replicated, before = replicated_jobs(spec), {item.name: item for item in replicated_jobs(old_spec)}
    causes = [
        invalid(f"spec.{name}", spec.get(name), "Value is immutable; create the JobSet anew to change it")
        for name in _IMMUTABLE_PARTS
        if difference(spec.get(name, _WHEN_ABSENT.get(name)), old_spec.get(name, _WHEN_ABSENT.get(name)), name)
    ]
    if gates.elastic_jobset:
        finished = any((condition_of(old, type_) or _EMPTY).get("status") == "True" for type_ in _FINISHED)
        causes += [
            cause
            for item in replicated
            if item.name in before
            for cause in _elastic_problems(item, before[item.name], finished)
        ]
    suspended = bool(spec.get("suspend") or old_spec.get("suspend"))
    causes += _replicated_job_problems(replicated, before, suspended, gates)
    causes += order_problems(spec, replicated)
    if spec.get("managedBy") != old_spec.get("managedBy"):
        detail = "field is immutable; create the JobSet anew to hand it to another controller"
        causes.append(invalid("spec.managedBy", spec.get("managedBy"), detail))
    if not causes or spec.get("coordinator") != old_spec.get("coordinator"):
        causes += coordinator_problems(effective_name(new), spec, replicated)
    return causes


def _elastic_problems(item: Replicated, before: Replicated, finished: bool) -> list[Cause]:
    """Whether a new size of an Indexed Job is possible; sizes that stayed are not judged."""
    job, path = item.job_spec, item.job_spec_path
    changed = [field for field in _ELASTIC if job.get(field) != before.job_spec.get(field)]
    if not changed or not item.indexed:
        return []
    if finished:
        return [forbidden(path, f"{' and '.join(changed)} of a finished JobSet cannot change")]
    causes = [
        invalid(f"{path}.{field}", job[field], f"{field} must be >= 1") for field in changed if job.get(field, 1) < 1
    ]
    parallelism, completions = job.get("parallelism"), job.get("completions")
    if None not in (parallelism, completions) and parallelism != completions:
        detail = "completions must be equal to parallelism for Elastic Indexed Jobs"
        causes.append(invalid(f"{path}.completions", completions, detail))
    return causes


def _replicated_job_problems(
    replicated: list[Replicated], before: dict[str, Replicated], suspended: bool, gates: FeatureGates
) -> list[Cause]:
    names, old_names = [item.name for item in replicated], list(before)
    if names != old_names:
        detail = "field is immutable; replicated jobs cannot be added, removed, renamed or reordered"
        return [invalid(_REPLICATED_JOBS, names, f"{detail}; there are: {', '.join(old_names)}")]
    for item in replicated:
        elastic = gates.elastic_jobset and item.indexed
        new, old = (_fixed_part(each, suspended, elastic) for each in (item, before[item.name]))
        if where := difference(new, old, item.path):
            fix = "create the JobSet anew to change it"
            if not suspended and where.removeprefix(f"{item.job_spec_path}.template.").startswith(_MUTABLE_IN_TEMPLATE):
                fix = "suspend the JobSet to change it"
            return [Cause("FieldValueInvalid", f"Invalid value: {where}: field is immutable; {fix}", _REPLICATED_JOBS)]
    return []


def _fixed_part(item: Replicated, suspended: bool, elastic: bool) -> Object:
    """A replicated job without what may change."""
    if not suspended and not elastic:
        return item.raw
    job = {key: value for key, value in item.job_spec.items() if not (elastic and key in _ELASTIC)}
    if suspended and "template" in job:
        metadata = _without(item.pod_template.get("metadata", _EMPTY), _MUTABLE_METADATA)
        pod_spec = _without(item.pod_spec, _MUTABLE_POD_SPEC)
        job["template"] = {**item.pod_template, "metadata": metadata, "spec": pod_spec}
    return {**item.raw, "template": {**item.raw.get("template", _EMPTY), "spec": job}}


def _without(part: Object, fields: frozenset[str]) -> Object:
    return {key: value for key, value in part.items() if key not in fields}


def difference(new: Any, old: Any, path: str, field: str = "") -> str:
    """The path of the first difference, or nothing. Kubernetes' equality: no list is an empty list, 1 is 1000m.

    `field` names the mapping that the values stand in.
    """
    if isinstance(new, list | None) and isinstance(old, list | None):
        items, others = new or [], old or []
        for index, (item, other) in enumerate(zip(items, others, strict=False)):
            if found := difference(item, other, f"{path}[{index}]"):
                return found
        return "" if len(items) == len(others) else path
    if field in _SAME_WHEN_EMPTY:
        new, old = new or _EMPTY, old or _EMPTY
    if isinstance(new, dict) and isinstance(old, dict):
        for key in (*new, *(key for key in old if key not in new)):
            if found := difference(
                new.get(key), old.get(key), f"{path}.{key}", key if field not in _AMOUNTS else field
            ):
                return found
        return ""
    if field in _AMOUNTS and isinstance(new, str | int | float) and isinstance(old, str | int | float):
        return "" if same_quantity(new, old) else path
    return "" if new == old and isinstance(new, bool) is isinstance(old, bool) else path
