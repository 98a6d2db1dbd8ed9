"""A node with real processes behind the API server's front door (HTTPS), and kubectl that talks to it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jobset.api.meta import Object
from jobset.api.resources import PODS
from jobset.cluster.apiserver.http.app import build_app
from jobset.cluster.apiserver.http.authentication import Authentication
from jobset.cluster.apiserver.http.authorization import Authorization
from jobset.cluster.apiserver.http.certificates import new_authority, new_server_certificate, new_signing_key
from jobset.cluster.apiserver.http.server import serving
from jobset.cluster.apiserver.http.streams.port import PodStreams
from jobset.cluster.apiserver.http.tokens import Signer, Tokens
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.client import InProcessClient
from jobset.cluster.kubelet.env import inherited_env
from jobset.cluster.kubelet.execution import Machine
from jobset.cluster.kubelet.kubelet import Kubelet
from jobset.cluster.kubelet.streams import KubeletStreams
from jobset.cluster.model.pod_lifecycle.state import BackOff
from jobset.cluster.runtime.process.runtime import Network, ProcessRuntime
from jobset.cluster.store.memory import MemoryStore
from jobset.reconcile.informer import SharedInformers

LIMIT_S = 60.0
KUBECTL = os.environ.get("KUBECTL", "kubectl")
"""Another version can be tried by naming it there."""
PYTHON = sys.executable
TOKEN = "the-administrator"
AUTHORITY = "ca.crt"


def now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Answer:
    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()


class Rig:
    def __init__(self, root: Path, service: ApiService, runtime: ProcessRuntime, port: int) -> None:
        self.root = root
        self.service = service
        self.runtime = runtime
        self.url = f"https://127.0.0.1:{port}"
        self.flags = ("--server", self.url, "--certificate-authority", str(root / AUTHORITY), "--token", TOKEN)

    async def run(self, *argv: str, name: str = "p", **container: Any) -> None:
        """A pod with one container, running."""
        await self.create({"containers": [{"name": "main", "image": "i", "command": list(argv), **container}]}, name)
        await self.wait(lambda pod: is_running(pod), name)

    async def create(self, spec: Object, name: str = "p") -> None:
        spec = {"nodeName": "n", "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, **spec}
        metadata = {"name": name, "namespace": "default"}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        await InProcessClient(self.service).create(PODS, body)

    def pod(self, name: str = "p") -> Object:
        return self.service.get(PODS, "default", name)

    async def wait(self, condition: Callable[[Object], Any], name: str = "p") -> None:
        async with asyncio.timeout(LIMIT_S):
            while not condition(self.pod(name)):
                await asyncio.sleep(0.01)

    async def wait_phase(self, phase: str, name: str = "p") -> None:
        await self.wait(lambda pod: (pod.get("status") or {}).get("phase") == phase, name)

    async def kubectl(self, *words: str, stdin: bytes | None = None, env: Mapping[str, str] = {}) -> Answer:
        async with self.started(*words, env=env, stdin=stdin is not None) as process:
            async with asyncio.timeout(LIMIT_S):
                out, err = await process.communicate(stdin)
            return Answer(process.returncode or 0, out, err.decode())

    @contextlib.asynccontextmanager
    async def started(
        self, *words: str, env: Mapping[str, str] = {}, stdin: bool = False
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        """kubectl, running; it is ended with the context."""
        process = await asyncio.create_subprocess_exec(
            KUBECTL,
            *self.flags,
            *words,
            stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "HOME": str(self.root), "KUBECONFIG": "/dev/null", **env},
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()


def is_running(pod: Object) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return bool(statuses) and all("running" in status["state"] for status in statuses)


@contextlib.asynccontextmanager
async def rig(root: Path, network: Network = "auto") -> AsyncIterator[Rig]:
    service = ApiService(MemoryStore(), now=now)
    client = InProcessClient(service)
    informers = SharedInformers(client)
    machine = Machine(inherited_env(os.environ, sys.executable), str(root))
    runtime = ProcessRuntime(root, network=network)
    back_off = BackOff(base_s=0.2, max_s=1)
    kubelet = Kubelet(client, informers, runtime, now, root, {"n"}.__contains__, machine, back_off=back_off)
    streams = KubeletStreams(runtime, root, lambda namespace, name: service.store.get("pods", namespace, name))
    await runtime.start()
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(part.run()) for part in (informers, kubelet)]
            async with served(service, streams, root) as port:
                yield Rig(root, service, runtime, port)
            for task in tasks:
                task.cancel()
    finally:
        await runtime.close()


@contextlib.asynccontextmanager
async def served(service: ApiService, streams: PodStreams, root: Path) -> AsyncIterator[int]:
    """The port of the API server; `root` gets the certificate of its authority."""
    authority = new_authority(now())
    server = new_server_certificate(authority, ["127.0.0.1"], now())
    (root / AUTHORITY).write_text(authority.certificate)
    (root / "server.pem").write_text(server.key + server.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(root / "server.pem")
    tokens = Tokens(Signer(new_signing_key()), service.store, now)
    app = build_app(
        service,
        authentication=Authentication(tokens, TOKEN),
        authorization=Authorization(service.store),
        now=now,
        streams=streams,
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with serving(app, [listener], context):
            yield listener.getsockname()[1]
