"""Lists and watches against a server that does what each test says: pages, streams, cuts, errors in the middle."""

import asyncio
import json
from collections.abc import Sequence

import pytest
from aiohttp import web
from tests.client.servers import client_of, status

from jobset.api.errors import ApiError, Gone, TooManyRequests, Unavailable
from jobset.api.meta import Object, ObjectMeta, View
from jobset.api.resources import CONFIG_MAPS
from jobset.client.http.adapter import HttpClient

pytestmark = pytest.mark.real_loop


class Meta(View, frozen=True):
    metadata: ObjectMeta


def config_map(name: str, version: int = 1, size: int = 0) -> Object:
    return {"metadata": {"name": name, "resourceVersion": str(version)}, "data": {"x": "y" * size}}


def event(type_: str, obj: Object) -> bytes:
    return json.dumps({"type": type_, "object": obj}).encode() + b"\n"


def bookmark(version: int, **annotations: str) -> bytes:
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(version), "annotations": annotations}})


GONE = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
INITIAL_EVENTS_END = bookmark(9, **{"k8s.io/initial-events-end": "true"})


async def streamed(request: web.Request, pieces: Sequence[bytes], *, abort: bool = False) -> web.StreamResponse:
    """Sends the pieces each in a chunk of its own; at the end cuts the connection if asked to."""
    response = web.StreamResponse()
    await response.prepare(request)
    for piece in pieces:
        await response.write(piece)
        await asyncio.sleep(0.01)
    if abort:
        assert request.transport is not None
        request.transport.abort()
    return response


async def watched(client: HttpClient, as_: type = Meta, since: str = "0") -> tuple[list[str], ApiError | None]:
    """What one watch tells until it ends: TYPE name@version, and the error it ended with."""
    seen: list[str] = []
    try:
        async with client.watch(CONFIG_MAPS, as_, resource_version=since, namespace="n") as batches:
            async for batch in batches:
                for one in batch:
                    name = one.object.metadata.name if one.object is not None else ""
                    seen.append(f"{one.type} {name}@{one.resource_version}")
    except ApiError as error:
        return seen, error
    return seen, None


async def test_a_watch_asks_for_bookmarks_and_an_end_and_tells_everything_in_order() -> None:
    queries = []
    lines = [event("ADDED", config_map("a", 2)), bookmark(3), event("DELETED", config_map("a", 4))]

    async def handle(request: web.Request) -> web.StreamResponse:
        queries.append(dict(request.query))
        return await streamed(request, lines)

    async with client_of(handle) as client:
        assert await watched(client, since="1") == (["ADDED a@2", "BOOKMARK @3", "DELETED a@4"], None)
    assert 300 <= int(queries[0].pop("timeoutSeconds")) <= 600
    assert queries == [{"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": "1"}]


async def test_events_may_be_larger_than_any_buffer_and_arrive_in_any_pieces() -> None:
    stream = event("ADDED", config_map("big", 1, size=3_000_000)) + event("MODIFIED", config_map("big", 2))
    pieces = [stream[:7], stream[7:1_000_000], stream[1_000_000:3_000_050], stream[3_000_050:]]
    async with client_of(lambda request: streamed(request, pieces)) as client:
        assert await watched(client) == (["ADDED big@1", "MODIFIED big@2"], None)


async def test_a_watch_that_is_cut_off_ends_with_what_was_whole() -> None:
    pieces = [event("ADDED", config_map("a", 1)), event("ADDED", config_map("b", 2))[:30]]
    async with client_of(lambda request: streamed(request, pieces, abort=True)) as client:
        assert await watched(client) == (["ADDED a@1"], None)


async def test_what_came_before_an_error_is_told_first() -> None:
    pieces = [event("ADDED", config_map("a", 1)) + event("ERROR", GONE) + event("ADDED", config_map("b", 2))]
    async with client_of(lambda request: streamed(request, pieces)) as client:
        seen, error = await watched(client)
    assert seen == ["ADDED a@1"]
    assert isinstance(error, Gone)


