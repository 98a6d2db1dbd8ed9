"""A served API for tests: the API service with its controllers behind HTTPS on a port that the system chooses."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jobset.api.resources import SERVICE_ACCOUNTS
from jobset.cluster.apiserver.http.app import build_app
from jobset.cluster.apiserver.http.authentication import Authentication
from jobset.cluster.apiserver.http.authorization import Authorization, create_default_roles
from jobset.cluster.apiserver.http.certificates import new_authority, new_server_certificate, new_signing_key
from jobset.cluster.apiserver.http.server import serving
from jobset.cluster.apiserver.http.streams.port import PodStreams
from jobset.cluster.apiserver.http.tokens import Signer, Tokens
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.client import InProcessClient
from jobset.cluster.controllers.garbage import GarbageCollector
from jobset.cluster.controllers.job import JobController
from jobset.cluster.controllers.namespaces import NamespaceController
from jobset.cluster.controllers.scheduler import Scheduler
from jobset.cluster.controllers.ttl import TTLController
from jobset.cluster.store.memory import MemoryStore
from jobset.reconcile.informer import SharedInformers

TOKEN = "the-administrator"
CONTROLLERS: Sequence[Callable[..., Any]] = (
    JobController,
    Scheduler,
    TTLController,
    GarbageCollector,
    NamespaceController,
)


def now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Served:
    url: str
    service: ApiService
    authority: Path
    """File with the certificate of the authority that vouches for the server."""


def write_certificates(directory: Path) -> tuple[Path, ssl.SSLContext]:
    """The authority's file, and what the server needs to speak TLS as 127.0.0.1 and localhost."""
    authority = new_authority(now())
    server = new_server_certificate(authority, ["127.0.0.1", "localhost"], now())
    files = {"ca.crt": authority.certificate, "server.crt": server.certificate, "server.key": server.key}
    for name, text in files.items():
        (directory / name).write_text(text)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "server.crt", directory / "server.key")
    return directory / "ca.crt", context


@asynccontextmanager
async def served_cluster(
    tls: Path,
    *,
    controllers: Sequence[Callable[..., Any]] = (),
    prepare: Callable[[ApiService], PodStreams | None] = lambda _: None,
    port: int = 0,
) -> AsyncIterator[Served]:
    """`tls`: a directory for certificates. `prepare` may give what streams pods."""
    service = ApiService(MemoryStore(), now=now)
    streams = prepare(service)
    create_default_roles(service)
    tokens = Tokens(Signer(new_signing_key()), service.store, now)
    service.add_subresource(SERVICE_ACCOUNTS, "token", tokens.request)
    app = build_app(
        service,
        authentication=Authentication(tokens, TOKEN),
        authorization=Authorization(service.store),
        now=now,
        streams=streams,
    )
    authority, context = write_certificates(tls)
    listener = socket.create_server(("127.0.0.1", port))
    client = InProcessClient(service)
    informers = SharedInformers(client)
    running = [factory(client, informers, now) for factory in controllers]
    async with asyncio.TaskGroup() as group, serving(app, [listener], context):
        tasks = [group.create_task(informers.run()), *(group.create_task(one.run()) for one in running)]
        await informers.wait_synced()
        yield Served(f"https://127.0.0.1:{listener.getsockname()[1]}", service, authority)
        for task in tasks:
            task.cancel()
