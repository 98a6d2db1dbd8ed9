"""The API server's front door: an aiohttp application that authenticates, authorizes and answers, and its listener.

    connection -> who (authentication) -> what (paths) -> may they (authorization) -> verbs, pages, watch or stream

The only module here, with streams/, that knows aiohttp. What an answer says is decided by the modules it calls.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime

from aiohttp import web

from jobset.api.errors import ApiError, RequestEntityTooLarge
from jobset.api.resources import CUSTOM_RESOURCE_DEFINITIONS, PODS
from jobset.cluster.apiserver.http.authentication import Authentication
from jobset.cluster.apiserver.http.authorization import Authorization, forbidden
from jobset.cluster.apiserver.http.bodies import LIMIT_BYTES
from jobset.cluster.apiserver.http.discovery import Discovery
from jobset.cluster.apiserver.http.errors import NOT_FOUND_TEXT, NoSuchPage, internal_error, unserved
from jobset.cluster.apiserver.http.openapi import OpenApi
from jobset.cluster.apiserver.http.pages import Pages
from jobset.cluster.apiserver.http.paths import RequestInfo, parse_query, request_info
from jobset.cluster.apiserver.http.reviews import Reviews
from jobset.cluster.apiserver.http.streams.handlers import SUBRESOURCES, PodStreamHandlers
from jobset.cluster.apiserver.http.streams.port import PodStreams
from jobset.cluster.apiserver.http.verbs import Answer, Request, Verbs
from jobset.cluster.apiserver.http.watching import Watches
from jobset.cluster.apiserver.service import ApiService

LOG = logging.getLogger(__name__)

COMPRESSED_FROM_BYTES = 128 * 1024
_COMPRESSION_LEVEL = 1
READER_PATIENCE_S = 60.0
"""How long a watcher may leave the connection full before it is cut off."""
_LONGEST_LINE = 64 * 1024
_GOING_S = 2.0
"""How long requests that are being answered may take when the server stops."""
_BODY_METHODS = ("POST", "PUT", "PATCH", "DELETE")
_KEEP_ALIVE_S = 120.0


class SlowReader(ConnectionError):
    """A watcher does not read what it is sent."""


class FrontDoor:
    """Handles every request of the application."""

    def __init__(
        self,
        service: ApiService,
        authentication: Authentication,
        authorization: Authorization,
        streams: PodStreams | None,
        now: Callable[[], datetime],
    ) -> None:
        reviews = Reviews(authentication, authorization)
        discovery = Discovery(service.registry, reviews.resources)
        self._authentication = authentication
        self._authorization = authorization
        self._verbs = Verbs(service, now, reviews)
        self._pages = Pages(
            discovery,
            OpenApi(service.registry, discovery, lambda: service.list(CUSTOM_RESOURCE_DEFINITIONS).items),
        )
        self._watches = Watches(service, now)
        self._streams = (
            None
            if streams is None
            else PodStreamHandlers(streams, lambda namespace, name: service.get(PODS, namespace, name), now)
        )
        self._lasting: set[asyncio.Task[object]] = set()
        """Watches and streams, which end with the server."""

    async def handle(self, incoming: web.Request) -> web.StreamResponse:
        request = _request_of(incoming)
        try:
            return await self._answer(incoming, request)
        except NoSuchPage:
            return _response(Answer(404, NOT_FOUND_TEXT.encode(), "text/plain; charset=utf-8"))
        except ApiError as error:
            return _response(self._verbs.refusal(request, error))
        except (ConnectionError, web.HTTPException):
            raise
        except Exception as error:
            LOG.exception("%s %s", request.method, request.info.path)
            return _response(self._verbs.refusal(request, internal_error(error)))

    async def stop(self, _: web.Application) -> None:
        for task in self._lasting:
            task.cancel()

    async def _answer(self, incoming: web.Request, request: Request) -> web.StreamResponse:
        info = request.info
        transport = incoming.transport
        certificate = None if transport is None else transport.get_extra_info("peercert")
        request.user = self._authentication.authenticate(incoming.headers, certificate)
        allowed, why = self._authorization.decide(request.user, info)
        if not allowed:
            raise forbidden(request.user, info, why)
        if info.verb == "watch":
            return await self._watch(incoming, request)
        if info.subresource in SUBRESOURCES and info.resource == "pods":
            return await self._stream(incoming, info)
        if request.method in _BODY_METHODS:
            request.body = await _body(incoming)
        answer = self._verbs.answer(request) if info.is_resource else self._pages.answer(request)
        if len(answer.body) >= COMPRESSED_FROM_BYTES and "gzip" in incoming.headers.get("Accept-Encoding", ""):
            return await _compressed(answer)
        return _response(answer)

    async def _watch(self, incoming: web.Request, request: Request) -> web.StreamResponse:
        served = self._verbs.served(request.info)
        watch = self._watches.open(served, request.info, request.query, request.accept)
        response = web.StreamResponse(
            headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
        )
        response.enable_chunked_encoding()

        async def write(chunk: bytes) -> None:
            try:
                async with asyncio.timeout(READER_PATIENCE_S):
                    await response.write(chunk)
            except TimeoutError as error:
                raise SlowReader("the watcher does not read") from error

        self._watches.open_count += 1
        try:
            with self._lasting_request():
                await response.prepare(incoming)
                await watch.relay(write)
                await response.write_eof()
        except SlowReader:
            if incoming.transport is not None:
                incoming.transport.abort()
        finally:
            self._watches.open_count -= 1
        return response

    async def _stream(self, incoming: web.Request, info: RequestInfo) -> web.StreamResponse:
        if self._streams is None or not info.namespace:
            raise unserved()
        with self._lasting_request():
            return await self._streams.handle(incoming, info.namespace, info.name, info.subresource)

    @contextmanager
    def _lasting_request(self) -> Iterator[None]:
        task = asyncio.current_task()
        assert task is not None
        self._lasting.add(task)
        try:
            yield
        finally:
            self._lasting.discard(task)


def _request_of(incoming: web.Request) -> Request:
    headers = incoming.headers
    query = parse_query(incoming.rel_url.raw_query_string)
    return Request(
        incoming.method,
        request_info(incoming.method, incoming.path, query),
        query,
        headers.get("Accept", ""),
        headers.get("Content-Type", ""),
        headers.get("User-Agent", ""),
        if_none_match=headers.get("If-None-Match", ""),
    )


async def _body(incoming: web.Request) -> bytes:
    try:
        return await incoming.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise RequestEntityTooLarge(f"Request entity too large: limit is {LIMIT_BYTES}") from error


def _response(answer: Answer) -> web.Response:
    response = web.Response(status=answer.status, body=answer.body)
    headers = response.headers
    headers["Content-Type"] = answer.content_type
    headers["Cache-Control"] = "no-cache, private"
    for name, value in answer.headers:
        if name == "Warning":
            headers.add(name, value)
        else:
            headers[name] = value
    return response


async def _compressed(answer: Answer) -> web.Response:
    """Compressing takes long enough that others should have their turn meanwhile."""
    body = await asyncio.to_thread(gzip.compress, answer.body, _COMPRESSION_LEVEL)
    headers = (*answer.headers, ("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))
    return _response(Answer(answer.status, body, answer.content_type, headers))


def build_app(
    service: ApiService,
    *,
    authentication: Authentication,
    authorization: Authorization,
    now: Callable[[], datetime],
    streams: PodStreams | None = None,
) -> web.Application:
    """Without `streams`, pods have no log, exec, attach and portforward."""
    door = FrontDoor(service, authentication, authorization, streams, now)
    app = web.Application(client_max_size=LIMIT_BYTES)
    app.router.add_route("*", "/{path:.*}", door.handle)
    app.on_shutdown.append(door.stop)
    return app


@asynccontextmanager
async def serve(
    app: web.Application, host: str, port: int, ssl_context: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Listen as long as the context lasts; gives the port, which the system chooses when `port` is 0."""
    runner = web.AppRunner(
        app,
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=_GOING_S,
        keepalive_timeout=_KEEP_ALIVE_S,
        max_line_size=_LONGEST_LINE,
        max_field_size=_LONGEST_LINE,
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, ssl_context=ssl_context).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
