"""A node with real processes behind the streaming subresources, and the little else that kubectl asks an API server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from jobset.api.errors import ApiError
from jobset.api.meta import Object
from jobset.api.resources import PODS
from jobset.cluster.apiserver.http.streams.handlers import SUBRESOURCES, PodStreamHandlers
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

LIMIT_S = 30.0
PYTHON = sys.executable


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
        self.url = f"http://127.0.0.1:{port}"

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

    async def kubectl(
        self, *words: str, stdin: bytes | None = None, env: Mapping[str, str] = {}, binary: str = "kubectl"
    ) -> Answer:
        async with self.started(*words, env=env, binary=binary, stdin=stdin is not None) as process:
            async with asyncio.timeout(LIMIT_S):
                out, err = await process.communicate(stdin)
            return Answer(process.returncode or 0, out, err.decode())

    @contextlib.asynccontextmanager
    async def started(
        self, *words: str, env: Mapping[str, str] = {}, binary: str = "kubectl", stdin: bool = False
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        """kubectl, running; it is ended with the context."""
        process = await asyncio.create_subprocess_exec(
            binary,
            "--server",
            self.url,
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
    await runtime.start()
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(part.run()) for part in (informers, kubelet)]
            streams = KubeletStreams(runtime, root, lambda namespace, name: service.get(PODS, namespace, name))
            async with serving(service, streams) as port:
                yield Rig(root, service, runtime, port)
            for task in tasks:
                task.cancel()
    finally:
        await runtime.close()


@contextlib.asynccontextmanager
async def serving(service: ApiService, streams: Any) -> AsyncIterator[int]:
    """The port of an API server for pods only."""
    handlers = PodStreamHandlers(streams, lambda namespace, name: service.get(PODS, namespace, name), now)

    async def handle(request: web.Request) -> web.StreamResponse:
        parts = request.path.strip("/").split("/")
        try:
            match parts:
                case ["version"]:
                    return web.json_response({"major": "1", "minor": "36", "gitVersion": "v1.36.0"})
                case ["api"]:
                    return web.json_response({"kind": "APIVersions", "versions": ["v1"]})
                case ["apis"]:
                    return web.json_response({"kind": "APIGroupList", "apiVersion": "v1", "groups": []})
                case ["api", "v1"]:
                    return web.json_response(_RESOURCES)
                case ["api", "v1", "namespaces", namespace, "pods", name]:
                    return web.json_response({"kind": "Pod", "apiVersion": "v1", **service.get(PODS, namespace, name)})
                case ["api", "v1", "namespaces", namespace, "pods", name, sub] if sub in SUBRESOURCES:
                    return await handlers.handle(request, namespace, name, sub)
            return web.Response(status=404)
        except ApiError as error:
            return web.json_response(error.to_status(), status=error.code)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        await web.SockSite(runner, listener).start()
        try:
            yield listener.getsockname()[1]
        finally:
            await runner.cleanup()


def _resource(name: str, kind: str, *verbs: str) -> Object:
    return {"name": name, "singularName": "", "namespaced": True, "kind": kind, "verbs": list(verbs)}


_RESOURCES = {
    "kind": "APIResourceList",
    "groupVersion": "v1",
    "resources": [
        {**_resource("pods", "Pod", "get", "list", "watch", "create", "delete"), "shortNames": ["po"]},
        _resource("pods/log", "Pod", "get"),
        _resource("pods/exec", "PodExecOptions", "get", "create"),
        _resource("pods/attach", "PodAttachOptions", "get", "create"),
        _resource("pods/portforward", "PodPortForwardOptions", "get", "create"),
    ],
}
