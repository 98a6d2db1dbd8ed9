"""What a new JobSet gets filled in (section 4): first the schema's defaults, then ours. Pure, copy on write.

An update gets only what stands in its lists: patches replace lists whole, so that what admission once put into them
would seem to be taken away. Expects an object whose types were checked. Fields that this version does not know are
left alone.
"""

from __future__ import annotations

from jobset.api import structure
from jobset.api.jobset_schema import JOBSET
from jobset.api.meta import Object

SCHEMA = {"$ref": f"#{JOBSET}"}

_EMPTY: Object = {}


def default_jobset(obj: Object) -> Object:
    """`obj` with all defaults of a create."""
    filled = default_lists(obj)
    spec = filled.get("spec", _EMPTY)
    changes: Object = {
        "successPolicy": spec.get("successPolicy", {"operator": "All"}),
        "startupPolicy": spec.get("startupPolicy", {"startupPolicyOrder": "AnyOrder"}),
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True, **spec.get("network", _EMPTY)},
    }
    return {**filled, "spec": {**spec, **changes}}


def default_lists(obj: Object) -> Object:
    """`obj` with the schema's defaults and those of replicated jobs, rules and claim policies: what an update gets."""
    filled: Object = structure.fill_defaults(obj, SCHEMA)
    spec = filled.get("spec", _EMPTY)
    changes: Object = {}
    if "replicatedJobs" in spec:
        changes["replicatedJobs"] = [_default_replicated_job(item) for item in spec["replicatedJobs"]]
    if "rules" in spec.get("failurePolicy", _EMPTY):
        changes["failurePolicy"] = _default_failure_policy(spec["failurePolicy"])
    if "volumeClaimPolicies" in spec:
        changes["volumeClaimPolicies"] = [_default_claim_policy(item) for item in spec["volumeClaimPolicies"]]
    return {**filled, "spec": {**spec, **changes}}


def _default_replicated_job(replicated_job: Object) -> Object:
    template = replicated_job.get("template")
    if template is None or "spec" not in template:
        return replicated_job
    spec = {"completionMode": "Indexed", **template["spec"]}
    pod_template = spec.get("template")
    if pod_template is not None:
        spec["template"] = {"metadata": {}, **pod_template, "spec": _default_pod_spec(pod_template.get("spec", _EMPTY))}
    return {**replicated_job, "template": {"metadata": {}, **template, "spec": spec}}


def _default_pod_spec(pod_spec: Object) -> Object:
    changes: Object = {"restartPolicy": pod_spec.get("restartPolicy") or "OnFailure"}
    for field in ("containers", "initContainers"):
        if field in pod_spec:
            changes[field] = [_with_resources(container) for container in pod_spec[field]]
    return {**pod_spec, **changes}


def _with_resources(container: Object) -> Object:
    """Kubernetes always writes a container's resources, empty or not."""
    return container if "resources" in container else {**container, "resources": {}}


def _default_failure_policy(policy: Object) -> Object:
    rules = [
        rule if rule.get("name") else {**rule, "name": f"failurePolicyRule{index}"}
        for index, rule in enumerate(policy["rules"])
    ]
    return {**policy, "rules": rules}


def _default_claim_policy(policy: Object) -> Object:
    changes: Object = {"retentionPolicy": policy.get("retentionPolicy", {"whenDeleted": "Delete"})}
    if "templates" in policy:
        changes["templates"] = [_as_claim(template) for template in policy["templates"]]
    return {**policy, **changes}


def _as_claim(template: Object) -> Object:
    """As Kubernetes writes a claim: with its resources and status, empty or not."""
    spec = template.get("spec", _EMPTY)
    return {
        "metadata": {},
        "status": {},
        **template,
        "spec": spec if "resources" in spec else {**spec, "resources": {}},
    }
