"""A local cluster in a directory, to be killed: `killable_server.py DIRECTORY NETWORK`.

See test_process_cluster_survival.py. Creates the objects that lie as JSON in DIRECTORY/manifests, those that are not
there yet, and says when it has.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from jobset.api.errors import AlreadyExists
from jobset.api.resources import JOBSETS, PODS
from jobset.cluster.embedded import EmbeddedOptions
from jobset.cluster.kubelet.execution import Machine
from jobset.cluster.model.pod_lifecycle.state import BackOff
from jobset.cluster.runtime.process.runtime import Network, ProcessRuntime
from jobset.cluster.store.sqlite import SqliteStore
from jobset.local.cluster import LocalCluster, local_cluster

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "here", "labels": {"kubernetes.io/hostname": "here"}},
    "status": {
        "capacity": {"cpu": "64", "memory": "64Gi", "pods": "200"},
        "allocatable": {"cpu": "64", "memory": "64Gi", "pods": "200"},
    },
}
RESOURCES = {"JobSet": JOBSETS, "Pod": PODS}


@asynccontextmanager
async def server(directory: Path, network: Network) -> AsyncIterator[LocalCluster]:
    """On what an earlier one left in the directory, if anything."""
    root = directory / "root"
    root.mkdir(exist_ok=True)
    store = SqliteStore(directory / "objects.db")
    try:
        options = EmbeddedOptions(
            root=root,
            runtime=ProcessRuntime(root, network=network, survives=True),
            nodes=[NODE],
            now=lambda: datetime.now(UTC),
            machine=Machine({"PATH": os.environ.get("PATH", "/usr/bin:/bin")}, "/"),
            container_back_off=BackOff(base_s=0.1, max_s=1),
            store=store,
        )
        async with local_cluster(options) as cluster:
            yield cluster
    finally:
        store.close()


async def create_manifests(cluster: LocalCluster, directory: Path) -> None:
    for path in sorted((directory / "manifests").iterdir()):
        manifest = json.loads(path.read_text())
        with contextlib.suppress(AlreadyExists):
            await cluster.client.create(RESOURCES[manifest["kind"]], manifest)


async def main(directory: Path, network: Network) -> None:
    async with server(directory, network) as cluster:
        await create_manifests(cluster, directory)
        print("there", flush=True)
        await asyncio.sleep(300)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
