"""Informers: what is in the cache after which changes, indexes, handlers, and coming back after the server forgot."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from jobset.api.meta import Object, ObjectMeta, View
from jobset.api.resources import CONFIG_MAPS
from jobset.cluster.client import InProcessClient
from jobset.reconcile.informer import Informer, SharedInformers


def config_map(name: str, colour: str = "red", **data: str) -> Object:
    return {"metadata": {"name": name, "namespace": "default", "labels": {"colour": colour}}, "data": data}


@asynccontextmanager
async def running(informer: Informer[Object]) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        await informer.wait_synced()
        yield
        task.cancel()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


async def test_the_cache_follows_every_change(client: InProcessClient) -> None:
    await client.create(CONFIG_MAPS, config_map("a"))
    informer: Informer[Object] = Informer(client, CONFIG_MAPS, dict)
    seen: list[str] = []
    informer.add_handler(lambda old, new: seen.append("-" if new is None else "+" if old is None else "~"))
    async with running(informer):
        await client.create(CONFIG_MAPS, config_map("b"))
        await client.patch(CONFIG_MAPS, "default", "a", {"data": {"x": "1"}})
        await client.delete(CONFIG_MAPS, "default", "b")
        await until(lambda: seen == ["+", "+", "~", "-"])
        assert [o["metadata"]["name"] for o in informer.cache.all()] == ["a"]
        found = informer.cache.get("default", "a")
        assert found is not None
        assert found["data"] == {"x": "1"}


async def test_an_index_moves_an_object_when_its_value_changes(client: InProcessClient) -> None:
    informer: Informer[Object] = Informer(client, CONFIG_MAPS, dict)
    informer.add_index("colour", lambda obj: [obj["metadata"]["labels"]["colour"]])
    async with running(informer):
        await client.create(CONFIG_MAPS, config_map("a"))
        await client.create(CONFIG_MAPS, config_map("b"))
        await until(lambda: len(informer.cache.by_index("colour", "red")) == 2)
        await client.patch(CONFIG_MAPS, "default", "a", {"metadata": {"labels": {"colour": "blue"}}})
        await until(lambda: len(informer.cache.by_index("colour", "blue")) == 1)
        assert [o["metadata"]["name"] for o in informer.cache.by_index("colour", "red")] == ["b"]
        await client.delete(CONFIG_MAPS, "default", "a")
        await until(lambda: not informer.cache.by_index("colour", "blue"))


async def test_a_selector_takes_what_stops_matching_out(client: InProcessClient) -> None:
    informer: Informer[Object] = Informer(client, CONFIG_MAPS, dict, label_selector="colour=red")
    async with running(informer):
        await client.create(CONFIG_MAPS, config_map("a"))
        await until(lambda: len(informer.cache) == 1)
        await client.patch(CONFIG_MAPS, "default", "a", {"metadata": {"labels": {"colour": "blue"}}})
        await until(lambda: len(informer.cache) == 0)


class ConfigMapView(View, frozen=True):
    metadata: ObjectMeta
    data: dict[str, str] = {}


async def test_views_decode_only_what_they_name(client: InProcessClient) -> None:
    informer: Informer[ConfigMapView] = Informer(client, CONFIG_MAPS, ConfigMapView)
    await client.create(CONFIG_MAPS, config_map("a", x="1"))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        await informer.wait_synced()
        found = informer.cache.get("default", "a")
        assert found is not None
        assert (found.metadata.name, found.data) == ("a", {"x": "1"})
        task.cancel()


async def test_shared_informers_receive_each_change_once(client: InProcessClient) -> None:
    informers = SharedInformers(client)
    assert informers.get(CONFIG_MAPS) is informers.get(CONFIG_MAPS)
    counts = [0, 0]
    for number in range(2):

        def count(old: Object | None, new: Object | None, number: int = number) -> None:
            counts[number] += 1

        informers.get(CONFIG_MAPS).add_handler(count)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informers.run())
        await informers.wait_synced()
        await client.create(CONFIG_MAPS, config_map("a"))
        await until(lambda: counts == [1, 1])
        task.cancel()
