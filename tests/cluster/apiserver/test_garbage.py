"""The garbage collector and the namespace controller on the embedded API server, in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from apiserver.world import config_map, definition, new_client, owned_by, pod
from jobset.api.errors import NotFound
from jobset.api.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    Resource,
)
from jobset.cluster.client import InProcessClient
from jobset.cluster.controllers.garbage import GarbageCollector
from jobset.cluster.controllers.namespaces import NamespaceController
from jobset.reconcile.informer import SharedInformers
from jobset.sim.loop import wall_clock

WIDGETS = Resource("example.com", "v1", "widgets", "Widget")
HOLD = "example.com/hold"


@asynccontextmanager
async def collected() -> AsyncIterator[InProcessClient]:
    client = new_client()
    informers = SharedInformers(client)
    parts = [GarbageCollector(client, informers, wall_clock()), NamespaceController(client, informers, wall_clock())]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part.run()) for part in (informers, *parts)]
        await informers.wait_synced()
        yield client
        for task in tasks:
            task.cancel()


async def names(client: InProcessClient, resource: Resource = CONFIG_MAPS, namespace: str = "default") -> list[str]:
    """What is there, after everything came to rest."""
    await asyncio.sleep(5)
    found = await client.list(resource, dict, namespace=namespace)
    return [one["metadata"]["name"] for one in found.items]


async def test_a_whole_tree_goes_with_its_root() -> None:
    async with collected() as client:
        root = await client.create(CONFIG_MAPS, config_map("root"))
        branch = await client.create(CONFIG_MAPS, config_map("branch", **owned_by(root)))
        await client.create(PODS, pod("leaf", **owned_by(branch)))
        await client.create(CONFIG_MAPS, config_map("stranger"))
        await client.delete(CONFIG_MAPS, "default", "root")
        assert await names(client) == ["stranger"]
        assert await names(client, PODS) == []


async def test_in_the_foreground_the_root_goes_last() -> None:
    async with collected() as client:
        root = await client.create(CONFIG_MAPS, config_map("root"))
        blocking = owned_by(root, blockOwnerDeletion=True)
        branch = await client.create(CONFIG_MAPS, config_map("branch", **blocking))
        leaf = config_map("leaf", finalizers=[HOLD], **owned_by(branch, blockOwnerDeletion=True))
        await client.create(CONFIG_MAPS, leaf)
        await client.delete(CONFIG_MAPS, "default", "root", propagation="Foreground")
        assert await names(client) == ["branch", "leaf", "root"]
        await client.patch(CONFIG_MAPS, "default", "leaf", {"metadata": {"finalizers": None}})
        assert await names(client) == []


async def test_orphans_forget_the_owner_that_left_them() -> None:
    async with collected() as client:
        root = await client.create(CONFIG_MAPS, config_map("root"))
        for number in range(20):
            await client.create(CONFIG_MAPS, config_map(f"child-{number:02}", **owned_by(root)))
        await client.delete(CONFIG_MAPS, "default", "root", propagation="Orphan")
        assert len(await names(client)) == 20
        child = await client.get(CONFIG_MAPS, "default", "child-07", dict)
        assert "ownerReferences" not in child["metadata"]


async def test_an_owner_of_the_same_name_is_not_the_owner() -> None:
    async with collected() as client:
        first = await client.create(CONFIG_MAPS, config_map("root"))
        await client.create(CONFIG_MAPS, config_map("child", finalizers=[HOLD], **owned_by(first)))
        await client.delete(CONFIG_MAPS, "default", "root", propagation="Orphan")
        await names(client)
        second = await client.create(CONFIG_MAPS, config_map("root"))
        await client.create(CONFIG_MAPS, config_map("late", **owned_by(first)))
        await client.create(CONFIG_MAPS, config_map("mine", **owned_by(second)))
        assert await names(client) == ["child", "mine", "root"]


async def test_custom_resources_are_collected_too() -> None:
    async with collected() as client:
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition())
        await asyncio.sleep(1)
        body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default"}}
        widget = await client.create(WIDGETS, body)
        await client.create(CONFIG_MAPS, config_map("child", **owned_by(widget)))
        assert await names(client) == ["child"]
        await client.delete(WIDGETS, "default", "w")
        assert await names(client) == []
        await client.delete(CUSTOM_RESOURCE_DEFINITIONS, "", "widgets.example.com")
        await asyncio.sleep(60)


async def test_the_work_grows_with_the_dependents_and_no_faster() -> None:
    async with collected() as client:
        before = 0
        costs = []
        for size in (50, 200):
            root = await client.create(CONFIG_MAPS, config_map("root"))
            for number in range(size):
                await client.create(CONFIG_MAPS, config_map(f"child-{number}", **owned_by(root)))
            before = client.calls
            await client.delete(CONFIG_MAPS, "default", "root")
            assert await names(client) == []
            costs.append((client.calls - before) / size)
        assert costs[1] <= costs[0]


async def test_a_namespace_has_an_account_and_goes_when_it_is_empty() -> None:
    async with collected() as client:
        await client.create(NAMESPACES, {"metadata": {"name": "n"}})
        assert await names(client, SERVICE_ACCOUNTS, "n") == ["default"]
        await client.create(SECRETS, {"metadata": {"name": "s", "namespace": "n"}})
        await client.create(CONFIG_MAPS, {"metadata": {"name": "held", "namespace": "n", "finalizers": [HOLD]}})
        await client.delete(NAMESPACES, "", "n")
        assert await names(client, SECRETS, "n") == []
        assert await names(client, CONFIG_MAPS, "n") == ["held"]
        assert (await client.get(NAMESPACES, "", "n", dict))["status"]["phase"] == "Terminating"
        await client.patch(CONFIG_MAPS, "n", "held", {"metadata": {"finalizers": None}})
        await asyncio.sleep(2)
        with pytest.raises(NotFound):
            await client.get(NAMESPACES, "", "n", dict)
