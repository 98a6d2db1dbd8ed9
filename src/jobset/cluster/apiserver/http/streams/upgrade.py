"""Takes a connection away from the HTTP server after `Upgrade: SPDY/3.1`, and gives it back when it is closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from jobset.api.errors import BadRequest, Forbidden

PROTOCOL = "SPDY/3.1"
_VERSIONS = "X-Stream-Protocol-Version"
_READ_BYTES = 256 * 1024
_CLOSE_LIMIT_S = 2.0


def is_spdy(request: web.Request) -> bool:
    return request.headers.get("Upgrade", "").upper() == PROTOCOL


def negotiate(request: web.Request, supported: tuple[str, ...]) -> str:
    """The first of ours that the client offers. BadRequest, Forbidden."""
    offered = [word.strip() for line in request.headers.getall(_VERSIONS, ()) for word in line.split(",")]
    if not offered:
        raise BadRequest(f"unable to upgrade: {_VERSIONS} is required")
    for version in supported:
        if version in offered:
            return version
    raise Forbidden(
        f"unable to upgrade: unable to negotiate protocol: client supports {offered}, server accepts {list(supported)}"
    )


class _Taken(asyncio.StreamReaderProtocol):
    """The connection's new protocol."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        super().__init__(reader)
        self.lost = asyncio.Event()
        self.reason: Exception | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.reason = exc
        self.lost.set()


class ConnectionCarrier:
    """Bytes of a connection that was taken over."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def receive(self) -> bytes:
        return await self._reader.read(_READ_BYTES)

    async def send(self, data: bytes) -> None:
        if self._writer.is_closing():
            raise ConnectionResetError("the client is gone")
        self._writer.write(data)
        await self._writer.drain()


@asynccontextmanager
async def taken_over(request: web.Request, version: str) -> AsyncIterator[ConnectionCarrier]:
    """The connection, after the answer that the protocol has changed; it is closed when the context ends.

    The HTTP server hears of its end only then, so that it does not cancel who is using it.
    """
    transport = request.transport
    if transport is None:
        raise ConnectionResetError("the client is gone")
    former = transport.get_protocol()
    reader = asyncio.StreamReader()
    protocol = _Taken(reader)
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    writer = asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())
    try:
        writer.write(_switching(version))
        yield ConnectionCarrier(reader, writer)
    finally:
        transport.close()
        try:
            async with asyncio.timeout(_CLOSE_LIMIT_S):
                await protocol.lost.wait()
        except TimeoutError:
            transport.abort()  # it does not take what is still to be sent
        finally:
            former.connection_lost(protocol.reason)


def _switching(version: str) -> bytes:
    lines = (
        "HTTP/1.1 101 Switching Protocols",
        "Connection: Upgrade",
        f"Upgrade: {PROTOCOL}",
        f"{_VERSIONS}: {version}",
    )
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode()
