"""Watches over HTTP: events as lines of JSON, each encoded once for all watchers that see it in the same shape.

Who does not read is cut off: the store bounds what a watch may leave unread, and app.py how long a write may take.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from jobset.api.errors import ApiError, Gone, NotAcceptable, TooManyRequests
from jobset.api.meta import Object
from jobset.client.port import WatchEvent
from jobset.cluster.apiserver.http import queries
from jobset.cluster.apiserver.http.errors import status_of
from jobset.cluster.apiserver.http.negotiation import Representation, representation
from jobset.cluster.apiserver.http.paths import Query, RequestInfo
from jobset.cluster.apiserver.http.representations import Shaper
from jobset.cluster.apiserver.http.tables import checked_include
from jobset.cluster.apiserver.reading import Watching
from jobset.cluster.apiserver.registry import Served
from jobset.cluster.apiserver.service import ApiService

Batches: TypeAlias = AsyncIterator[Sequence[WatchEvent[Object]]]

WATCHES_AT_ONCE = 5_000
SHORTEST_S = 1800
"""A watch that does not say how long it is to last ends after this time, or up to twice of it."""
_LINES_KEPT = 2048
_CHUNK_BYTES = 64 * 1024
"""What is sent at once. No more, or a reader that does not read would be noticed only when all of it is in memory."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """In what shape a watcher sees events."""

    served: Served
    chosen: Representation
    include: str


class Lines:
    """Encodes events; keeps the last ones, since mostly many watchers want the same."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._shaper = Shaper(now)
        self._kept: OrderedDict[tuple[Any, ...], tuple[Object, bytes]] = OrderedDict()

    def line(self, event: WatchEvent[Object], shape: _Shape, headings: bool) -> bytes:
        obj = event.object
        assert obj is not None
        if event.type == "BOOKMARK":
            return self._encoded(event.type, obj, shape, headings)
        form = shape.chosen.form
        key: tuple[Any, ...] = (id(obj), event.type)
        if form:
            moment = self._now().replace(microsecond=0) if form == "Table" else None
            key = (*key, form, shape.chosen.form_version, shape.include, headings, moment)
        kept = self._kept.get(key)
        if kept is not None:
            return kept[1]
        line = self._encoded(event.type, obj, shape, headings)
        self._kept[key] = (obj, line)  # holding the object, no other can have its id
        if len(self._kept) > _LINES_KEPT:
            self._kept.popitem(last=False)
        return line

    def _encoded(self, type_: str, obj: Object, shape: _Shape, headings: bool) -> bytes:
        shown = self._shaper.event_object(shape.served.kind, obj, shape.chosen, shape.include, headings)
        return msgspec.json.encode({"type": type_, "object": shown}) + b"\n"


class OpenWatch:
    """One watch that has been accepted and is yet to run."""

    def __init__(self, watching: Watching | Gone, lines: Lines, shape: _Shape, timeout_s: float) -> None:
        self._watching = watching
        self._lines = lines
        self._shape = shape
        self._timeout_s = timeout_s

    async def relay(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        """Hand chunks of whole lines to `write` until the watch ends."""
        try:
            if isinstance(self._watching, Gone):
                raise self._watching
            async with asyncio.timeout(self._timeout_s), self._watching as batches:
                await self._follow(batches, write)
        except TimeoutError:
            pass
        except ApiError as error:
            await write(msgspec.json.encode({"type": "ERROR", "object": status_of(error)}) + b"\n")

    async def _follow(self, batches: Batches, write: Callable[[bytes], Awaitable[None]]) -> None:
        line, shape, headings = self._lines.line, self._shape, True
        async for batch in batches:
            chunk: list[bytes] = []
            size = 0
            for event in batch:
                chunk.append(line(event, shape, headings))
                size += len(chunk[-1])
                headings = False
                if size >= _CHUNK_BYTES:
                    await write(b"".join(chunk))
                    await asyncio.sleep(0)  # a long list must not keep others waiting
                    chunk, size = [], 0
            if chunk:
                await write(chunk[0] if len(chunk) == 1 else b"".join(chunk))


class Watches:
    """Opens the watches of a server; `open_count` is kept by who runs them."""

    def __init__(self, service: ApiService, now: Callable[[], datetime]) -> None:
        self._service = service
        self._lines = Lines(now)
        self.open_count = 0

    def open(self, served: Served, info: RequestInfo, query: Query, accept: str) -> OpenWatch:
        """What is wrong with the request is raised here, before anything is sent."""
        if self.open_count >= WATCHES_AT_ONCE:
            raise TooManyRequests(f"{self.open_count} watches are open already, no more are served", retry_after_s=1)
        shape = _Shape(served, _watchable(accept), checked_include(query.get("includeObject", "")))
        timeout_s = queries.whole_number(query, "timeoutSeconds") or random.uniform(SHORTEST_S, 2 * SHORTEST_S)
        options = queries.watch_options(query, "" if query.get("fieldSelector") else info.name)
        watching: Watching | Gone
        try:
            watching = self._service.watch(served.resource, info.namespace, options)
        except Gone as error:
            watching = error  # told within the stream, where clients look for it
        return OpenWatch(watching, self._lines, shape, timeout_s)


def _watchable(accept: str) -> Representation:
    chosen = representation(accept)
    if chosen.encoding != "json" or chosen.form == "PartialObjectMetadataList":
        raise NotAcceptable("only the following media types are accepted: application/json;stream=watch")
    return chosen
