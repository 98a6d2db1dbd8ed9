"""Rules of a new Job. Pure. Its policies are in job_policy_validation.py, the rules of a change in job_update.py.

The pod template is the costly part; one found good is remembered by identity, so that a Job whose template did not
change pays for the rest only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jobset.api.errors import Cause
from jobset.api.field_errors import invalid, not_supported, required, too_long
from jobset.api.meta import Object
from jobset.api.name_rules import dns_label_problems, domain_prefixed_path_problems
from jobset.api.selectors import label_selector_of
from jobset.cluster.model.kinds.job_policy_validation import validate_failure_policy, validate_success_policy
from jobset.cluster.model.kinds.memo import IdentityMemo
from jobset.cluster.model.kinds.pod_validation import validate_template
from jobset.cluster.model.kinds.problems import invalid_each, label_selector, not_negative, one_of

CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
JOB_NAME = "batch.kubernetes.io/job-name"
LEGACY_CONTROLLER_UID = "controller-uid"
LEGACY_JOB_NAME = "job-name"

_MODES = ("NonIndexed", "Indexed")
_REPLACEMENT_POLICIES = ("Failed", "TerminatingOrFailed")
_NOT_NEGATIVE = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
    "backoffLimitPerIndex", "maxFailedIndexes",
)  # fmt: skip
_PARALLELISM_MAX = 100_000
_FAILED_INDEXES_MAX = 100_000
_MANY_COMPLETIONS = 100_000
_PER_INDEX_PARALLELISM_MAX = 10_000
_MANAGED_BY_MAX = 63
_good_templates: IdentityMemo[Object, bool] = IdentityMemo()


def generated_labels(name: str, uid: str) -> dict[str, str]:
    """The labels that tie a Job's pods to it."""
    return {CONTROLLER_UID: uid, JOB_NAME: name, LEGACY_CONTROLLER_UID: uid, LEGACY_JOB_NAME: name}


def validate_job(job: Object) -> list[Cause]:
    """All problems of a new Job, after defaulting and preparation."""
    return list(job_problems(job, validate_job_spec(job["spec"])))


def job_problems(job: Object, spec_problems: Iterable[Cause]) -> Iterator[Cause]:
    """What is wrong with a Job, given what is wrong with its spec."""
    yield from _validate_generated_selector(job)
    yield from spec_problems
    yield from _validate_hostname(job)


def _validate_generated_selector(job: Object) -> Iterator[Cause]:
    spec, metadata = job["spec"], job["metadata"]
    if spec.get("manualSelector") or spec.get("selector") is None:
        return
    expected = generated_labels(metadata["name"], metadata.get("uid", ""))
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    for key, value in expected.items():
        if key not in labels:
            yield required("spec.template.metadata.labels", f"must be '{value}'")
        elif labels[key] != value:
            yield invalid("spec.template.metadata.labels", labels, f"must be '{value}'")
    if not _selects(spec["selector"], expected):
        yield invalid("spec.selector", spec["selector"], "`selector` not auto-generated")


def _selects(selector: Object, labels: dict[str, str]) -> bool:
    try:
        found = label_selector_of(selector)
    except ValueError:
        return True  # reported as a bad selector already
    return found is not None and found.matches(labels)


def _validate_hostname(job: Object) -> Iterator[Cause]:
    """The pods of an Indexed Job are named after it and their index."""
    spec, name = job["spec"], job["metadata"]["name"]
    completions = spec.get("completions")
    if spec.get("completionMode") != "Indexed" or not completions or completions < 0:
        return
    hostname = f"{name}-{completions - 1}"
    if dns_label_problems(hostname):
        yield invalid("metadata.name", name, f"will not able to create pod with invalid DNS label: {hostname}")


