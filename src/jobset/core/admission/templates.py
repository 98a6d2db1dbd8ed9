"""Whether the Job templates can become Jobs at all: containers, images, names, numbers, resources. Pure.

The original accepts any template and fails only when it creates the Jobs. Here the mistakes that people make are
refused at once. What depends on a combination of fields stays Kubernetes' to judge, when the Job is created.
"""

from __future__ import annotations

from typing import Any

from jobset.api.errors import Cause
from jobset.api.field_errors import duplicate, invalid, not_found, not_supported, required
from jobset.api.meta import Object
from jobset.api.name_rules import dns_label_problems
from jobset.api.quantity import parse_quantity
from jobset.core.admission.naming import label_problems
from jobset.core.admission.replicated import Replicated

_COUNTS = (
    "parallelism", "completions", "backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes", "activeDeadlineSeconds",
    "ttlSecondsAfterFinished",
)  # fmt: skip
_JOB_CHOICES = {
    "completionMode": ("NonIndexed", "Indexed"),
    "podReplacementPolicy": ("Failed", "TerminatingOrFailed"),
}
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")


def template_problems(item: Replicated, claim_templates: set[str]) -> list[Cause]:
    """`claim_templates`: the volumes that volumeClaimPolicies add."""
    if "spec" not in item.raw.get("template", {}):
        return [required(f"{item.path}.template.spec", "the Job to create: template with its containers")]
    causes = _job_problems(item)
    causes += label_problems(item.raw["template"].get("metadata", {}), f"{item.path}.template.metadata")
    causes += label_problems(item.pod_template.get("metadata", {}), f"{item.job_spec_path}.template.metadata")
    if not item.pod_spec.get("containers"):
        causes.append(required(f"{item.pod_spec_path}.containers", "at least one container with a name and an image"))
    seen: set[str] = set()
    volumes = {volume.get("name") for volume in item.pod_spec.get("volumes", ())} | claim_templates
    for path, container in item.containers():
        causes += _container_problems(container, path, seen)
        causes += _mount_problems(container, path, volumes)
        seen.add(container.get("name", ""))
    return causes


def _job_problems(item: Replicated) -> list[Cause]:
    job, path = item.job_spec, item.job_spec_path
    causes = [
        invalid(f"{path}.{field}", job[field], "must be greater than or equal to 0")
        for field in _COUNTS
        if job.get(field, 0) < 0
    ]
    causes += [
        not_supported(f"{path}.{field}", job[field], choices)
        for field, choices in _JOB_CHOICES.items()
        if field in job and job[field] not in choices
    ]
    restart_policy = item.pod_spec.get("restartPolicy") or "OnFailure"
    if restart_policy not in ("OnFailure", "Never"):
        causes.append(not_supported(f"{item.pod_spec_path}.restartPolicy", restart_policy, ("OnFailure", "Never")))
    return causes


def _container_problems(container: Object, path: str, seen: set[str]) -> list[Cause]:
    name, image = container.get("name", ""), container.get("image", "")
    causes = []
    if not name:
        causes.append(required(f"{path}.name"))
    elif name in seen:
        causes.append(duplicate(f"{path}.name", name))
    else:
        causes += [invalid(f"{path}.name", name, problem) for problem in dns_label_problems(name)]
    if not image:
        causes.append(required(f"{path}.image", "the container image, such as python:3.12"))
    elif image != image.strip():
        causes.append(invalid(f"{path}.image", image, "must not have leading or trailing whitespace"))
    policy = container.get("imagePullPolicy") or "Always"
    if policy not in _PULL_POLICIES:
        causes.append(not_supported(f"{path}.imagePullPolicy", policy, _PULL_POLICIES))
    for index, variable in enumerate(container.get("env", ())):
        if not variable.get("name"):
            causes.append(required(f"{path}.env[{index}].name"))
    for index, port in enumerate(container.get("ports", ())):
        number = port.get("containerPort", 0)
        if not 1 <= number <= 65535:
            causes.append(invalid(f"{path}.ports[{index}].containerPort", number, "must be between 1 and 65535"))
    return causes + _resource_problems(container.get("resources", {}), f"{path}.resources")


def _mount_problems(container: Object, path: str, volumes: set[Any]) -> list[Cause]:
    causes = []
    for index, mount in enumerate(container.get("volumeMounts", ())):
        if not mount.get("mountPath"):
            causes.append(required(f"{path}.volumeMounts[{index}].mountPath"))
        if mount.get("name") not in volumes:
            detail = "no volume and no volumeClaimPolicies template has this name"
            causes.append(not_found(f"{path}.volumeMounts[{index}].name", mount.get("name", ""), detail))
    return causes


def _resource_problems(resources: Object, path: str) -> list[Cause]:
    causes = []
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for field, amounts in (("limits", limits), ("requests", requests)):
        causes += [
            invalid(f"{path}.{field}[{name}]", amount, "must be greater than or equal to 0")
            for name, amount in amounts.items()
            if parse_quantity(amount) < 0
        ]
    causes += [
        invalid(f"{path}.requests", amount, f"must be less than or equal to {name} limit of {limits[name]}")
        for name, amount in requests.items()
        if name in limits and parse_quantity(amount) > parse_quantity(limits[name])
    ]
    return causes
