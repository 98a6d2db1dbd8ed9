"""Watches through the service: bookmarks on quiet streams, both faces of events, many readers."""

import asyncio

from apiserver.world import config_map, new_client, new_service
from jobset.api.resources import CONFIG_MAPS, CORE_EVENTS, EVENTS
from jobset.cluster.apiserver.options import WatchOptions


async def test_a_quiet_watch_with_bookmarks_tells_how_far_it_has_come() -> None:
    service = new_service()
    options = WatchOptions(resource_version=str(service.store.revision), bookmarks=True)
    async with service.watch(CONFIG_MAPS, "", options) as batches:
        service.create(CORE_EVENTS, "default", event())
        (bookmark,) = await anext(batches)
        assert (bookmark.type, bookmark.resource_version) == ("BOOKMARK", str(service.store.revision))
        service.create(CONFIG_MAPS, "default", config_map("c"))
        assert [one.type for one in await anext(batches)] == ["ADDED"]


def event() -> dict:
    regarding = {"kind": "Pod", "namespace": "default", "name": "p"}
    return {
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": regarding,
        "reason": "Tested",
        "message": "so be it",
        "type": "Normal",
    }


async def test_a_watcher_of_one_face_of_events_sees_what_came_by_the_other() -> None:
    client = new_client()
    async with client.watch(EVENTS, dict, resource_version="1", field_selector="regarding.name=p") as batches:
        await client.create(CORE_EVENTS, event())
        (seen,) = await anext(batches)
    assert seen.object["apiVersion"] == "events.k8s.io/v1"
    assert (seen.object["note"], seen.object["regarding"]["name"]) == ("so be it", "p")


async def test_events_are_forgotten_an_hour_after_their_last_change() -> None:
    client = new_client()
    for name in ("old", "fresh"):
        await client.create(CORE_EVENTS, {**event(), "metadata": {"name": name, "namespace": "default"}})
    await asyncio.sleep(3000)
    await client.patch(CORE_EVENTS, "default", "fresh", {"count": 2})
    await asyncio.sleep(1000)
    await client.create(CORE_EVENTS, event())
    found = await client.list(CORE_EVENTS, dict)
    assert [one["metadata"]["name"] for one in found.items] == ["e", "fresh"]


async def test_a_busy_writer_lets_the_readers_in_between() -> None:
    client = new_client()
    batches_seen = 0

    async def read() -> None:
        nonlocal batches_seen
        async with client.watch(CONFIG_MAPS, dict, resource_version="1") as batches:
            async for _ in batches:
                batches_seen += 1

    async with asyncio.TaskGroup() as group:
        reader = group.create_task(read())
        await asyncio.sleep(0)
        for number in range(200):
            await client.create(CONFIG_MAPS, config_map(f"c{number}"))
        assert batches_seen > 5
        await asyncio.sleep(0)
        reader.cancel()