async def test_a_watch_that_is_refused_raises_when_it_is_entered() -> None:
    answers = [status(410, "Expired", "too old"), status(429, "TooManyRequests")]

    async def handle(_: web.Request) -> web.StreamResponse:
        return answers.pop(0)

    async with client_of(handle) as client:
        for kind in (Gone, TooManyRequests):
            with pytest.raises(kind):
                async with client.watch(CONFIG_MAPS, dict, resource_version="1"):
                    pass


async def test_a_watch_that_ends_as_it_begins_is_an_error_so_that_nobody_spins() -> None:
    async with client_of(lambda request: streamed(request, [])) as client:
        seen, error = await watched(client)
    assert (seen, type(error)) == ([], Unavailable)


async def test_leaving_a_watch_closes_its_connection() -> None:
    closed = asyncio.Event()

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            await streamed(request, [event("ADDED", config_map("a"))])
            await asyncio.Event().wait()
        finally:
            closed.set()
        raise AssertionError("unreachable")

    async with client_of(handle) as client:
        async with client.watch(CONFIG_MAPS, Meta, resource_version="0") as batches:
            assert len(await anext(batches)) == 1
        async with asyncio.timeout(10):
            await closed.wait()


def page(names: Sequence[str], token: str = "") -> web.Response:
    metadata = {"resourceVersion": "9", "continue": token}
    return web.json_response({"metadata": metadata, "items": [config_map(name) for name in names]})


async def test_everything_is_asked_for_in_pages_and_one_page_where_a_limit_is_given() -> None:
    queries = []

    async def handle(request: web.Request) -> web.Response:
        queries.append(dict(request.query))
        return page(["b"]) if "continue" in request.query else page(["a"], "next")

    async with client_of(handle) as client:
        found = await client.list(CONFIG_MAPS, dict, namespace="n", label_selector="a in (b,c)")
        assert [item["metadata"]["name"] for item in found.items] == ["a", "b"]
        assert (found.resource_version, found.continue_token) == ("9", "")
        first = await client.list(CONFIG_MAPS, Meta, limit=3)
        assert ([item.metadata.name for item in first.items], first.continue_token) == (["a"], "next")
        await client.list(CONFIG_MAPS, Meta, limit=3, continue_token="next")
    assert queries == [
        {"labelSelector": "a in (b,c)", "limit": "500"},
        {"labelSelector": "a in (b,c)", "limit": "500", "continue": "next"},
        {"limit": "3"},
        {"limit": "3", "continue": "next"},
    ]


async def test_pages_of_a_state_that_is_forgotten_are_replaced_by_one_whole_list() -> None:
    async def handle(request: web.Request) -> web.Response:
        if "continue" in request.query:
            return status(410, "Expired")
        return page(["a"], "next") if "limit" in request.query else page(["a", "b"])

    async with client_of(handle) as client:
        assert len((await client.list(CONFIG_MAPS, Meta)).items) == 2


async def test_a_list_may_be_read_as_a_stream() -> None:
    queries = []

    async def handle(request: web.Request) -> web.StreamResponse:
        queries.append(dict(request.query))
        await streamed(request, [event("ADDED", config_map("a")), event("ADDED", config_map("b")) + INITIAL_EVENTS_END])
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async with client_of(handle, stream_lists=True) as client:
        found = await client.list(CONFIG_MAPS, Meta, limit=500)
    assert ([item.metadata.name for item in found.items], found.resource_version) == (["a", "b"], "9")
    assert queries[0]["sendInitialEvents"] == "true"
    assert queries[0]["resourceVersionMatch"] == "NotOlderThan"


async def test_a_server_that_cannot_stream_lists_is_asked_in_pages_from_then_on() -> None:
    asked: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        asked.append("stream" if "sendInitialEvents" in request.query else "page")
        return status(422, "Invalid", "sendInitialEvents is forbidden") if asked[-1] == "stream" else page(["a"])

    async with client_of(handle, stream_lists=True) as client:
        for _ in range(2):
            assert len((await client.list(CONFIG_MAPS, Meta)).items) == 1
    assert asked == ["stream", "page", "page"]
