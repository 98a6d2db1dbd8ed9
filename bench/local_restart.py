"""From a worker's exit to every pod of the new attempt running: 8 real processes, grace period 0, several times.

One run of one JobSet: in each attempt but the last, worker 3 exits with code 1 at a time that it writes down itself;
every worker of the next attempt writes down when it began. Beside it: how long the same eight processes take to start
without JobSet (subprocess), the floor. The last line is JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
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
from jobset.cluster.kubelet.env import inherited_env
from jobset.cluster.kubelet.execution import Machine
from jobset.cluster.runtime.process.runtime import ProcessRuntime
from jobset.local.cluster import local_cluster
from jobset.local.nodes import choose_nodes

WORKERS, ROUNDS, GOAL_S = 8, 10, 0.5
SCRIPT = """
date +%s.%N > "$DIR/begun-$ATTEMPT-$JOB_COMPLETION_INDEX"
if [ "$JOB_COMPLETION_INDEX" = 3 ] && [ "$ATTEMPT" -lt "$ROUNDS" ]; then
  while [ "$(ls "$DIR" | grep -c "begun-$ATTEMPT-")" -lt "$WORKERS" ]; do sleep 0.02; done
  sleep 0.3
  date +%s.%N > "$DIR/failed-$ATTEMPT"
  exit 1
fi
exec sleep 1000
"""


def jobset(directory: Path) -> Object:
    attempt = {"fieldRef": {"fieldPath": "metadata.labels['jobset.sigs.k8s.io/restart-attempt']"}}
    env = [
        {"name": "DIR", "value": str(directory)},
        {"name": "ROUNDS", "value": str(ROUNDS)},
        {"name": "WORKERS", "value": str(WORKERS)},
        {"name": "ATTEMPT", "valueFrom": attempt},
    ]
    container = {"name": "c", "image": "busybox", "command": ["sh", "-c", SCRIPT], "env": env}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
    job = {"parallelism": WORKERS, "completions": WORKERS, "backoffLimit": 0, "template": {"spec": pod}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "restart", "namespace": "default"},
        "spec": {
            "failurePolicy": {"maxRestarts": ROUNDS},
            "replicatedJobs": [{"name": "w", "template": {"spec": job}}],
        },
    }


async def restart_many_times(directory: Path, root: Path) -> None:
    def now() -> datetime:
        return datetime.now(UTC)

    manifest = jobset(directory)
    machine = Machine(inherited_env(os.environ, sys.executable), "/")
    runtime = ProcessRuntime(root, owns_directory=False)
    options = EmbeddedOptions(root, runtime, choose_nodes([manifest], None).objects, now, machine)
    async with local_cluster(options) as cluster, asyncio.timeout(120):
        await cluster.client.create(JOBSETS, manifest)
        while len(list(directory.glob(f"begun-{ROUNDS}-*"))) < WORKERS:
            await asyncio.sleep(0.05)


def moment(path: Path) -> float:
    return float(path.read_text())


def floor_s() -> float:
    """Eight shells started one after the other without JobSet, until all have begun."""
    with tempfile.TemporaryDirectory() as name:
        start = time.time()
        script = 'date +%s.%N > "$0"'
        shells = [subprocess.Popen(["sh", "-c", script, f"{name}/{index}"]) for index in range(WORKERS)]
        for shell in shells:
            shell.wait()
        return max(moment(Path(name) / str(index)) for index in range(WORKERS)) - start


def main() -> None:
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as root:
        directory = Path(name)
        asyncio.run(restart_many_times(directory, Path(root)))
        spent = []
        for attempt in range(ROUNDS):
            begun = [moment(path) for path in directory.glob(f"begun-{attempt + 1}-*")]
            spent.append(max(begun) - moment(directory / f"failed-{attempt}"))
    floor = statistics.median(floor_s() for _ in range(5))
    figures: dict[str, Any] = {
        "workers": WORKERS,
        "rounds": ROUNDS,
        "median_s": round(statistics.median(spent), 3),
        "min_s": round(min(spent), 3),
        "max_s": round(max(spent), 3),
        "bare_start_s": round(floor, 3),
        "goal_s": GOAL_S,
    }
    figures["ratio_to_bare_start"] = round(figures["median_s"] / figures["bare_start_s"], 1)
    print(
        f"exit of one of {WORKERS} workers -> all of the next attempt running: median {figures['median_s']} s of "
        f"{ROUNDS} (goal {GOAL_S} s); starting the same processes bare: {figures['bare_start_s']} s"
    )
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
