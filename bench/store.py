"""What keeping objects in a file costs, and what killing the process that writes them loses.

Writes of 4 KB objects in both durabilities beside the store in memory, what 20,000 of them take to load, and 50 kills
(25 in each durability) of a process that writes as fast as it can. Prints one JSON line last.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.cluster.store.killed_writer import Judge

from jobset.cluster.store.memory import MemoryStore
from jobset.cluster.store.sqlite import SqliteStore
from jobset.cluster.store.tables import Tables

OBJECTS = 20_000
KEYS = 5_000
KILLS = 25
MOST_WRITES = 4_000
"""Of one writer before it is killed."""


def config_map(index: int) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{index}", "namespace": "default"},
            "data": {"text": f"{index:08d}" * 480}}  # fmt: skip


def pod(index: int) -> dict[str, Any]:
    """4 KB as a pod of a Job has them: containers like those of the others, names and status of its own."""
    env = [{"name": f"VARIABLE_{number}", "value": f"value of {number}"} for number in range(64)]
    moment = f"2026-01-01T00:{index // 60 % 60:02d}:{index % 60:02d}Z"
    types = ("PodScheduled", "Initialized", "PodReadyToStartContainers", "ContainersReady", "Ready")
    labels = {f"batch.kubernetes.io/label-{number}": f"value-{number}-{index}" for number in range(6)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"p{index}", "namespace": "default", "uid": f"{index:032x}", "labels": labels},
        "spec": {
            "hostname": f"p{index}",
            "containers": [{"name": "main", "image": "python:3.11", "command": ["python", "train.py"], "env": env}],
        },
        "status": {
            "phase": "Running",
            "podIP": f"10.1.{index // 256 % 256}.{index % 256}",
            "conditions": [{"type": t, "status": "True", "lastTransitionTime": moment} for t in types],
            "containerStatuses": [{"name": "main", "ready": True, "containerID": f"process://{index}"}],
        },
    }


def writes(store: MemoryStore | SqliteStore) -> dict[str, float]:
    objects = [config_map(index % KEYS) for index in range(OBJECTS)]
    times: list[float] = []
    for obj in objects:
        start = time.perf_counter()
        store.put("configmaps", obj)
        times.append(time.perf_counter() - start)
    times.sort()
    start = time.perf_counter()
    for obj in objects[:KEYS]:
        store.remove("configmaps", obj)
    removal = (time.perf_counter() - start) / KEYS
    return {
        "puts_a_second": round(OBJECTS / sum(times)),
        "put_us_median": round(times[OBJECTS // 2] * 1e6, 1),
        "put_us_p99": round(times[OBJECTS * 99 // 100] * 1e6, 1),
        "put_ms_longest": round(times[-1] * 1e3, 1),
        "remove_us": round(removal * 1e6, 1),
    }


def load_s(path: Path, resource: str, make: Any) -> float:
    store = SqliteStore(path)
    for index in range(OBJECTS):
        store.put(resource, make(index))
    store.close()
    start = time.perf_counter()
    loaded: Tables = SqliteStore(path)
    took = time.perf_counter() - start
    assert len(loaded.list(resource)) == OBJECTS
    return round(took, 3)


def kills(path: Path, durability: Any) -> dict[str, Any]:
    judge = Judge(path, durability)
    chance = random.Random(1)
    start = time.perf_counter()
    for _ in range(KILLS):
        judge.kill_once(after=chance.randrange(1, MOST_WRITES))
    return {
        "kills": KILLS,
        "acknowledged": judge.acknowledged,
        "lost": len(judge.lost),
        "written_but_not_acknowledged": len(judge.unasked),
        "took_s": round(time.perf_counter() - start, 1),
    }


def main() -> None:
    figures: dict[str, Any] = {"memory": writes(MemoryStore())}
    with tempfile.TemporaryDirectory(prefix="jobset-bench-store-") as name:
        directory = Path(name)
        for durability in ("NORMAL", "FULL"):
            store = SqliteStore(directory / f"{durability}.db", durability=durability)  # type: ignore[arg-type]
            figures[durability] = writes(store)
            store.close()
        figures["load_20000_config_maps_s"] = load_s(directory / "config_maps.db", "configmaps", config_map)
        figures["load_20000_pods_s"] = load_s(directory / "pods.db", "pods", pod)
        for durability in ("NORMAL", "FULL"):
            figures[f"killed_{durability}"] = kills(directory / f"killed-{durability}.db", durability)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
