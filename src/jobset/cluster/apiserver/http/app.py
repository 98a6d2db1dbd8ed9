"""The API server's front door as an aiohttp application.

    connection -> what (paths) -> who and may they (answers) -> verbs, pages, watch or stream

With server.py and streams/ the only module that knows aiohttp. What an answer says is decided by those it calls.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from aiohttp import web

from jobset.api.errors import ApiError, RequestEntityTooLarge
from jobset.api.resources import PODS
from jobset.cluster.apiserver.http.answers import NO_SUCH_PAGE, Answers
from jobset.cluster.apiserver.http.authentication import Authentication
from jobset.cluster.apiserver.http.authorization import Authorization
from jobset.cluster.apiserver.http.bodies import LIMIT_BYTES
from jobset.cluster.apiserver.http.errors import NoSuchPage, internal_error, unserved
from jobset.cluster.apiserver.http.paths import RequestInfo, parse_query, request_info
from jobset.cluster.apiserver.http.requests import Answer, Request
from jobset.cluster.apiserver.http.streams.handlers import SUBRESOURCES, PodStreamHandlers
from jobset.cluster.apiserver.http.streams.port import PodStreams
from jobset.cluster.apiserver.service import ApiService

LOG = logging.getLogger(__name__)

COMPRESSED_FROM_BYTES = 128 * 1024
_COMPRESSION_LEVEL = 1
READER_PATIENCE_S = 60.0
"""How long a watcher may leave the connection full before it is cut off."""
_BODY_METHODS = ("POST", "PUT", "PATCH", "DELETE")


class SlowReader(ConnectionError):
    """A watcher does not read what it is sent."""


class FrontDoor:
    """Handles every request of the application."""

    def __init__(self, answers: Answers, streams: PodStreamHandlers | None) -> None:
        self._answers = answers
        self._streams = streams
        self._lasting: set[asyncio.Task[object]] = set()
        """Watches and streams, which end with the server."""

    async def handle(self, incoming: web.Request) -> web.StreamResponse:
        request = _request_of(incoming)
        try:
            return await self._answer(incoming, request)
        except NoSuchPage:
            return _response(NO_SUCH_PAGE)
        except ApiError as error:
            return _response(self._answers.refusal(request, error))
        except (ConnectionError, web.HTTPException):
            raise
        except Exception as error:
            LOG.exception("%s %s", request.method, request.info.path)
            return _response(self._answers.refusal(request, internal_error(error)))

    async def stop(self, _: web.Application) -> None:
        for task in self._lasting:
            task.cancel()

    async def _answer(self, incoming: web.Request, request: Request) -> web.StreamResponse:
        info = request.info
        transport = incoming.transport
        certificate = None if transport is None else transport.get_extra_info("peercert")
        self._answers.admit(request, incoming.headers, certificate)
        if info.verb == "watch":
            return await self._watch(incoming, request)
        if info.subresource in SUBRESOURCES and info.resource == "pods":
            return await self._stream(incoming, info)
        if request.method in _BODY_METHODS:
            request.body = await _body(incoming)
        answer = self._answers.answer(request)
        if len(answer.body) >= COMPRESSED_FROM_BYTES and "gzip" in incoming.headers.get("Accept-Encoding", ""):
            return await _compressed(answer)
        return _response(answer)

    async def _watch(self, incoming: web.Request, request: Request) -> web.StreamResponse:
        watch = self._answers.open_watch(request)
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

        self._answers.watches.open_count += 1
        try:
            with self._lasting_request():
                await response.prepare(incoming)
                await response.write(b"")  # headers go out with the first write, and the first event may take long
                await watch.relay(write)
                await response.write_eof()
        except SlowReader:
            if incoming.transport is not None:
                incoming.transport.abort()
        finally:
            self._answers.watches.open_count -= 1
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
    handlers = None
    if streams is not None:
        handlers = PodStreamHandlers(streams, lambda namespace, name: service.get(PODS, namespace, name), now)
    door = FrontDoor(Answers(service, authentication, authorization, now), handlers)
    app = web.Application(client_max_size=LIMIT_BYTES)
    app.router.add_route("*", "/{path:.*}", door.handle)
    app.on_shutdown.append(door.stop)
    return app
