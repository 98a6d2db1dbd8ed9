"""This machine as a node of any cluster: our kubelet and its processes behind somebody else's API server.

    async with joined_node(options) as node:
        ...
        await node.drain()

The Node is registered when everything else is ready to run its pods, and removed last. A Node of the same name that is
not ours is never touched. Nothing here schedules or controls: the cluster does.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct, field

from jobset.api.errors import AlreadyExists, NotFound
from jobset.api.meta import Object
from jobset.api.resources import LEASES, NODES, PODS
from jobset.client.http.adapter import HttpClient
from jobset.client.kubeconfig import Target
from jobset.client.port import Client
from jobset.cluster.dns.publisher import NamePublisher
from jobset.cluster.kubelet.api_access import ApiAccess
from jobset.cluster.kubelet.execution import Machine
from jobset.cluster.kubelet.heartbeat import LEASE_NAMESPACE, Heartbeat
from jobset.cluster.kubelet.kubelet import Kubelet
from jobset.cluster.runtime.process.runtime import Network, NetworkChoice, ProcessRuntime
from jobset.reconcile.events import EventRecorder
from jobset.reconcile.informer import SharedInformers

JOINED = "jobset.x-k8s.io/joined-node"
RENEW_S = 10.0
"""As often as any kubelet: clusters give up nodes that are silent for four times as long."""
LOOK_S = 0.1


class NameTaken(Exception):
    """The cluster has a node of this name, which is not one that joined like this."""


class JoinOptions(Struct, frozen=True):
    """`node` is the Node to register. `root` is a private directory that exists and is removed in the end."""

    target: Target
    node: Object
    machine: Machine
    root: Path
    now: Callable[[], datetime]
    network: Network = "auto"
    devices: Mapping[str, Sequence[str]] = field(default_factory=dict)


class JoinedNode:
    """A node that is registered and runs pods."""

    def __init__(self, client: Client, name: str, network: NetworkChoice) -> None:
        self.name = name
        self.network = network
        self._client = client

    async def pods(self) -> Sequence[Object]:
        """Those that are bound to it."""
        return (await self._client.list(PODS, dict, field_selector=_of_node(self.name))).items

    async def drain(self, *, at_once: bool = False) -> None:
        """Take no new pods, delete those that are here, and wait until they have ended. `at_once`: without grace."""
        await self._client.patch(NODES, "", self.name, {"spec": {"unschedulable": True}})
        leaving = [pod["metadata"] for pod in await self.pods()]
        for metadata in leaving:
            with suppress(NotFound):
                await self._client.delete(
                    PODS,
                    metadata["namespace"],
                    metadata["name"],
                    uid=metadata["uid"],
                    grace_period_s=0 if at_once else None,
                )
        those = {metadata["uid"] for metadata in leaving}
        while those & {pod["metadata"]["uid"] for pod in await self.pods()}:
            await asyncio.sleep(LOOK_S)


@asynccontextmanager
async def joined_node(options: JoinOptions) -> AsyncIterator[JoinedNode]:
    """Registered while the context lasts. NameTaken, CannotStart, ApiError."""
    name = options.node["metadata"]["name"]
    runtime = ProcessRuntime(options.root, network=options.network, owns_directory=True)
    await runtime.start()
    assert runtime.network is not None
    try:
        async with HttpClient(options.target, now=options.now) as client:
            await register(client, options.node)
            try:
                async with _running(client, runtime, options):
                    yield JoinedNode(client, name, runtime.network)
            finally:
                await _remove(client, name)
    finally:
        await runtime.close()


@asynccontextmanager
async def _running(client: Client, runtime: ProcessRuntime, options: JoinOptions) -> AsyncIterator[None]:
    name = options.node["metadata"]["name"]
    informers = SharedInformers(client, {PODS: _of_node(name), NODES: f"metadata.name={name}"})
    served = frozenset({name}).__contains__
    access = api_access(options.target, runtime.network)

    async def access_source() -> ApiAccess | None:
        return access

    kubelet = Kubelet(
        client,
        informers,
        runtime,
        options.now,
        options.root,
        served,
        options.machine,
        access=access_source,
        events=EventRecorder(client, "kubelet", options.now),
        devices=options.devices,
    )
    heartbeat = Heartbeat(client, informers, options.now, served, renew_s=RENEW_S)
    parts = (kubelet, heartbeat, NamePublisher(informers, runtime), informers)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part.run(), name=type(part).__name__) for part in parts]
        try:
            await informers.wait_synced()
            yield
        finally:
            for task in tasks:
                task.cancel()


async def register(client: Client, node: Object) -> None:
    """Create the Node; one that we left behind earlier becomes what it is now. NameTaken."""
    metadata = {**node["metadata"], "annotations": {**node["metadata"].get("annotations", {}), JOINED: "true"}}
    name, status = metadata["name"], {key: value for key, value in node["status"].items() if key != "conditions"}
    try:
        await client.create(NODES, {**node, "metadata": metadata, "status": status})
    except AlreadyExists:
        known = await client.get(NODES, "", name, dict)
        if JOINED not in (known["metadata"].get("annotations") or {}):
            raise NameTaken(f"the cluster has a node {name} already, which did not join like this") from None
        shown = {key: metadata[key] for key in ("labels", "annotations")}
        spec = {"unschedulable": None, "taints": node["spec"].get("taints")}
        await client.patch(NODES, "", name, {"metadata": shown, "spec": spec})
        await client.patch(NODES, "", name, {"status": status}, subresource="status")


async def _remove(client: Client, name: str) -> None:
    for resource, namespace in ((NODES, ""), (LEASES, LEASE_NAMESPACE)):
        with suppress(NotFound):
            await client.delete(resource, namespace, name)


def _of_node(name: str) -> str:
    return f"spec.nodeName={name}"


# -- addresses ----------------------------------------------------------------------------------------------------


def own_address(target: Target) -> str:
    """The address from which this machine speaks to the cluster."""
    parts = urlsplit(target.server)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:  # nothing is sent
        try:
            probe.connect((parts.hostname or "", parts.port or 443))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def api_access(target: Target, network: NetworkChoice | None) -> ApiAccess | None:
    """How pods reach the API server. None when they cannot: it listens on loopback, they have networks of their own."""
    parts = urlsplit(target.server)
    host = parts.hostname or ""
    authority = target.authority.data or (target.authority.file.read_bytes() if target.authority.file else b"")
    if network is None or not authority or (network.kind == "pod" and _is_loopback(host)):
        return None
    return ApiAccess(host, parts.port or 443, authority.decode(), files=network.mounts)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
