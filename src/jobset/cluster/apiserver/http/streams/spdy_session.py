"""SPDY/3.1 streams on one connection: what a handler of exec, attach or port-forward reads from and writes to.

The client opens all streams. Each holds back a bounded amount of what arrived; when one is full the connection is not
read any further until its reader has caught up or let go, so a slow reader fills no memory and the client feels it.
Writing waits for the connection. Decides nothing about what the streams mean.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

from jobset.cluster.apiserver.http.streams import spdy

STREAM_LIMIT_BYTES = 1 << 20
OPEN_STREAMS_LIMIT = 512
FRAME_BYTES = 32 * 1024
PING_EVERY_S = 5.0


class Carrier(Protocol):
    """Where the frames travel: a connection of its own, or the messages of a WebSocket."""

    async def receive(self) -> bytes:
        """What has arrived next; empty when the other end is gone."""
        ...

    async def send(self, data: bytes) -> None:
        """Wait until there is room, too. Raises ConnectionError."""
        ...


class StreamReset(Exception):
    """The client gave this stream up."""


class SpdyStream:
    """One stream, opened by the client. Only its session puts data in."""

    def __init__(self, session: SpdySession, stream_id: int, headers: Mapping[str, str]) -> None:
        self.stream_id = stream_id
        self.headers = headers
        self._session = session
        self._chunks: deque[bytes] = deque()
        self._held_bytes = 0
        self._ended = False
        self._reset = False
        self._ignored = False
        self._finished = False
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    async def read(self) -> bytes:
        """What came next, empty at the end. Raises StreamReset."""
        while not self._chunks:
            if self._reset:
                raise StreamReset
            if self._ended:
                return b""
            self._changed.clear()
            await self._changed.wait()
        chunk = self._chunks.popleft()
        self._held_bytes -= len(chunk)
        if self._held_bytes <= STREAM_LIMIT_BYTES // 2:
            self._room.set()
        return chunk

    async def write(self, data: bytes) -> None:
        """Raises StreamReset, ConnectionError."""
        for start in range(0, len(data), FRAME_BYTES):
            if self._reset:
                raise StreamReset
            await self._session.send(spdy.data_frame(self.stream_id, data[start : start + FRAME_BYTES]))

    async def finish(self) -> None:
        """Nothing more is written; reading may go on."""
        if not (self._finished or self._reset):
            self._finished = True
            await self._session.send(spdy.data_frame(self.stream_id, b"", fin=True))
            self._session.forget_if_over(self)

    def ignore(self) -> None:
        """Throw away what has come and what will come."""
        self._ignored = True
        self._chunks.clear()
        self._held_bytes = 0
        self._room.set()

    @property
    def is_over(self) -> bool:
        return self._reset or (self._ended and self._finished)

    async def put(self, data: bytes, fin: bool) -> None:
        """For the session: add what came, after waiting until there is room."""
        await self._room.wait()
        if data and not self._ignored:
            self._chunks.append(data)
            self._held_bytes += len(data)
            if self._held_bytes > STREAM_LIMIT_BYTES:
                self._room.clear()
        self._ended = self._ended or fin
        self._changed.set()

    def abandon(self) -> None:
        """For the session: the client gave it up, or is gone."""
        self.ignore()
        self._reset = True
        self._changed.set()


class SpdySession:
    """`on_stream` is called for every stream that the client opens; `run` returns when the connection is over."""

    def __init__(self, carrier: Carrier, on_stream: Callable[[SpdyStream], None]) -> None:
        self._carrier = carrier
        self._on_stream = on_stream
        self._reader = spdy.FrameReader()
        self._writer = spdy.FrameWriter()
        self._streams: dict[int, SpdyStream] = {}
        self._pings = 0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            pinging = group.create_task(self._ping())
            try:
                await self._receive()
            except (ConnectionError, spdy.ProtocolError):
                pass  # the client is gone, or speaks something else: either way there is nobody to tell
            finally:
                pinging.cancel()
                for stream in list(self._streams.values()):
                    stream.abandon()

    async def send(self, frame: bytes) -> None:
        await self._carrier.send(frame)

    def forget_if_over(self, stream: SpdyStream) -> None:
        if stream.is_over:
            self._streams.pop(stream.stream_id, None)

    async def _ping(self) -> None:
        """Whoever is not read from is only known to be gone by writing to it."""
        while True:
            await asyncio.sleep(PING_EVERY_S)
            self._pings += 2
            try:
                await self.send(spdy.ping_frame(self._pings))
            except ConnectionError:
                for stream in self._streams.values():
                    stream.abandon()
                return

    async def _receive(self) -> None:
        while data := await self._carrier.receive():
            for frame in self._reader.feed(data):
                await self._handle(frame)

    async def _handle(self, frame: spdy.Frame) -> None:
        match frame:
            case spdy.SynStream():
                await self._open(frame)
            case spdy.Data(stream_id, data, fin):
                stream = self._streams.get(stream_id)
                if stream is not None:
                    await stream.put(data, fin)
                    self.forget_if_over(stream)
            case spdy.Reset(stream_id):
                stream = self._streams.pop(stream_id, None)
                if stream is not None:
                    stream.abandon()
            case spdy.Ping(number) if number % 2:
                await self.send(spdy.ping_frame(number))
            case _:
                pass

    async def _open(self, opened: spdy.SynStream) -> None:
        if opened.stream_id in self._streams or len(self._streams) >= OPEN_STREAMS_LIMIT:
            await self.send(spdy.reset_frame(opened.stream_id, spdy.REFUSED_STREAM))
            return
        stream = self._streams[opened.stream_id] = SpdyStream(self, opened.stream_id, opened.headers)
        # before anybody can write to it: clients drop data of a stream that was not replied to
        await self.send(self._writer.syn_reply(opened.stream_id, {}))
        if opened.fin:
            await stream.put(b"", fin=True)
        self._on_stream(stream)
