"""The embedded Kubernetes put together: store, API service, controllers, scheduler, kubelet, names. No JobSet in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from jobset.api.errors import AlreadyExists
from jobset.api.meta import Object
from jobset.api.resources import NODES
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.client import InProcessClient
from jobset.cluster.controllers.endpoints import EndpointsController
from jobset.cluster.controllers.garbage import GarbageCollector
from jobset.cluster.controllers.job import JobController
from jobset.cluster.controllers.namespaces import NamespaceController
from jobset.cluster.controllers.pod_garbage import PodGarbageCollector
from jobset.cluster.controllers.scheduler import Scheduler
from jobset.cluster.controllers.ttl import TTLController
from jobset.cluster.controllers.volumes import VolumeController
from jobset.cluster.dns.publisher import NamePublisher
from jobset.cluster.kubelet.api_access import AccessSource, no_access
from jobset.cluster.kubelet.execution import Machine
from jobset.cluster.kubelet.heartbeat import Heartbeat
from jobset.cluster.kubelet.kubelet import Kubelet
from jobset.cluster.model.job.backoff import KUBERNETES_DELAYS, RetryDelays
from jobset.cluster.model.pod_lifecycle.state import KUBERNETES_BACK_OFF, BackOff
from jobset.cluster.runtime.port import Runtime
from jobset.cluster.store.memory import MemoryStore
from jobset.cluster.store.port import Store
from jobset.reconcile.events import EventRecorder
from jobset.reconcile.informer import SharedInformers


class Component(Protocol):
    """Anything that runs until cancelled."""

    async def run(self) -> None: ...


class EmbeddedOptions(Struct, frozen=True):
    """`root` is a private directory for pods and volumes; it exists. `nodes` are complete Node objects."""

    root: Path
    runtime: Runtime
    nodes: Sequence[Object]
    now: Callable[[], datetime]
    machine: Machine
    devices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """GPU ids of each node."""
    api_access: AccessSource = no_access
    """How pods reach the API server, where it is served."""
    kubelet_events: bool = True
    job_retry_delays: RetryDelays = KUBERNETES_DELAYS
    container_back_off: BackOff = KUBERNETES_BACK_OFF
    store: Store | None = None
    """None: a new one in memory."""
    seed: int | None = None
    """Makes uids and generated names repeatable."""


class EmbeddedCluster(Struct, frozen=True):
    service: ApiService
    client: InProcessClient
    kubelet: Kubelet


@asynccontextmanager
async def embedded_cluster(
    options: EmbeddedOptions, prepare: Callable[[ApiService], None] = lambda _: None
) -> AsyncIterator[EmbeddedCluster]:
    """A running cluster. `prepare` may add kinds and admission before anything starts."""
    service = ApiService(MemoryStore() if options.store is None else options.store, now=options.now, seed=options.seed)
    prepare(service)
    client = InProcessClient(service)
    for node in options.nodes:
        await _register(client, node)
    informers = SharedInformers(client)
    served = frozenset(node["metadata"]["name"] for node in options.nodes).__contains__
    kubelet = _kubelet(client, informers, served, options)
    heartbeat = Heartbeat(client, informers, options.now, served)
    components: list[Component] = [kubelet, heartbeat, *_controllers(client, informers, options), informers]
    await options.runtime.start()
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(part.run(), name=type(part).__name__) for part in components]
            try:
                await informers.wait_synced()
                yield EmbeddedCluster(service, client, kubelet)
            finally:
                for task in tasks:
                    task.cancel()
    finally:
        await options.runtime.close()


async def _register(client: InProcessClient, node: Object) -> None:
    """Create the node; one that an earlier program left becomes what it is now."""
    try:
        await client.create(NODES, node)
    except AlreadyExists:
        name = node["metadata"]["name"]
        metadata = {key: value for key, value in node["metadata"].items() if key in ("labels", "annotations")}
        await client.patch(NODES, "", name, {"metadata": metadata, "spec": node.get("spec") or {}})
        resources = {key: node["status"][key] for key in ("allocatable", "capacity") if key in node["status"]}
        await client.patch(NODES, "", name, {"status": resources}, subresource="status")


def _kubelet(
    client: InProcessClient, informers: SharedInformers, served: Callable[[str], bool], options: EmbeddedOptions
) -> Kubelet:
    return Kubelet(
        client,
        informers,
        options.runtime,
        options.now,
        options.root,
        served,
        options.machine,
        access=options.api_access,
        events=EventRecorder(client, "kubelet", options.now) if options.kubelet_events else None,
        back_off=options.container_back_off,
        devices=options.devices,
    )


def _controllers(client: InProcessClient, informers: SharedInformers, options: EmbeddedOptions) -> list[Component]:
    now = options.now
    return [
        JobController(client, informers, now, retry_delays=options.job_retry_delays, seed=options.seed),
        TTLController(client, informers, now),
        Scheduler(client, informers, now),
        GarbageCollector(client, informers, now),
        NamespaceController(client, informers, now),
        EndpointsController(client, informers, now),
        VolumeController(client, informers, now, options.root / "volumes"),
        PodGarbageCollector(client, informers, now),
        NamePublisher(informers, options.runtime),
    ]
