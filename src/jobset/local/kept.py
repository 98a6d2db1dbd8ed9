"""A cluster that stays: the local cluster with its front door, from start to end of one server.

    async with kept_cluster(options, progress) as running: ...

Order matters: first the place is ours and the port is bound (what fails often fails at once), then the cluster starts,
then it is known where pods find the server, which they wait for, then the door opens, then it is announced. What was
opened last is closed first, so nobody is told of a server that is gone.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import shutil
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias

from jobset.api.errors import AlreadyExists
from jobset.api.meta import Object, format_time
from jobset.api.resources import ENDPOINT_SLICES, PODS, SERVICES
from jobset.client.port import Client
from jobset.cluster.apiserver.http.certificates import SERVICE_NAMES
from jobset.cluster.embedded import EmbeddedOptions
from jobset.cluster.kubelet.api_access import ApiAccess
from jobset.cluster.kubelet.execution import Machine
from jobset.cluster.kubelet.streams import KubeletStreams
from jobset.cluster.runtime.process.runtime import Network, ProcessRuntime
from jobset.cluster.runtime.process.surviving import end_pods
from jobset.cluster.store.memory import MemoryStore
from jobset.cluster.store.port import Store
from jobset.cluster.store.sqlite import Durability, SqliteStore
from jobset.local.cluster import LocalCluster, local_cluster
from jobset.local.credentials import Credentials, prepare_credentials, prepare_server_certificate, write_private
from jobset.local.front_door import open_front_door
from jobset.local.kept_place import Place, Running, Tenure, start_time_of
from jobset.local.kubeconfig_file import as_yaml, kubeconfig
from jobset.local.nodes import ChosenNodes

StoreKind: TypeAlias = Literal["sqlite", "memory"]
PREFERRED_PORT = 6443
POD_SIDE_PORT = 443
"""On the address that only pods see, so nobody else can have it."""
LOOPBACK = "127.0.0.1"


class CannotServe(Exception):
    """The address cannot be had. The message tells the fix."""


@dataclass(frozen=True, slots=True)
class KeptOptions:
    place: Place
    nodes: ChosenNodes
    machine: Machine
    now: Callable[[], datetime]
    network: Network = "auto"
    listen: str = LOOPBACK
    port: int | None = None
    """None: the one of last time, else the usual one, else any that is free."""
    store: StoreKind = "sqlite"
    durability: Durability = "NORMAL"


@asynccontextmanager
async def kept_cluster(options: KeptOptions, progress: Callable[[str], None]) -> AsyncIterator[Running]:
    """The cluster is up while the context lasts. RunsAlready, CannotServe, CannotStart, NotPrivate, StoreUnusable."""
    place = options.place
    with ExitStack() as stack:
        tenure = Tenure(place)
        stack.callback(tenure.close)
        outside = stack.enter_context(bind(options.listen, options.port, place.port_file))
        credentials = prepare_credentials(place.directory, options.now())
        store = await _open_store(options, stack)
        runtime = ProcessRuntime(place.root, network=options.network, survives=options.store == "sqlite")
        progress("starting the cluster")
        pod_side: asyncio.Future[ApiAccess | None] = asyncio.get_running_loop().create_future()
        embedded = EmbeddedOptions(
            place.root, runtime, options.nodes.objects, options.now, options.machine, options.nodes.devices,
            api_access=lambda: asyncio.shield(pod_side), store=store,
        )  # fmt: skip
        async with local_cluster(embedded) as cluster:
            inside = await _listen_inside(runtime, stack)
            access = _access(inside, outside, runtime, credentials)
            hosts = _hosts(options.listen, access.host)
            prepare_server_certificate(credentials, hosts, options.now())
            sockets = [outside] if inside is None else [outside, inside]
            streams = KubeletStreams(runtime, place.root, lambda namespace, name: find_pod(cluster, namespace, name))
            async with open_front_door(cluster, credentials, hosts, options.now, sockets, streams):
                await publish_address(cluster.client, access)
                pod_side.set_result(access)
                yield _announce(options, tenure, credentials, runtime, url_of(outside))


def find_pod(cluster: LocalCluster, namespace: str, name: str) -> Object | None:
    return cluster.service.store.get(str(PODS), namespace, name)


def _announce(
    options: KeptOptions, tenure: Tenure, credentials: Credentials, runtime: ProcessRuntime, url: str
) -> Running:
    place, pid = options.place, os.getpid()
    assert runtime.network is not None
    write_private(place.kubeconfig, as_yaml(kubeconfig(place.name, url, credentials)))
    running = Running(
        pid=pid,
        start_time=start_time_of(pid),
        url=url,
        started_at=format_time(options.now()),
        network=runtime.network.sentence,
    )
    tenure.announce(running)
    return running


async def _open_store(options: KeptOptions, stack: ExitStack) -> Store:
    """Without a file nothing is known of earlier pods: what is left of them goes."""
    root = options.place.root
    if options.store == "memory" and root.exists():
        await end_pods(root)
        shutil.rmtree(root, ignore_errors=True)
    root.mkdir(mode=0o700, exist_ok=True)
    if options.store == "memory":
        return MemoryStore()
    store = SqliteStore(options.place.database, durability=options.durability)
    stack.callback(store.close)
    return store


async def _listen_inside(runtime: ProcessRuntime, stack: ExitStack) -> socket.socket | None:
    """A listening socket that pods reach; None when they share the machine's network."""
    found = await runtime.listen(POD_SIDE_PORT)
    return None if found is None else stack.enter_context(found)


