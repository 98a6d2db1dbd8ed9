"""Commands over WebSocket: each message begins with the number of its channel (v4 and v5 of channel.k8s.io).

v5 adds a message of two bytes, 255 and a channel, by which a client closes that channel: the end of standard input.
Also the carrier for SPDY frames inside WebSocket messages, which is how port-forwarding comes.
"""

from __future__ import annotations

import asyncio

import msgspec
from aiohttp import WSMsgType, web

from jobset.api.errors import BadRequest
from jobset.api.meta import Object
from jobset.cluster.apiserver.http.streams.channels import ERROR, RESIZE, STDIN, terminal_size
from jobset.cluster.runtime.port import Session

COMMAND_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
TUNNEL_PROTOCOL = "SPDY/3.1+portforward.k8s.io"
_CLOSE = 255
_MESSAGE_LIMIT_BYTES = 16 << 20
PING_EVERY_S = 5.0


def is_websocket(request: web.Request) -> bool:
    return request.headers.get("Upgrade", "").lower() == "websocket"


async def accept(request: web.Request, protocols: tuple[str, ...]) -> web.WebSocketResponse:
    """Upgrade the connection. BadRequest when the client speaks none of the protocols."""
    offered = [
        word.strip() for line in request.headers.getall("Sec-WebSocket-Protocol", ()) for word in line.split(",")
    ]
    if not any(protocol in offered for protocol in protocols):
        raise BadRequest(
            f"unable to upgrade: unable to negotiate protocol: client supports {offered}, server accepts {protocols}"
        )
    websocket = web.WebSocketResponse(protocols=protocols, max_msg_size=_MESSAGE_LIMIT_BYTES, compress=False)
    await websocket.prepare(request)
    return websocket


class WebSocketChannels:
    """One command (the Channels protocol)."""

    def __init__(self, request: web.Request, websocket: web.WebSocketResponse) -> None:
        self._request = request
        self._websocket = websocket

    async def feed(self, session: Session) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._receive(session)), group.create_task(self._watch())]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()

    async def send(self, channel: int, data: bytes) -> None:
        await self._websocket.send_bytes(bytes([channel]) + data)

    async def finish(self, status: Object) -> None:
        await self.send(ERROR, msgspec.json.encode(status))
        await self._websocket.close()

    async def _receive(self, session: Session) -> None:
        async for message in self._websocket:
            if message.type not in (WSMsgType.BINARY, WSMsgType.TEXT):
                continue
            data = message.data.encode() if message.type is WSMsgType.TEXT else message.data
            if not data:
                continue
            channel, rest = data[0], data[1:]
            if channel == STDIN:
                await session.send_stdin(rest)
            elif channel == RESIZE:
                if size := terminal_size(rest):
                    session.resize(*size)
            elif channel == _CLOSE and self._websocket.ws_protocol == COMMAND_PROTOCOLS[0] and rest == bytes([STDIN]):
                await session.close_stdin()

    async def _watch(self) -> None:
        """Until the client is gone, which nobody notices who does not read, while the command takes no input."""
        while self._request.transport is not None and not self._request.transport.is_closing():
            await asyncio.sleep(PING_EVERY_S)
            try:
                await self._websocket.ping()
            except ConnectionError:
                return


class WebSocketCarrier:
    """Bytes in the binary messages of a WebSocket."""

    def __init__(self, websocket: web.WebSocketResponse) -> None:
        self._websocket = websocket

    async def receive(self) -> bytes:
        async for message in self._websocket:
            if message.type is WSMsgType.BINARY and message.data:
                return bytes(message.data)
        return b""

    async def send(self, data: bytes) -> None:
        await self._websocket.send_bytes(data)
