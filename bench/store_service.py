"""What one request to the embedded API service costs: create a pod, patch its status, delete it; with watchers beside.

Prints one JSON line last: microseconds a request, and the memory a pod with three versions of its status takes.
"""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from jobset.api.resources import NAMESPACES, PODS
from jobset.cluster.apiserver.options import DeleteOptions
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.store.memory import MemoryStore

PODS_CREATED = 5000
WATCHERS_ELSEWHERE = 200
TEMPLATE: dict[str, Any] = {
    "restartPolicy": "Never",
    "subdomain": "train",
    "containers": [
        {
            "name": "main",
            "image": "python:3.11",
            "command": ["python", "train.py"],
            "ports": [{"containerPort": 29500}],
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
        }
    ],
}


def pod(index: int) -> dict[str, Any]:
    """A pod as the Job controller makes it: everything of its own but the containers' template."""
    labels = {"job-name": "train-workers-0", "batch.kubernetes.io/job-name": "train-workers-0",
              "batch.kubernetes.io/controller-uid": "8b0f3d1c-0f0e-4a55-9a69-5f70d0e0a001",
              "batch.kubernetes.io/job-completion-index": str(index),
              "jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/replicatedjob-name": "workers",
              "jobset.sigs.k8s.io/restart-attempt": "0", "jobset.sigs.k8s.io/job-index": "0"}  # fmt: skip
    index_field = {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}
    env = [{"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": index_field}}]
    containers = [{**container, "env": env} for container in TEMPLATE["containers"]]
    metadata = {
        "generateName": f"train-workers-0-{index}-",
        "namespace": "default",
        "labels": labels,
        "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
        "finalizers": ["batch.kubernetes.io/job-tracking"],
        "ownerReferences": [
            {
                "apiVersion": "batch/v1", "kind": "Job", "name": "train-workers-0", "controller": True,
                "uid": "8b0f3d1c-0f0e-4a55-9a69-5f70d0e0a001", "blockOwnerDeletion": True,
            }
        ],
    }  # fmt: skip
    return {
        "metadata": metadata,
        "spec": {**TEMPLATE, "hostname": f"train-workers-0-{index}", "containers": containers},
    }


def status(phase: str, ready: bool) -> dict[str, Any]:
    moment = "2026-01-01T00:00:00Z"
    types = ("Initialized", "ContainersReady", "Ready", "PodScheduled")
    return {
        "status": {
            "phase": phase,
            "podIP": "10.1.2.3",
            "startTime": moment,
            "conditions": [{"type": t, "status": str(ready), "lastTransitionTime": moment} for t in types],
            "containerStatuses": [
                {"name": "main", "image": "python:3.11", "imageID": "", "ready": ready, "restartCount": 0,
                 "state": {"running": {"startedAt": moment}}}
            ],
        }
    }  # fmt: skip


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return round((time.perf_counter() - start) / PODS_CREATED * 1e6, 1)


def main() -> None:
    service = ApiService(MemoryStore(), now=lambda: datetime(2026, 1, 1, tzinfo=UTC), seed=1)
    service.create(NAMESPACES, "", {"metadata": {"name": "elsewhere"}})
    for _ in range(WATCHERS_ELSEWHERE):
        service.store.watch("pods", service.store.revision, namespace="elsewhere")
    follower = service.store.watch("pods", service.store.revision)
    bodies = [pod(index) for index in range(PODS_CREATED)]
    tracemalloc.start()
    names = [service.create(PODS, "default", body)["metadata"]["name"] for body in bodies[:500]]
    for name in names:
        service.patch(PODS, "default", name, status("Running", ready=True), subresource="status")
    bytes_a_pod = tracemalloc.get_traced_memory()[0] // 500
    tracemalloc.stop()
    figures: dict[str, float] = {"memory_bytes_a_pod": bytes_a_pod}
    names = []

    def create() -> None:
        names.extend(service.create(PODS, "default", body)["metadata"]["name"] for body in bodies)

    figures["create_pod_us"] = timed(create)
    for key, phase, ready in (("status_patch_us", "Running", False), ("status_patch_again_us", "Running", True)):
        patch = status(phase, ready)
        figures[key] = timed(
            lambda patch=patch: [service.patch(PODS, "default", n, patch, subresource="status") for n in names]
        )
    figures["no_change_patch_us"] = timed(
        lambda: [service.patch(PODS, "default", n, patch, subresource="status") for n in names]
    )
    figures["bind_us"] = timed(
        lambda: [service.create_subresource(PODS, "default", n, "binding", {"target": {"name": "node"}}) for n in names]
    )
    figures["remove_finalizer_us"] = timed(
        lambda: [service.patch(PODS, "default", n, {"metadata": {"finalizers": None}}) for n in names]
    )
    now = DeleteOptions(grace_period_s=0)
    figures["delete_us"] = timed(lambda: [service.delete(PODS, "default", n, now) for n in names])
    follower.close()
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
