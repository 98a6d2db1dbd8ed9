"""The JobSet type, field by field (behaviour spec section 1). Pure.

Views for reading. Templates (Job, PersistentVolumeClaim) stay raw mappings, so that no field is lost. Names are the
API's in snake case; msgspec renames. `from_object` expects an object that admission accepted.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from jobset.api.meta import Condition, Object, ObjectMeta, View

API_VERSION = "jobset.x-k8s.io/v1alpha2"
KIND = "JobSet"

Operator: TypeAlias = Literal["All", "Any"]
RestartStrategy: TypeAlias = Literal["Recreate", "BlockingRecreate", "InPlaceRestart"]
FailurePolicyAction: TypeAlias = Literal[
    "FailJobSet",
    "RestartJobSet",
    "RestartJobSetAndIgnoreMaxRestarts",
    "RestartJob",
    "RestartJobAndIgnoreMaxRestarts",
]
StartupPolicyOrder: TypeAlias = Literal["AnyOrder", "InOrder"]
DependsOnStatus: TypeAlias = Literal["Ready", "Complete"]
Retention: TypeAlias = Literal["Delete", "Retain"]


class Network(View, frozen=True):
    enable_dns_hostnames: bool | None = msgspec.field(name="enableDNSHostnames", default=None)
    subdomain: str = ""
    publish_not_ready_addresses: bool | None = None


class SuccessPolicy(View, frozen=True):
    operator: Operator = "All"
    target_replicated_jobs: tuple[str, ...] = ()


class FailurePolicyRule(View, frozen=True):
    action: FailurePolicyAction
    name: str = ""
    on_job_failure_reasons: tuple[str, ...] = ()
    on_job_failure_message_patterns: tuple[str, ...] = ()
    target_replicated_jobs: tuple[str, ...] = ()


class FailurePolicy(View, frozen=True):
    max_restarts: int = 0
    restart_strategy: RestartStrategy = "Recreate"
    rules: tuple[FailurePolicyRule, ...] = ()


class StartupPolicy(View, frozen=True):
    startup_policy_order: StartupPolicyOrder = "AnyOrder"


class Coordinator(View, frozen=True):
    replicated_job: str
    job_index: int = 0
    pod_index: int = 0


class RetentionPolicy(View, frozen=True):
    when_deleted: Retention = "Delete"


class VolumeClaimPolicy(View, frozen=True):
    templates: tuple[Object, ...] = ()
    """PersistentVolumeClaims, raw."""
    retention_policy: RetentionPolicy | None = None


class DependsOn(View, frozen=True):
    name: str
    status: DependsOnStatus


class ReplicatedJob(View, frozen=True):
    name: str
    template: Object
    """A batch/v1 JobTemplateSpec, raw: metadata and spec."""
    group_name: str = "default"
    replicas: int = 1
    depends_on: tuple[DependsOn, ...] = ()


class JobSetSpec(View, frozen=True):
    replicated_jobs: tuple[ReplicatedJob, ...] = ()
    network: Network | None = None
    success_policy: SuccessPolicy | None = None
    failure_policy: FailurePolicy | None = None
    startup_policy: StartupPolicy | None = None
    suspend: bool | None = None
    coordinator: Coordinator | None = None
    managed_by: str | None = None
    ttl_seconds_after_finished: int | None = None
    volume_claim_policies: tuple[VolumeClaimPolicy, ...] = ()


class ReplicatedJobStatus(View, frozen=True, omit_defaults=False):
    name: str
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    active: int = 0
    suspended: int = 0
    job_restarts: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET
    job_restarts_count_towards_max: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET


class JobSetStatus(View, frozen=True):
    conditions: tuple[Condition, ...] = ()
    restarts: int = 0
    restarts_count_towards_max: int = 0
    terminal_state: str = ""
    replicated_jobs_status: tuple[ReplicatedJobStatus, ...] = ()
    previous_in_place_restart_attempt: int | None = None
    current_in_place_restart_attempt: int | None = None


class JobSet(View, frozen=True):
    metadata: ObjectMeta
    spec: JobSetSpec = JobSetSpec()
    status: JobSetStatus = JobSetStatus()


def from_object(obj: Object) -> JobSet:
    """The view of a raw JobSet. Raises msgspec.ValidationError (with the path) on what admission never saw."""
    return msgspec.convert(obj, JobSet)