def _access(
    inside: socket.socket | None, outside: socket.socket, runtime: ProcessRuntime, credentials: Credentials
) -> ApiAccess:
    host, port = reached_at(outside if inside is None else inside)
    assert runtime.network is not None
    return ApiAccess(host, port, credentials.authority.certificate, files=runtime.network.mounts)


# -- addresses ----------------------------------------------------------------------------------------------------


def bind(listen: str, port: int | None, remembered: Path) -> socket.socket:
    """A listening socket. Raises CannotServe."""
    last: OSError | None = None
    for choice in _ports(port, remembered):
        try:
            family = socket.AF_INET6 if ":" in listen else socket.AF_INET
            bound = socket.create_server((listen, choice), family=family, backlog=512)
        except OSError as error:
            last = error
            continue
        write_private(remembered, str(bound.getsockname()[1]))
        return bound
    assert last is not None
    where = f"port {port} of {listen}" if port else listen
    fix = "choose another --port" if port else "choose another --listen"
    raise CannotServe(f"cannot listen on {where}: {os.strerror(last.errno) if last.errno else last}; {fix}") from last


def _ports(port: int | None, remembered: Path) -> Sequence[int]:
    if port is not None:
        return (port,)
    text = remembered.read_text().strip() if remembered.exists() else ""
    return (*((int(text),) if text.isdecimal() else ()), PREFERRED_PORT, 0)


def is_loopback(listen: str) -> bool:
    try:
        return ipaddress.ip_address(listen).is_loopback
    except ValueError:
        return listen.lower() == "localhost"


def reached_at(listening: socket.socket) -> tuple[str, int]:
    """Address and port by which a listening socket is reached from where it listens."""
    host, port = listening.getsockname()[:2]
    address = ipaddress.ip_address(host)
    if address.is_unspecified:
        return (LOOPBACK if address.version == 4 else "::1"), port
    return host, port


def url_of(listening: socket.socket) -> str:
    """How programs on this machine call the server."""
    host, port = reached_at(listening)
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def _hosts(listen: str, pod_side: str) -> list[str]:
    """Every name and address by which the server may be called."""
    hosts = ["localhost", LOOPBACK, "::1", *SERVICE_NAMES, pod_side]
    if listen in ("0.0.0.0", "::"):
        hosts += [socket.gethostname().lower(), *_own_addresses()]
    else:
        hosts.append(listen.lower())
    return list(dict.fromkeys(hosts))


def _own_addresses() -> list[str]:
    try:
        found = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return sorted({str(info[4][0]).partition("%")[0] for info in found})


async def publish_address(client: Client, access: ApiAccess) -> None:
    """The Service `kubernetes`, whose name pods look up. It leads to the address itself: nothing here forwards."""
    metadata = {"name": "kubernetes", "namespace": "default"}
    labels = {"component": "apiserver", "provider": "kubernetes"}
    port = {"name": "https", "port": access.port, "protocol": "TCP"}
    service: Object = {
        "metadata": {**metadata, "labels": labels},
        "spec": {"clusterIP": "None", "ports": [{**port, "targetPort": access.port}]},
    }
    endpoints: Object = {
        "metadata": {**metadata, "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": "IPv6" if ":" in access.host else "IPv4",
        "endpoints": [{"addresses": [access.host], "conditions": {"ready": True}}],
        "ports": [port],
    }
    for resource, obj in ((SERVICES, service), (ENDPOINT_SLICES, endpoints)):
        try:
            await client.create(resource, obj)
        except AlreadyExists:
            await client.patch(resource, "default", "kubernetes", obj)
