"""A whole cluster in this program: the embedded Kubernetes, JobSet's admission, and the JobSet controllers on top.

    async with local_cluster(EmbeddedOptions(...)) as cluster:
        await cluster.client.create(JOBSETS, manifest)

The controllers reach the embedded Kubernetes only through the client port, as they would reach a real one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from jobset.api.meta import Object
from jobset.api.resources import PODS
from jobset.client.port import Client
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.embedded import EmbeddedOptions, embedded_cluster
from jobset.cluster.kubelet.kubelet import Kubelet
from jobset.cluster.kubelet.pods import log_path, pod_directory
from jobset.core.features import FeatureGates
from jobset.core.placement import place_pod
from jobset.local.admission import serve_jobsets
from jobset.operator.jobset import JobSetController
from jobset.operator.placement import PlacementController


class LocalCluster(Struct, frozen=True):
    client: Client
    root: Path
    service: ApiService
    kubelet: Kubelet

    def log_path(self, pod: Object, container: str, attempt: int) -> Path:
        """Where the output of one run of a container is (CRI log format)."""
        return log_path(pod_directory(self.root, pod), container, attempt)


@asynccontextmanager
async def local_cluster(options: EmbeddedOptions, gates: FeatureGates | None = None) -> AsyncIterator[LocalCluster]:
    """A cluster that runs JobSets, for as long as the context lasts. Nothing of it is left afterwards."""
    gates = gates or FeatureGates()

    def prepare(service: ApiService) -> None:
        serve_jobsets(service, gates)
        service.add_admission(PODS, place_pod)

    async with embedded_cluster(options, prepare) as cluster:
        controllers = (
            JobSetController(cluster.client, options.now, gates),
            PlacementController(cluster.client, options.now),
        )
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(part.run(), name=type(part).__name__) for part in controllers]
            try:
                yield LocalCluster(cluster.client, options.root, cluster.service, cluster.kubelet)
            finally:
                for task in tasks:
                    task.cancel()
