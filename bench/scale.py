"""Create a JobSet of 100 and of 500 Jobs x 10 pods until all are ready, then let one pod fail and restart the whole.

Everything in one process on the scripted runtime: API service, all controllers, scheduler, kubelet. Beside it, for
comparison, the Go controller on a real Kubernetes 1.36 with hollow nodes on a machine of the same size. Each size runs
in a process of its own, so that its peak memory is its own. The last line is JSON.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jobset.api.meta import Object
from jobset.api.resources import JOBSETS
from jobset.cluster.embedded import EmbeddedOptions
from jobset.cluster.kubelet.execution import Machine
from jobset.cluster.model.nodes import uniform_nodes
from jobset.cluster.runtime.scripted import ScriptedRuntime
from jobset.local.cluster import LocalCluster, local_cluster

PODS_PER_JOB = 10
SIZES = (100, 500)
ORIGINAL_S = {100: {"create_s": 14.9, "restart_s": 27.5}, 500: {"create_s": 177.0, "restart_s": 246.0}}
LIMIT_S = 300.0


def jobset(jobs: int) -> Object:
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "busybox", "command": ["sleep", "inf"]}],
    }
    template = {"parallelism": PODS_PER_JOB, "completions": PODS_PER_JOB, "backoffLimit": 0, "template": {"spec": pod}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "scale", "namespace": "default"},
        "spec": {
            "failurePolicy": {"maxRestarts": 3},
            "replicatedJobs": [{"name": "w", "replicas": jobs, "template": {"spec": template}}],
        },
    }


async def wait_ready(cluster: LocalCluster, jobs: int, restarts: int) -> None:
    async with asyncio.timeout(LIMIT_S):
        while True:
            status = (await cluster.client.get(JOBSETS, "default", "scale", dict)).get("status") or {}
            entries = status.get("replicatedJobsStatus") or [{}]
            if status.get("restarts", 0) == restarts and entries[0].get("ready") == jobs:
                return
            await asyncio.sleep(0.02)


async def measure(jobs: int) -> dict[str, Any]:
    def now() -> datetime:
        return datetime.now(UTC)

    runtime = ScriptedRuntime(now)
    nodes = uniform_nodes(max(1, jobs * PODS_PER_JOB // 100 + 1))
    figures: dict[str, Any] = {"jobs": jobs, "pods": jobs * PODS_PER_JOB}
    with tempfile.TemporaryDirectory() as root:
        options = EmbeddedOptions(Path(root), runtime, nodes, now, Machine({}, "/"), kubelet_events=False)
        async with local_cluster(options) as cluster:
            figures |= await timed("create", lambda: create_and_wait(cluster, jobs))
            runtime_failure = runtime.running()[jobs * PODS_PER_JOB // 2]
            figures |= await timed("restart", lambda: fail_and_wait(cluster, runtime, runtime_failure, jobs))
    figures["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return figures


async def create_and_wait(cluster: LocalCluster, jobs: int) -> None:
    await cluster.client.create(JOBSETS, jobset(jobs))
    await wait_ready(cluster, jobs, restarts=0)


async def fail_and_wait(cluster: LocalCluster, runtime: ScriptedRuntime, container: Any, jobs: int) -> None:
    runtime.finish(container, 1)
    await wait_ready(cluster, jobs, restarts=1)


async def timed(name: str, work: Any) -> dict[str, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    await work()
    return {
        f"{name}_s": round(time.perf_counter() - wall, 2),
        f"{name}_cpu_s": round(time.process_time() - cpu, 2),
    }


def main() -> None:
    if len(sys.argv) > 1:
        gc.set_threshold(50_000, 20, 100)
        print(json.dumps(asyncio.run(measure(int(sys.argv[1])))))
        return
    results = []
    for jobs in SIZES:
        answer = subprocess.run([sys.executable, __file__, str(jobs)], check=True, capture_output=True, text=True)
        found = json.loads(answer.stdout.splitlines()[-1])
        results.append(found)
        for step in ("create", "restart"):
            theirs = ORIGINAL_S[jobs][f"{step}_s"]
            ours = found[f"{step}_s"]
            print(
                f"{step:8} {jobs} x {PODS_PER_JOB}: {ours:7.2f} s wall, {found[f'{step}_cpu_s']:7.2f} s CPU; "
                f"the original on a real cluster: {theirs:.1f} s, {theirs / ours:.1f} times as long"
            )
        print(f"peak memory: {found['peak_mb']} MB")
    small, large = results
    growth = {f"{step}_growth": round(large[f"{step}_s"] / small[f"{step}_s"], 2) for step in ("create", "restart")}
    print(f"500 Jobs against 100 Jobs: create x{growth['create_growth']}, restart x{growth['restart_growth']}")
    print(json.dumps({"sizes": results, **growth}))


if __name__ == "__main__":
    main()
