"""The client port over HTTP, for any Kubernetes API server.

    async with HttpClient(load_target(os.environ), now=now) as client:
        pod = await client.get(PODS, "default", "name", dict)

Turns verbs into requests and answers into objects; how a request travels is transport.py's. A watch whose connection
is cut ends like one that the server ended: whoever reads it watches again from the last version seen.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from jobset.api.errors import ApiError, BadRequest, Gone, InternalError, Invalid, Timeout, Unavailable
from jobset.api.meta import Object
from jobset.api.resources import Resource
from jobset.client import requests
from jobset.client.http.decoding import Lines, decode_event, decode_list
from jobset.client.http.transport import REQUEST_TIMEOUT_S, Transport
from jobset.client.kubeconfig import Target
from jobset.client.port import ObjectList, PatchType, Propagation, WatchEvent
from jobset.client.requests import Request, Scope

T = TypeVar("T")

PAGE_SIZE = 500
WATCH_S = (300, 600)
"""Watches are asked to end after a time between these, so that not all begin anew at once."""
SILENCE_S = 30
"""How long after that time a server that still says nothing counts as gone."""
AT_ONCE_S = 1.0
_INITIAL_EVENTS_END = b"k8s.io/initial-events-end"


class HttpClient:
    """`client.port.Client`. Deleting answers with the object or, once it is gone, the server's Status.

    `per_second` and `burst` bound the requests (0: no bound). With `stream_lists`, lists are read as streams of objects
    whatever their limit, which costs server and client the least memory on big clusters but a connection each; servers
    that cannot are asked in pages.
    """

    def __init__(
        self,
        target: Target,
        *,
        now: Callable[[], datetime],
        per_second: float = 50.0,
        burst: int = 100,
        stream_lists: bool = False,
    ) -> None:
        self._transport = Transport(target, now=now, per_second=per_second, burst=burst)
        self._server = target.server
        self._stream_lists = stream_lists

    async def __aenter__(self) -> HttpClient:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.__aexit__(kind, error, trace)

    async def get(self, resource: Resource, namespace: str, name: str, as_: type[T]) -> T:
        body = await self._transport.send(requests.get(resource, namespace, name))
        return self._decoded(body, lambda: msgspec.json.decode(body, type=as_))

    async def list(
        self,
        resource: Resource,
        as_: type[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> ObjectList[T]:
        scope = Scope(namespace, label_selector, field_selector)
        if self._stream_lists and not continue_token:
            try:
                return await self._streamed_list(resource, as_, scope)
            except (BadRequest, Invalid, Timeout):
                self._stream_lists = False
        if limit or continue_token:
            return await self._page(resource, as_, scope, limit, continue_token)
        return await self._pages(resource, as_, scope)

    @asynccontextmanager
    async def watch(
        self,
        resource: Resource,
        as_: type[T],
        *,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[AsyncIterator[Sequence[WatchEvent[T]]]]:
        scope = Scope(namespace, label_selector, field_selector)
        timeout_s = random.randint(*WATCH_S)
        request = requests.watch(resource, scope, resource_version, timeout_s)
        async with self._transport.stream(request, silence_s=timeout_s + SILENCE_S) as pieces:
            yield self._batches(pieces, as_)

    async def create(self, resource: Resource, body: Object, *, dry_run: bool = False) -> Object:
        return await self._send(requests.create(resource, body, dry_run=dry_run))

    async def update(self, resource: Resource, body: Object, *, subresource: str = "", dry_run: bool = False) -> Object:
        return await self._send(requests.update(resource, body, subresource, dry_run=dry_run))

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Any,
        *,
        patch_type: PatchType = "merge",
        subresource: str = "",
        field_manager: str = "jobset",
        force: bool = False,
        dry_run: bool = False,
    ) -> Object:
        request = requests.patch(
            resource,
            namespace,
            name,
            patch,
            patch_type=patch_type,
            subresource=subresource,
            field_manager=field_manager,
            force=force,
            dry_run=dry_run,
        )
        return await self._send(request)

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        propagation: Propagation | None = None,
        grace_period_s: int | None = None,
        dry_run: bool = False,
    ) -> Object:
        request = requests.delete(
            resource,
            namespace,
            name,
            uid=uid,
            propagation=propagation,
            grace_period_s=grace_period_s,
            dry_run=dry_run,
        )
        return await self._send(request)

    async def create_subresource(
        self, resource: Resource, namespace: str, name: str, subresource: str, body: Object
    ) -> Object:
        return await self._send(requests.create_subresource(resource, namespace, name, subresource, body))

    async def _send(self, request: Request) -> Object:
        body = await self._transport.send(request)
        return self._decoded(body, lambda: msgspec.json.decode(body, type=dict))

    def _decoded(self, body: bytes, decode: Callable[[], T]) -> T:
        try:
            return decode()
        except msgspec.MsgspecError as error:
            beginning = body[:80].decode(errors="replace")
            what = f"{self._server} does not answer as a Kubernetes API server does ({error}): {beginning}"
            raise InternalError(what) from error

    async def _page(
        self, resource: Resource, as_: type[T], scope: Scope, limit: int, continue_token: str
    ) -> ObjectList[T]:
        body = await self._transport.send(requests.list_(resource, scope, limit, continue_token))
        return self._decoded(body, lambda: decode_list(body, resource, as_))

    async def _pages(self, resource: Resource, as_: type[T], scope: Scope) -> ObjectList[T]:
        """Everything, in pages; at once when the server forgets the state that the pages are of."""
        items: list[T] = []
        token = ""
        while True:
            try:
                page = await self._page(resource, as_, scope, PAGE_SIZE, token)
            except Gone:
                if not token:
                    raise
                return await self._page(resource, as_, scope, 0, "")
            items += page.items
            token = page.continue_token
            if not token:
                return ObjectList(items, page.resource_version)

    async def _streamed_list(self, resource: Resource, as_: type[T], scope: Scope) -> ObjectList[T]:
        """Everything, one object at a time. BadRequest, Invalid or Timeout from servers that do not know how."""
        timeout_s = int(REQUEST_TIMEOUT_S)
        request = requests.streamed_list(resource, scope, timeout_s)
        items: list[T] = []
        lines = Lines()
        async with self._transport.stream(request, silence_s=timeout_s) as pieces:
            async for piece in pieces:
                for line in lines.feed(piece):
                    event = self._decoded(line, lambda line=line: decode_event(line, as_))  # type: ignore[misc]
                    if event.object is not None:
                        items.append(event.object)
                    elif _INITIAL_EVENTS_END in line:
                        return ObjectList(items, event.resource_version)
        raise Timeout(f"{self._server} did not send the whole list of {resource} as a stream")

    async def _batches(self, pieces: AsyncIterator[bytes], as_: type[T]) -> AsyncIterator[Sequence[WatchEvent[T]]]:
        lines = Lines()
        loop = asyncio.get_running_loop()
        began, silent = loop.time(), True
        async for piece in pieces:
            batch: list[WatchEvent[T]] = []
            failure: ApiError | None = None
            for line in lines.feed(piece):
                try:
                    batch.append(self._decoded(line, lambda line=line: decode_event(line, as_)))  # type: ignore[misc]
                except ApiError as error:
                    failure = error
                    break
            if batch:
                silent = False
                yield batch
            if failure is not None:
                raise failure
        if silent and loop.time() - began < AT_ONCE_S:
            raise Unavailable(f"{self._server} ended a watch as soon as it began")
