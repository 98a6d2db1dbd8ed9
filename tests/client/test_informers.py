"""Informers over HTTP stay right whatever happens to their connections and their server."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from tests.client.servers import TOKEN, api_server, client_of, now, serving, status, target
from tests.client.test_reading import bookmark, config_map, event, page, streamed
from yarl import URL

from jobset.api.meta import Object, ObjectMeta, View
from jobset.api.resources import CONFIG_MAPS
from jobset.client.http.adapter import HttpClient
from jobset.client.kubeconfig import Login
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.store.memory import MemoryStore
from jobset.cluster.store.port import Store
from jobset.cluster.store.sqlite import SqliteStore
from jobset.reconcile.informer import Informer

pytestmark = pytest.mark.real_loop

Fault = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Meta(View, frozen=True):
    metadata: ObjectMeta
    data: dict[str, str] = {}


class Faults:
    """Stands before the server: answers in its place what is planned, and can cut the watches that are open."""

    def __init__(self) -> None:
        self.planned: list[Fault] = []
        self.watches: list[web.Request] = []

    def cut(self) -> None:
        for request in self.watches:
            if request.transport is not None:  # None: it is cut already
                request.transport.abort()

    async def intercept(self, request: web.Request, handler: Fault) -> web.StreamResponse:
        if request.method == "GET" and self.planned:
            return await self.planned.pop(0)(request)
        if request.query.get("watch") != "true":
            return await handler(request)
        self.watches.append(request)
        try:
            return await handler(request)
        finally:
            self.watches.remove(request)


@asynccontextmanager
async def served(store: Store, faults: Faults, port: int = 0) -> AsyncIterator[tuple[ApiService, str]]:
    """A service and its address."""
    service = ApiService(store, now=now)
    app = api_server(service)

    @web.middleware
    async def intercept(request: web.Request, handler: Fault) -> web.StreamResponse:
        return await faults.intercept(request, handler)

    app.middlewares.append(intercept)
    async with serving(app, port=port) as address:
        yield service, address


@asynccontextmanager
async def followed(address: str, as_: type = Meta, **options: bool) -> AsyncIterator[tuple[HttpClient, Informer]]:
    """A client with an informer of all config maps that runs."""
    async with HttpClient(target(address, Login(token=TOKEN)), now=now, per_second=0, **options) as client:
        informer: Informer = Informer(client, CONFIG_MAPS, as_)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(informer.run())
            await informer.wait_synced()
            yield client, informer
            task.cancel()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


def agrees(informer: Informer, service: ApiService) -> bool:
    """Whether the cache holds what the server has."""
    stored = service.list(CONFIG_MAPS, "").items
    return {(one.metadata.name, one.metadata.resource_version) for one in informer.cache.all()} == {
        (one["metadata"]["name"], one["metadata"]["resourceVersion"]) for one in stored
    }


def put(service: ApiService, name: str, **data: str) -> None:
    if service.exists(CONFIG_MAPS, "default", name):
        service.patch(CONFIG_MAPS, "default", name, {"data": data})
    else:
        body: Object = {"metadata": {"name": name, "namespace": "default"}, "data": data}
        service.create(CONFIG_MAPS, "default", body)


@pytest.mark.parametrize("stream_lists", [False, True])
async def test_the_cache_follows_the_server(stream_lists: bool) -> None:
    async with served(MemoryStore(), faults := Faults()) as (service, address):
        put(service, "a")
        async with followed(address, stream_lists=stream_lists) as (_, informer):
            assert agrees(informer, service)
            put(service, "b", x="1")
            put(service, "a", x="2")
            service.delete(CONFIG_MAPS, "default", "b")
            await until(lambda: agrees(informer, service))
            assert len(faults.watches) == 1


async def test_changes_during_a_cut_arrive_after_it_once_each() -> None:
    async with served(MemoryStore(), faults := Faults()) as (service, address), followed(address) as (_, informer):
        seen: list[str] = []
        informer.add_handler(lambda old, new: seen.append(f"{'~' if old else '+'}{(new or old).metadata.name}"))
        for number in range(5):
            await until(lambda: len(faults.watches) == 1)
            put(service, f"before-{number}")
            faults.cut()
            put(service, f"after-{number}")
            await until(lambda: agrees(informer, service))
        assert sorted(seen) == sorted(f"+{when}-{number}" for when in ("before", "after") for number in range(5))


async def test_who_was_away_too_long_lists_again() -> None:
    faults = Faults()
    async with served(MemoryStore(history=3), faults) as (service, address), followed(address) as (_, informer):
        await until(lambda: len(faults.watches) == 1)
        for number in range(10):
            put(service, f"old-{number}")
        await until(lambda: agrees(informer, service))
        faults.planned.append(lambda _: answer(503, "ServiceUnavailable"))
        faults.cut()
        for number in range(10):
            service.delete(CONFIG_MAPS, "default", f"old-{number}")
        put(service, "new")
        await until(lambda: agrees(informer, service))
        assert [one.metadata.name for one in informer.cache.all()] == ["new"]


async def answer(code: int, reason: str, **headers: str) -> web.Response:
    made = status(code, reason)
    made.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    return made


FAULTS: list[Fault] = [
    lambda _: answer(500, "InternalError"),
    lambda _: answer(429, "TooManyRequests", Retry_After="0"),
    lambda _: answer(410, "Expired"),
    lambda request: streamed(request, [b'{"type":"ADDED","obj'], abort=True),
    lambda request: streamed(request, [b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n']),
]


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_goes_wrong_the_cache_comes_right_in_the_end(seed: int) -> None:
    chance = random.Random(seed)
    async with (
        served(MemoryStore(history=20), faults := Faults()) as (service, address),
        followed(address) as (_, informer),
    ):
        for _ in range(60):
            name = f"c{chance.randrange(6)}"
            match chance.randrange(6):
                case 0:
                    faults.cut()
                case 1 if len(faults.planned) < 2:
                    faults.planned.append(chance.choice(FAULTS))
                    faults.cut()
                case 2 if service.exists(CONFIG_MAPS, "default", name):
                    service.delete(CONFIG_MAPS, "default", name)
                case _:
                    put(service, name, x=str(chance.random()))
            await asyncio.sleep(chance.choice([0, 0.005]))
        await until(lambda: agrees(informer, service) and not faults.planned)


async def test_a_server_that_is_killed_and_started_again_is_found_again(tmp_path: Path) -> None:
    faults = Faults()
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(AsyncExitStack())
        store = SqliteStore(tmp_path / "store.db")
        service, address = await first.enter_async_context(served(store, faults))
        put(service, "a")
        client, informer = await stack.enter_async_context(followed(address))
        assert agrees(informer, service)
        await first.aclose()
        put(service, "b")  # acknowledged, though nobody watched
        service.delete(CONFIG_MAPS, "default", "a")
        store.close()
        store = SqliteStore(tmp_path / "store.db")
        stack.callback(store.close)
        again, _ = await stack.enter_async_context(served(store, faults, port=URL(address).port or 0))
        await until(lambda: agrees(informer, again))
        put(again, "c")
        await until(lambda: agrees(informer, again))
        assert (await client.get(CONFIG_MAPS, "default", "c", Meta)).metadata.name == "c"


async def test_an_error_in_a_watch_does_not_take_the_cache_back() -> None:
    since: list[str] = []
    failed = {"kind": "Status", "code": 500, "reason": "InternalError", "message": "no"}

    async def handle(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return page(["a"])
        since.append(request.query["resourceVersion"])
        if len(since) == 1:
            return await streamed(
                request, [event("MODIFIED", config_map("a", 12)) + bookmark(15), event("ERROR", failed)]
            )
        await streamed(request, [event("MODIFIED", config_map("a", 16))])
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async with client_of(handle) as client:
        informer: Informer[Meta] = Informer(client, CONFIG_MAPS, Meta)
        versions: list[str] = []
        informer.add_handler(lambda _, new: versions.append(new.metadata.resource_version if new else "-"))
        async with asyncio.TaskGroup() as group:
            task = group.create_task(informer.run())
            await until(lambda: "16" in versions)
            task.cancel()
    assert versions == ["1", "12", "16"]
    assert since == ["9", "15"]
