"""The placement controller on the embedded API server: followers are released, and repaired."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from jobset.api.errors import NotFound
from jobset.api.meta import Object
from jobset.api.resources import NODES, PODS
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.client import InProcessClient
from jobset.cluster.store.memory import MemoryStore
from jobset.core.placement import WAIT_FOR_LEADER, place_pod
from jobset.operator.placement import PlacementController
from jobset.sim.loop import wall_clock


@asynccontextmanager
async def placement() -> AsyncIterator[InProcessClient]:
    service = ApiService(MemoryStore(), now=wall_clock(), seed=1)
    service.add_admission(PODS, place_pod)
    client = InProcessClient(service)
    for node, rack in (("n1", "r1"), ("n2", "r2")):
        await client.create(NODES, {"metadata": {"name": node, "labels": {"rack": rack}}})
    async with asyncio.TaskGroup() as group:
        running = group.create_task(PlacementController(client, wall_clock()).run())
        yield client
        running.cancel()


async def create(client: InProcessClient, index: int, name: str = "", **spec: Any) -> None:
    keys = {"jobset.sigs.k8s.io/jobset-name": "js"}
    metadata = {
        "name": name or f"p{index}",
        "namespace": "default",
        "labels": {**keys, "jobset.sigs.k8s.io/job-key": "k"},
        "annotations": {
            **keys,
            "alpha.jobset.sigs.k8s.io/exclusive-topology": "rack",
            "batch.kubernetes.io/job-completion-index": str(index),
        },
        "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "js-w-0", "uid": "job-uid", "controller": True}
        ],
    }
    containers = [{"name": "c", "image": "busybox"}]
    await client.create(PODS, {"metadata": metadata, "spec": {"containers": containers, **spec}})


async def bind(client: InProcessClient, name: str, node: str) -> None:
    await client.create_subresource(PODS, "default", name, "binding", {"target": {"kind": "Node", "name": node}})


async def spec_of(client: InProcessClient, name: str) -> Object:
    spec: Object = (await client.get(PODS, "default", name, dict))["spec"]
    return spec


async def test_followers_wait_for_the_leader_and_follow_it() -> None:
    async with placement() as client:
        for index in range(3):
            await create(client, index)
        await asyncio.sleep(60)
        assert (await spec_of(client, "p1"))["schedulingGates"] == [{"name": WAIT_FOR_LEADER}]
        await bind(client, "p0", "n2")
        await asyncio.sleep(1)
        for name in ("p1", "p2"):
            spec = await spec_of(client, name)
            assert spec["nodeSelector"] == {"rack": "r2"}
            assert "schedulingGates" not in spec
        assert "nodeSelector" not in await spec_of(client, "p0")


async def test_a_follower_that_comes_late_follows_at_once() -> None:
    async with placement() as client:
        await create(client, 0)
        await bind(client, "p0", "n1")
        await create(client, 1)
        await asyncio.sleep(1)
        assert (await spec_of(client, "p1"))["nodeSelector"] == {"rack": "r1"}


async def test_a_leaders_node_that_is_labelled_late_is_noticed() -> None:
    async with placement() as client:
        await client.create(NODES, {"metadata": {"name": "n3"}})
        await create(client, 0)
        await create(client, 1)
        await bind(client, "p0", "n3")
        await asyncio.sleep(60)
        assert "nodeSelector" not in await spec_of(client, "p1")
        await client.patch(NODES, "", "n3", {"metadata": {"labels": {"rack": "r3"}}})
        await asyncio.sleep(60)
        assert (await spec_of(client, "p1"))["nodeSelector"] == {"rack": "r3"}


async def test_followers_of_a_leader_that_came_back_elsewhere_are_replaced() -> None:
    async with placement() as client:
        await create(client, 0)
        await create(client, 1)
        await bind(client, "p0", "n1")
        await asyncio.sleep(1)
        await client.delete(PODS, "default", "p0", grace_period_s=0)
        await create(client, 0, "again")
        await bind(client, "again", "n2")
        await asyncio.sleep(1)
        try:
            left = await client.get(PODS, "default", "p1", dict)
        except NotFound:
            return
        raise AssertionError(f"the follower is still there: {left}")
