"""One node with a kubelet on the embedded API server, in process, on virtual time, with scripted containers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jobset.api.meta import Object, condition_of
from jobset.api.resources import CORE_EVENTS, NODES, PODS, Resource
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.client import InProcessClient
from jobset.cluster.kubelet.execution import Machine
from jobset.cluster.kubelet.heartbeat import Heartbeat
from jobset.cluster.kubelet.kubelet import Kubelet
from jobset.cluster.runtime.scripted import Script, ScriptedRuntime
from jobset.cluster.store.memory import MemoryStore
from jobset.reconcile.events import EventRecorder
from jobset.reconcile.informer import SharedInformers
from jobset.sim.loop import wall_clock

MACHINE = Machine(env={"PATH": "/venv/bin:/usr/bin", "HOME": "/home/me"}, working_dir="/work")


class CountingClient(InProcessClient):
    """Counts status writes, which the kubelet is to be thrifty with."""

    status_writes = 0

    async def patch(self, resource: Resource, *args: Any, **options: Any) -> Object:
        if resource == PODS and options.get("subresource") == "status":
            self.status_writes += 1
        return await super().patch(resource, *args, **options)


class Node:
    def __init__(self, root: Path, script: Script | None, **options: Any) -> None:
        now = wall_clock()
        self.now = now
        self.service = ApiService(MemoryStore(), now=now, seed=1)
        self.client = CountingClient(self.service)
        self.informers = SharedInformers(self.client)
        self.runtime = ScriptedRuntime(now, script)
        heartbeat_s = options.pop("heartbeat_s", None)
        serves = {"node-1"}.__contains__
        self.parts: list[Any] = [self.informers]
        if heartbeat_s:
            self.parts.append(Heartbeat(self.client, self.informers, now, serves, renew_s=heartbeat_s))
        events = EventRecorder(self.client, "kubelet", now) if options.pop("events", False) else None
        self.kubelet = Kubelet(
            self.client,
            self.informers,
            self.runtime,
            now,
            root,
            serves,
            MACHINE,
            events=events,
            **options,
        )
        self.parts.append(self.kubelet)

    def pod(self, name: str = "p") -> Object:
        return self.service.get(PODS, "default", name)

    def status(self, name: str = "p") -> Object:
        return self.pod(name).get("status") or {}

    def container(self, container: str = "main", name: str = "p") -> Object:
        status = self.status(name)
        listed = [*status.get("containerStatuses", ()), *status.get("initContainerStatuses", ())]
        return next(c for c in listed if c["name"] == container)

    def condition(self, type_: str, name: str = "p") -> Object:
        found = condition_of(self.pod(name), type_)
        assert found is not None, f"no condition {type_}"
        return found

    def exists(self, name: str = "p") -> bool:
        return self.service.exists(PODS, "default", name)

    def events(self) -> list[tuple[str, str]]:
        listed = self.service.list(CORE_EVENTS, "default").items
        return [(event["reason"], event.get("message", event.get("note", ""))) for event in listed]

    async def create(self, spec: Object, name: str = "p", **metadata: Any) -> Object:
        spec = {"nodeName": "node-1", **spec}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", **metadata}}
        return await self.client.create(PODS, {**body, "spec": spec})

    async def wait(self, condition: Callable[[], Any], limit_s: float = 3600.0) -> None:
        """Until `condition()` holds; fails after `limit_s` of virtual time."""
        async with asyncio.timeout(limit_s):
            while not condition():
                await asyncio.sleep(0.01)

    async def wait_phase(self, phase: str, name: str = "p") -> None:
        await self.wait(lambda: self.status(name).get("phase") == phase)


Start = Callable[..., AbstractAsyncContextManager[Node]]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """`async with start(script) as node:` a node that is running."""

    @asynccontextmanager
    async def started(script: Script | None = None, **options: Any) -> AsyncIterator[Node]:
        node = Node(tmp_path, script, **options)
        address = {"addresses": [{"type": "InternalIP", "address": "192.0.2.7"}]}
        await node.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}})
        allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        await node.client.patch(
            NODES, "", "node-1", {"status": {**address, "allocatable": allocatable}}, subresource="status"
        )
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(part.run()) for part in node.parts]
            await node.informers.wait_synced()
            yield node
            for task in tasks:
                task.cancel()

    return started


def main(name: str = "main", **fields: Any) -> Object:
    return {"name": name, "image": "i", "command": ["run"], **fields}


@pytest.fixture
def container() -> Callable[..., Object]:
    """A container with a command and these fields."""
    return main