def validate_job_spec(spec: Object) -> Iterator[Cause]:
    for field in _NOT_NEGATIVE:
        yield from not_negative(f"spec.{field}", spec.get(field))
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    yield from _validate_managed_by(spec.get("managedBy"))
    mode = spec.get("completionMode")
    if mode not in _MODES:
        yield from one_of("spec.completionMode", mode, _MODES)
    if mode == "Indexed":
        yield from _validate_indexed(spec)
    else:
        yield from _validate_not_indexed(spec)
    if spec.get("podFailurePolicy") is not None:
        yield from validate_failure_policy(spec)
    if spec.get("successPolicy") is not None:
        yield from validate_success_policy(spec)
    yield from _validate_replacement(spec)
    yield from _validate_template(spec)
    yield from _validate_selector(spec)


def _validate_managed_by(value: str | None) -> Iterator[Cause]:
    if value is None:
        return
    if not value:
        yield required("spec.managedBy")
        return
    yield from invalid_each("spec.managedBy", value, domain_prefixed_path_problems(value))
    if len(value) > _MANAGED_BY_MAX:
        yield too_long("spec.managedBy", _MANAGED_BY_MAX)


def _validate_indexed(spec: Object) -> Iterator[Cause]:
    completions, parallelism = spec.get("completions"), spec.get("parallelism") or 0
    failed, per_index = spec.get("maxFailedIndexes"), spec.get("backoffLimitPerIndex")
    if completions is None:
        yield required("spec.completions", "when completion mode is Indexed")
    if parallelism > _PARALLELISM_MAX:
        detail = f"must be less than or equal to {_PARALLELISM_MAX} when completion mode is Indexed"
        yield invalid("spec.parallelism", parallelism, detail)
    if failed is not None and completions is not None and failed > completions:
        yield invalid("spec.maxFailedIndexes", failed, "must be less than or equal to completions")
    if failed is not None and failed > _FAILED_INDEXES_MAX:
        yield invalid("spec.maxFailedIndexes", failed, f"must be less than or equal to {_FAILED_INDEXES_MAX}")
    if completions is None or completions <= _MANY_COMPLETIONS or per_index is None:
        return
    if failed is None:
        yield required("spec.maxFailedIndexes", f"must be specified when completions is above {_MANY_COMPLETIONS}")
    elif failed > _PER_INDEX_PARALLELISM_MAX:
        yield invalid("spec.maxFailedIndexes", failed, _per_index_limit())
    if parallelism > _PER_INDEX_PARALLELISM_MAX:
        yield invalid("spec.parallelism", parallelism, _per_index_limit())


def _per_index_limit() -> str:
    return (
        f"must be less than or equal to {_PER_INDEX_PARALLELISM_MAX} when completions are above {_MANY_COMPLETIONS} "
        "and used with backoff limit per index"
    )


def _validate_not_indexed(spec: Object) -> Iterator[Cause]:
    for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
        if spec.get(field) is not None:
            yield invalid(f"spec.{field}", spec[field], "requires indexed completion mode")


def _validate_replacement(spec: Object) -> Iterator[Cause]:
    policy = spec.get("podReplacementPolicy")
    supported = _REPLACEMENT_POLICIES if spec.get("podFailurePolicy") is None else ("Failed",)
    if policy is not None and policy not in supported:
        yield not_supported("spec.podReplacementPolicy", policy, supported)


def _is_good_template(template: Object) -> bool:
    return next(validate_template(template, ""), None) is None


def _validate_template(spec: Object) -> Iterator[Cause]:
    template = spec["template"]
    policy = template["spec"].get("restartPolicy")
    if not _good_templates.get(template, _is_good_template):
        yield from validate_template(template, "spec.template")
    path = "spec.template.spec.restartPolicy"
    if policy == "Always":
        yield required(path, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield not_supported(path, policy, ("OnFailure", "Never"))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        yield invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')


def _validate_selector(spec: Object) -> Iterator[Cause]:
    selector = spec.get("selector")
    if selector is None:
        yield required("spec.selector")
        return
    yield from label_selector("spec.selector", selector)
    labels = (spec["template"].get("metadata") or {}).get("labels")
    if not _selects(selector, labels or {}):
        detail = "`selector` does not match template `labels`"
        yield invalid("spec.template.metadata.labels", labels, detail)
