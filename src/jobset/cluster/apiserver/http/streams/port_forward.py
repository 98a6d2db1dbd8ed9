"""Port-forward: SPDY streams, over TCP or inside WebSocket messages, become connections into the pod's network.

For each connection a client opens two streams with the same request id: `error`, which is closed or says what went
wrong, and `data`. Each direction is closed by itself, so that a client may end its request and still read the answer.
"""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from aiohttp import web

from jobset.api.errors import BadRequest
from jobset.cluster.apiserver.http.streams import websocket
from jobset.cluster.apiserver.http.streams.spdy_session import Carrier, SpdySession, SpdyStream, StreamReset
from jobset.cluster.apiserver.http.streams.upgrade import is_spdy, negotiate, taken_over

PROTOCOLS = ("portforward.k8s.io",)
_READ_BYTES = 64 * 1024

Dial: TypeAlias = Callable[[int], Awaitable[tuple[StreamReader, StreamWriter]]]
"""Connects to a port of the pod. Raises OSError."""


async def serve_port_forward(request: web.Request, dial: Dial, target: str) -> web.StreamResponse:
    """Until the client goes away. `target` names the pod in messages. BadRequest, Forbidden before the upgrade."""
    if websocket.is_websocket(request):
        accepted = await websocket.accept(request, (websocket.TUNNEL_PROTOCOL,))
        await _Forwarding(dial, target).run(websocket.WebSocketCarrier(accepted))
        await accepted.close()
        return accepted
    if not is_spdy(request):
        raise BadRequest("Upgrade request required")
    async with taken_over(request, negotiate(request, PROTOCOLS)) as connection:
        await _Forwarding(dial, target).run(connection)
    return web.Response()


class _Forwarding:
    """The connections of one client."""

    def __init__(self, dial: Dial, target: str) -> None:
        self._dial = dial
        self._target = target
        self._halves: dict[str, dict[str, SpdyStream]] = {}

    async def run(self, carrier: Carrier) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            # the streams of a session that is over end by themselves, and with them their connections
            await SpdySession(carrier, self._opened).run()

    def _opened(self, stream: SpdyStream) -> None:
        request_id = stream.headers.get("requestid", "")
        halves = self._halves.setdefault(request_id, {})
        halves[stream.headers.get("streamtype", "")] = stream
        if {"error", "data"} <= halves.keys():
            del self._halves[request_id]
            halves["error"].ignore()
            self._group.create_task(self._connect(halves["data"], halves["error"]))

    async def _connect(self, data: SpdyStream, error: SpdyStream) -> None:
        port = data.headers.get("port", "")
        try:
            reader, writer = await self._dial(_port(port))
        except OSError as problem:
            await _refuse(data, error, f"error forwarding port {port} to pod {self._target}: {problem}")
            return
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_to_pod(data, writer))
                group.create_task(_to_client(reader, data, error))
        finally:
            writer.close()


def _port(text: str) -> int:
    """Raises OSError, as dialling it would."""
    if text.isdecimal() and 0 < int(text) < 1 << 16:
        return int(text)
    raise OSError(f"{text!r} is not a port")


async def _refuse(data: SpdyStream, error: SpdyStream, problem: str) -> None:
    data.ignore()
    try:
        await error.write(problem.encode())
        await error.finish()
        await data.finish()
    except (ConnectionError, StreamReset):
        pass  # the client is gone


async def _to_pod(data: SpdyStream, writer: StreamWriter) -> None:
    try:
        while chunk := await data.read():
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()
    except StreamReset:
        writer.close()
    except OSError:
        data.ignore()  # the pod does not listen any more; it may still have something to say


async def _to_client(reader: StreamReader, data: SpdyStream, error: SpdyStream) -> None:
    try:
        while chunk := await _read(reader):
            await data.write(chunk)
        # the pod has said all; clients wait for this before they close their own side
        await error.finish()
        await data.finish()
    except (ConnectionError, StreamReset):
        pass  # the client is gone, or wants no more of it


async def _read(reader: StreamReader) -> bytes:
    try:
        return await reader.read(_READ_BYTES)
    except OSError:
        return b""  # cut off: for the client no different from its end
