"""All problems of a JobSet to be created (section 5.1): structure first, then every rule. Pure.

Expects a defaulted object whose types were checked (admit.py does both). Each rule stands in the file of its subject;
a problem that the structure already shows is not told twice.
"""

from __future__ import annotations

from collections.abc import Mapping

from jobset.api.errors import Cause
from jobset.api.field_errors import invalid
from jobset.api.jobset_schema import ORDER_OR_DEPENDENCIES
from jobset.api.meta import Object
from jobset.api.structure import check_structure
from jobset.core.admission.defaulting import SCHEMA
from jobset.core.admission.naming import effective_name, generated_name_problems
from jobset.core.admission.policies import (
    coordinator_problems,
    dependency_problems,
    failure_policy_problems,
    product_problems,
    success_policy_problems,
)
from jobset.core.admission.replicated import Replicated, replicated_jobs, section
from jobset.core.admission.templates import template_problems
from jobset.core.admission.volumes import volume_problems
from jobset.core.features import FeatureGates

_DUPLICATE = "FieldValueDuplicate"
_CONCERN_THE_WHOLE = ("FieldValueRequired", "FieldValueTooMany")


def create_problems(obj: Object, gates: FeatureGates, existing_claims: Mapping[str, Object]) -> list[Cause]:
    """`existing_claims`: the PersistentVolumeClaims of the JobSet's namespace by name."""
    causes = check_structure(obj, SCHEMA)
    return causes + [cause for cause in _rule_problems(obj, gates, existing_claims) if not _follows(cause, causes)]


def _follows(cause: Cause, told: list[Cause]) -> bool:
    """Whether a problem is the same as one that was told, or lies in what is missing or overlong altogether."""
    for other in told:
        if cause.field == other.field:
            return True
        within = cause.field.startswith((f"{other.field}.", f"{other.field}["))
        if within and (other.reason in _CONCERN_THE_WHOLE or cause.reason == other.reason == _DUPLICATE):
            return True
    return False


def _rule_problems(obj: Object, gates: FeatureGates, existing_claims: Mapping[str, Object]) -> list[Cause]:
    name, spec = effective_name(obj), obj.get("spec", {})
    replicated = replicated_jobs(spec)
    claim_templates = {
        template.get("metadata", {}).get("name", "")
        for policy in spec.get("volumeClaimPolicies", ())
        for template in policy.get("templates", ())
    }
    return [
        *order_problems(spec, replicated),
        *generated_name_problems(name, spec, replicated),
        *product_problems(replicated),
        *dependency_problems(replicated),
        *success_policy_problems(spec, replicated),
        *failure_policy_problems(spec, replicated, gates),
        *coordinator_problems(name, spec, replicated),
        *volume_problems(name, spec, replicated, existing_claims),
        *(cause for item in replicated for cause in template_problems(item, claim_templates)),
    ]


def order_problems(spec: Object, replicated: list[Replicated]) -> list[Cause]:
    """startupPolicy InOrder and dependsOn exclude each other."""
    in_order = section(spec, "startupPolicy").get("startupPolicyOrder") == "InOrder"
    if not in_order or all("dependsOn" not in item.raw for item in replicated):
        return []
    detail = f"{ORDER_OR_DEPENDENCIES['message']}: drop one of startupPolicyOrder InOrder and dependsOn"
    return [invalid("spec", "InOrder", detail)]
