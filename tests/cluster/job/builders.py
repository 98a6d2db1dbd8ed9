"""Short ways to write Jobs and their pods, as the API server would store them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from jobset.api.labels import JOB_COMPLETION_INDEX, JOB_TRACKING_FINALIZER
from jobset.api.meta import Object, format_time
from jobset.cluster.model.job.plan import JobPlan, Observed, plan
from jobset.core.actions import CreateObject, DeleteObject, PatchObject

T0 = datetime(2026, 1, 1, tzinfo=UTC)
LABELS = {"batch.kubernetes.io/controller-uid": "uid-j", "batch.kubernetes.io/job-name": "j"}


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def job(status: Object | None = None, template: Object | None = None, **spec: Any) -> Object:
    """A Job named j with UID uid-j. `template` is its pods' spec."""
    pod_spec = template or {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
    defaults = {"parallelism": 1, "backoffLimit": 2**31 - 1 if "backoffLimitPerIndex" in spec else 6}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "ns", "uid": "uid-j", "resourceVersion": "1", "generation": 1},
        "spec": {
            **defaults,
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "uid-j"}},
            "template": {"metadata": {"labels": LABELS}, "spec": pod_spec},
            **spec,
        },
        "status": status or {},
    }


def indexed(status: Object | None = None, *, completions: int, **spec: Any) -> Object:
    parallelism = spec.pop("parallelism", completions)
    return job(status, completionMode="Indexed", completions=completions, parallelism=parallelism, **spec)


def pod(
    name: str,
    phase: str = "Pending",
    index: int | None = None,
    *,
    tracked: bool = True,
    deleted: bool = False,
    node: str = "",
    exit_code: int | None = None,
    finished_s: float = 0,
    created_s: float = 0,
    ready: bool = False,
    restarts: int = 0,
    conditions: Sequence[Object] = (),
    annotations: dict[str, str] | None = None,
) -> Object:
    """A pod of the Job j. One that ended has a container that did."""
    metadata: Object = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "labels": LABELS,
        "annotations": {**(annotations or {}), **({JOB_COMPLETION_INDEX: str(index)} if index is not None else {})},
        "creationTimestamp": format_time(at(created_s)),
        "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-j", "controller": True}],
    }
    if tracked:
        metadata["finalizers"] = [JOB_TRACKING_FINALIZER]
    if deleted:
        metadata |= {"deletionTimestamp": format_time(at(finished_s)), "deletionGracePeriodSeconds": 0}
    container: Object = {"name": "c", "restartCount": restarts, "state": {"running": {}}}
    if phase in ("Succeeded", "Failed"):
        code = exit_code if exit_code is not None else int(phase == "Failed")
        container["state"] = {"terminated": {"exitCode": code, "finishedAt": format_time(at(finished_s))}}
    readiness = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": format_time(T0)}
    status = {"phase": phase, "containerStatuses": [container], "conditions": [readiness, *conditions]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "c", "image": "x"}], **({"nodeName": node} if node else {})},
        "status": status,
    }


def suffixes() -> Iterator[str]:
    return (f"{number:05d}" for number in count())


def plan_for(owner: Object, *pods: Object, now: float = 0, **observed: Any) -> JobPlan:
    return plan(Observed(job=owner, pods=pods, now=at(now), suffixes=suffixes(), **observed))


def statuses(planned: JobPlan) -> list[Object]:
    """The statuses of a plan in the order in which they are written."""
    return [step.status for step in planned.steps if step.status is not None]


def condition_types(status: Object) -> list[str]:
    return [condition["type"] for condition in status.get("conditions", ())]


def story(planned: JobPlan) -> list[str]:
    """The plan as a transcript, one word per write: `+name`, `-name`, `untrack name`, `status`."""
    told = []
    for step in planned.steps:
        for action in step.actions:
            match action:
                case CreateObject():
                    told.append(f"+{action.body['metadata']['name']}")
                case DeleteObject():
                    told.append(f"-{action.name}")
                case PatchObject():
                    told.append(f"untrack {action.name}")
        if step.status is not None:
            told.append("status")
    return told
