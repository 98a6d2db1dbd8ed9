"""The schema of JobSet as data: structure, bounds, enums, schema defaults, rules on change (section 1). Pure.

Same form as the generated Kubernetes schemas, which it refers to for Job templates and claims; api/schema.py offers
both. The custom resource definition is written from this (core/admission/crd.py), and admission checks by it.
"""

from __future__ import annotations

from typing import Any, get_args

from jobset.api import jobset

GROUP = "io.x-k8s.jobset.v1alpha2"
JOBSET = f"{GROUP}.JobSet"
JOBSET_SPEC = f"{GROUP}.JobSetSpec"

_JOB_SPEC = "#io.k8s.api.batch.v1.JobSpec"
_CLAIM = "#io.k8s.api.core.v1.PersistentVolumeClaim"
_CONDITION = "#io.k8s.apimachinery.pkg.apis.meta.v1.Condition"
_OBJECT_META = "#io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

INT32 = 2**31 - 1
MAX_DEPENDENCIES = 5
MAX_VOLUME_CLAIM_POLICIES = 50
MAX_CLAIM_TEMPLATES = 50
MAX_JOB_RESTARTS_TRACKED = 1024

IMMUTABLE_RULE = "self == oldSelf"
_IMMUTABLE = {"x-kubernetes-validations": [{"rule": IMMUTABLE_RULE, "message": "Value is immutable"}]}

ORDER_OR_DEPENDENCIES = {
    "rule": "!(has(self.startupPolicy) && self.startupPolicy.startupPolicyOrder == 'InOrder'"
    " && has(self.replicatedJobs) && self.replicatedJobs.exists(x, has(x.dependsOn)))",
    "message": "StartupPolicy and DependsOn APIs are mutually exclusive",
}
NO_TEMPLATE_NAMESPACE = {
    "rule": "!has(self.metadata.__namespace__) || size(self.metadata.__namespace__) == 0",
    "message": "namespace cannot be set for VolumeClaimPolicies templates",
}

_TEXT: dict[str, Any] = {"type": "string"}
_FLAG: dict[str, Any] = {"type": "boolean"}
_INTEGER: dict[str, Any] = {"type": "integer", "format": "int32"}
_COUNT: dict[str, Any] = {**_INTEGER, "minimum": 0}
_NAMES: dict[str, Any] = {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "atomic"}


def _choice(values: Any, default: str = "") -> dict[str, Any]:
    return {"type": "string", "enum": list(get_args(values)), **({"default": default} if default else {})}


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#{GROUP}.{name}"}


def _list_by(key: str, items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


_FAILURE_POLICY_RULE = _object(
    {
        "name": _TEXT,
        "action": _choice(jobset.FailurePolicyAction),
        "onJobFailureReasons": {"type": "array", "items": _TEXT},
        "onJobFailureMessagePatterns": {"type": "array", "items": _TEXT},
        "targetReplicatedJobs": _NAMES,
    },
    "action",
    "name",
)
_DEPENDS_ON = _object({"name": _TEXT, "status": _choice(jobset.DependsOnStatus)}, "name", "status")
_REPLICATED_JOB = _object(
    {
        "name": _TEXT,
        "groupName": {**_TEXT, "default": "default"},
        "template": _reference("JobTemplateSpec"),
        "replicas": {**_COUNT, "default": 1},
        "dependsOn": {**_list_by("name", _DEPENDS_ON), "maxItems": MAX_DEPENDENCIES, **_IMMUTABLE},
    },
    "name",
    "template",
)
_VOLUME_CLAIM_POLICY = _object(
    {
        "templates": {
            "type": "array",
            "items": {"$ref": _CLAIM, "x-kubernetes-validations": [NO_TEMPLATE_NAMESPACE]},
            "maxItems": MAX_CLAIM_TEMPLATES,
            "x-kubernetes-list-type": "atomic",
        },
        "retentionPolicy": _object({"whenDeleted": _choice(jobset.Retention, "Delete")}),
    }
)
_SPEC = _object(
    {
        "replicatedJobs": _list_by("name", _REPLICATED_JOB),
        "network": {
            **_object({"enableDNSHostnames": _FLAG, "subdomain": _TEXT, "publishNotReadyAddresses": _FLAG}),
            **_IMMUTABLE,
        },
        "successPolicy": {
            **_object({"operator": _choice(jobset.Operator), "targetReplicatedJobs": _NAMES}, "operator"),
            **_IMMUTABLE,
        },
        "failurePolicy": {
            **_object(
                {
                    "maxRestarts": _INTEGER,
                    "restartStrategy": _choice(jobset.RestartStrategy, "Recreate"),
                    "rules": {"type": "array", "items": _FAILURE_POLICY_RULE},
                }
            ),
            **_IMMUTABLE,
        },
        "startupPolicy": {
            **_object({"startupPolicyOrder": _choice(jobset.StartupPolicyOrder)}, "startupPolicyOrder"),
            **_IMMUTABLE,
        },
        "suspend": _FLAG,
        "coordinator": _object({"replicatedJob": _TEXT, "jobIndex": _INTEGER, "podIndex": _INTEGER}, "replicatedJob"),
        "managedBy": _TEXT,
        "ttlSecondsAfterFinished": _COUNT,
        "volumeClaimPolicies": {
            "type": "array",
            "items": _VOLUME_CLAIM_POLICY,
            "maxItems": MAX_VOLUME_CLAIM_POLICIES,
            "x-kubernetes-list-type": "atomic",
            **_IMMUTABLE,
        },
    }
)
_RESTARTS_BY_JOB = {
    "type": "array",
    "items": _INTEGER,
    "maxItems": MAX_JOB_RESTARTS_TRACKED,
    "x-kubernetes-list-type": "atomic",
}
_REPLICATED_JOB_STATUS = _object(
    {
        "name": _TEXT,
        **dict.fromkeys(("ready", "succeeded", "failed", "active", "suspended"), _INTEGER),
        "jobRestarts": _RESTARTS_BY_JOB,
        "jobRestartsCountTowardsMax": _RESTARTS_BY_JOB,
    },
    "active", "failed", "name", "ready", "succeeded", "suspended",
)  # fmt: skip
_STATUS = _object(
    {
        "conditions": _list_by("type", {"$ref": _CONDITION}),
        "restarts": _INTEGER,
        "restartsCountTowardsMax": _INTEGER,
        "terminalState": _TEXT,
        "replicatedJobsStatus": _list_by("name", _REPLICATED_JOB_STATUS),
        "previousInPlaceRestartAttempt": _COUNT,
        "currentInPlaceRestartAttempt": _COUNT,
    }
)

DEFINITIONS: dict[str, dict[str, Any]] = {
    JOBSET: {
        **_object(
            {
                "apiVersion": _TEXT,
                "kind": _TEXT,
                "metadata": {"$ref": _OBJECT_META},
                "spec": _reference("JobSetSpec"),
                "status": _reference("JobSetStatus"),
            }
        ),
        "x-kubernetes-group-version-kind": [{"group": "jobset.x-k8s.io", "kind": "JobSet", "version": "v1alpha2"}],
    },
    JOBSET_SPEC: {**_SPEC, "x-kubernetes-validations": [ORDER_OR_DEPENDENCIES]},
    f"{GROUP}.JobSetStatus": _STATUS,
    f"{GROUP}.JobTemplateSpec": _object({"metadata": {"$ref": _OBJECT_META}, "spec": {"$ref": _JOB_SPEC}}),
}
