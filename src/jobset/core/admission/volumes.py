"""Whether volumeClaimPolicies fit the rest of the JobSet and the claims that exist (rules 25 to 31). Pure.

The field paths say `template` as the original's do, which clients may match on; the messages name the real place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobset.api.errors import Cause
from jobset.api.field_errors import invalid
from jobset.api.meta import Object
from jobset.api.name_rules import LABEL_MAX, dns_subdomain_problems
from jobset.api.quantity import same_quantity
from jobset.core.admission.replicated import Replicated
from jobset.core.names import claim_name


def volume_problems(
    jobset: str, spec: Object, replicated: list[Replicated], existing_claims: Mapping[str, Object]
) -> list[Cause]:
    causes = []
    seen: set[str] = set()
    mounted = {
        mount.get("name") for item in replicated for _, c in item.containers() for mount in c.get("volumeMounts", ())
    }
    for index, policy in enumerate(spec.get("volumeClaimPolicies", ())):
        for position, template in enumerate(policy.get("templates", ())):
            place = f"spec.volumeClaimPolicies[{index}].template[{position}]"
            name = template.get("metadata", {}).get("name", "")
            causes += _template_problems(place, name, template, jobset, seen)
            seen.add(name)
            causes += _volume_clashes(name, replicated)
            if name not in mounted:
                detail = f"no container mounts the claim template {name!r}; add a volumeMount of this name or drop it"
                causes.append(invalid("spec.replicatedJobs", name, detail))
            existing = existing_claims.get(claim_name(name, jobset))
            if existing is not None:
                causes += _reuse_problems(place, f"spec.volumeClaimPolicies[{index}]", policy, template, existing)
    return causes


def _template_problems(place: str, name: str, template: Object, jobset: str, seen: set[str]) -> list[Cause]:
    real = place.replace(".template[", ".templates[") + ".metadata"
    path, causes = f"{place}.name", []
    if name in seen:
        causes.append(invalid(path, name, f"{real}.name: names must be unique for VolumeClaimPolicies template"))
    causes += [invalid(path, name, f"{real}.name: {problem}") for problem in dns_subdomain_problems(name)]
    claim = claim_name(name, jobset)
    if len(claim) > LABEL_MAX:
        detail = (
            f"{real}.name: name is too long: the claim would be {claim!r}, at most {LABEL_MAX} characters are allowed"
        )
        causes.append(invalid(path, name, detail))
    if template.get("metadata", {}).get("namespace"):
        detail = f"{real}.namespace: namespace cannot be set for VolumeClaimPolicies templates"
        causes.append(invalid(place.replace(".template[", ".templates["), template["metadata"]["namespace"], detail))
    return causes


def _volume_clashes(name: str, replicated: list[Replicated]) -> list[Cause]:
    detail = f"volume name conflicts with VolumeClaimPolicy template name: {name}; JobSet adds this volume itself"
    return [
        invalid(f"{item.pod_spec_path}.volumes[{index}].name", name, detail)
        for item in replicated
        for index, volume in enumerate(item.pod_spec.get("volumes", ()))
        if volume.get("name") == name
    ]


def _reuse_problems(place: str, policy_path: str, policy: Object, template: Object, existing: Object) -> list[Cause]:
    metadata = existing.get("metadata", {})
    found = f"PersistentVolumeClaim {metadata.get('namespace', '')}/{metadata.get('name', '')} exists"
    causes = []
    if not _asks_for(template.get("spec", {}), existing.get("spec", {})):
        detail = f"{found} and its spec differs from the template's; delete it, or make the template match"
        causes.append(invalid(f"{place}.spec", template.get("spec", {}), detail))
    retention = policy.get("retentionPolicy", {}).get("whenDeleted", "Delete")
    if retention != "Retain":
        detail = f"{found}; to use it again the retention must be Retain"
        causes.append(invalid(f"{policy_path}.retentionPolicy.whenDeleted", retention, detail))
    return causes


def _asks_for(wanted: Any, existing: Any) -> bool:
    """Whether an existing claim has what the template asks for. What binding and defaulting added does not matter."""
    if isinstance(wanted, dict):
        there = {} if existing is None else existing
        return isinstance(there, dict) and all(_asks_for(value, there.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list) or existing is None:
        return bool(wanted == existing or not (wanted or existing))
    return wanted == existing or (isinstance(wanted, str | int | float) and same_quantity(wanted, existing))
