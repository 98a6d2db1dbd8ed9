"""The in-process client against the service: what every controller of the embedded cluster relies on."""

import asyncio

import pytest

from jobset.api.errors import AlreadyExists, Conflict, NotFound
from jobset.api.meta import ObjectMeta, View
from jobset.api.resources import CONFIG_MAPS, NODES, PODS
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.client import InProcessClient
from jobset.cluster.store.memory import MemoryStore
from jobset.reconcile.informer import Informer
from jobset.sim.loop import wall_clock


class PodView(View, frozen=True):
    metadata: ObjectMeta


def new_client() -> InProcessClient:
    return InProcessClient(ApiService(MemoryStore(paranoid=True), now=wall_clock(), seed=1))


def pod(name: str, **metadata: object) -> dict:
    spec = {"containers": [{"name": "main", "image": "none"}]}
    return {"metadata": {"name": name, "namespace": "default", **metadata}, "spec": spec}


async def test_a_created_object_has_identity_and_can_be_read_in_both_shapes() -> None:
    client = new_client()
    created = await client.create(PODS, pod("a", labels={"x": "y"}))
    assert created["metadata"]["uid"] and created["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert await client.get(PODS, "default", "a", dict) is created
    view = await client.get(PODS, "default", "a", PodView)
    assert view.metadata.labels == {"x": "y"}
    with pytest.raises(AlreadyExists):
        await client.create(PODS, pod("a"))
    with pytest.raises(NotFound):
        await client.create(PODS, pod("b", namespace="absent"))


async def test_a_status_patch_shares_the_rest_of_the_object() -> None:
    client = new_client()
    before = await client.create(PODS, pod("a"))
    after = await client.patch(PODS, "default", "a", {"status": {"phase": "Running"}}, subresource="status")
    assert after["status"]["phase"] == "Running"
    assert after["spec"] is before["spec"]
    again = await client.patch(PODS, "default", "a", {"status": {"phase": "Running"}}, subresource="status")
    assert again is after


async def test_a_stale_version_conflicts() -> None:
    client = new_client()
    body = {"metadata": {"name": "c", "namespace": "default"}, "data": {"a": "1"}}
    first = await client.create(CONFIG_MAPS, body)
    second = await client.update(CONFIG_MAPS, {**first, "data": {"a": "2"}})
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
    with pytest.raises(Conflict):
        await client.update(CONFIG_MAPS, {**first, "data": {"a": "3"}})
    with pytest.raises(Conflict):
        await client.delete(CONFIG_MAPS, "default", "c", uid="another")


async def test_an_informer_follows_every_change_and_a_bound_pod_ends_in_two_steps() -> None:
    client = new_client()
    await client.create(NODES, {"metadata": {"name": "n"}})
    informer = Informer(client, PODS, dict, label_selector="app=x")
    seen: list[str] = []
    informer.add_handler(lambda old, new: seen.append("+" if old is None else "-" if new is None else "~"))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(informer.run())
        await informer.wait_synced()
        await client.create(PODS, pod("a", labels={"app": "x"}))
        await client.create(PODS, pod("other"))
        await client.create_subresource(PODS, "default", "a", "binding", {"target": {"name": "n"}})
        await client.delete(PODS, "default", "a")
        await asyncio.sleep(1)
        assert seen == ["+", "~", "~"]
        assert informer.cache.get("default", "a")["metadata"]["deletionGracePeriodSeconds"] == 30
        await client.delete(PODS, "default", "a", grace_period_s=0)
        await asyncio.sleep(1)
        assert seen == ["+", "~", "~", "~", "-"]
        running.cancel()
