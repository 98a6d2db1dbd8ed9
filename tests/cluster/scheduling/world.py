"""An API service with the controllers under test on virtual time, and ways to wait for what they do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from jobset.api.errors import NotFound
from jobset.api.meta import Object, condition_of
from jobset.api.resources import EVENTS, PODS, Resource
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.client import InProcessClient
from jobset.cluster.store.memory import MemoryStore
from jobset.reconcile.informer import SharedInformers
from jobset.sim.loop import wall_clock

PATIENCE_S = 120.0


class World:
    def __init__(self, service: ApiService) -> None:
        self.service = service
        self.client = InProcessClient(service)
        self.now = wall_clock()

    async def create(self, resource: Resource, *bodies: Object) -> None:
        for body in bodies:
            await self.client.create(resource, body)

    def get(self, resource: Resource, name: str, namespace: str = "default") -> Object:
        return self.service.get(resource, namespace if resource.namespaced else "", name)

    def all(self, resource: Resource) -> Sequence[Object]:
        return self.service.list(resource).items

    def exists(self, resource: Resource, name: str, namespace: str = "default") -> bool:
        try:
            self.get(resource, name, namespace)
        except NotFound:
            return False
        return True

    def node_of(self, pod: str) -> str:
        return str(self.get(PODS, pod)["spec"].get("nodeName") or "")

    def waits(self, pod: str) -> str:
        """The message of a pod that found no node."""
        condition = condition_of(self.get(PODS, pod), "PodScheduled") or {}
        return str(condition["message"]) if condition.get("reason") == "Unschedulable" else ""

    def events(self, reason: str) -> list[Object]:
        return [event for event in self.all(EVENTS) if event["reason"] == reason]

    async def until(self, holds: Callable[[], Any]) -> float:
        """Wait until it holds; returns how long that took in (virtual) seconds."""
        began = asyncio.get_running_loop().time()
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                await asyncio.sleep(0.001)
        return asyncio.get_running_loop().time() - began

    async def set_status(self, name: str, **status: Any) -> None:
        await self.client.patch(PODS, "default", name, {"status": status}, subresource="status")


Make = Callable[[InProcessClient, SharedInformers, Callable[[], datetime]], Any]


@asynccontextmanager
async def world(*controllers: Make) -> AsyncIterator[World]:
    now = wall_clock()
    one = World(ApiService(MemoryStore(), now=now, seed=1))
    informers = SharedInformers(one.client)
    made = [make(one.client, informers, now) for make in controllers]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part.run()) for part in (informers, *made)]
        await informers.wait_synced()
        yield one
        for task in tasks:
            task.cancel()
