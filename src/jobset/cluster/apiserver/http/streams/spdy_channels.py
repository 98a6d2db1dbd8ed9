"""Commands over SPDY: one stream for each channel, opened by the client and named by its header `streamtype`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from aiohttp import web

from jobset.api.meta import Object
from jobset.cluster.apiserver.http.streams.channels import STDERR, STDOUT, terminal_size
from jobset.cluster.apiserver.http.streams.queries import CommandOptions
from jobset.cluster.apiserver.http.streams.spdy_session import SpdySession, SpdyStream, StreamReset
from jobset.cluster.apiserver.http.streams.upgrade import negotiate, taken_over
from jobset.cluster.runtime.port import Session

COMMAND_PROTOCOLS = ("v4.channel.k8s.io",)
_NAMES = {STDOUT: "stdout", STDERR: "stderr"}
_OPENING_LIMIT_S = 30.0
_LEAVING_LIMIT_S = 5.0


class SpdyChannels:
    """One command (the Channels protocol). `expected` are the streams that the client is to open."""

    def __init__(self, expected: frozenset[str]) -> None:
        self._expected = expected
        self._streams: dict[str, SpdyStream] = {}
        self._complete = asyncio.Event()
        self._gone = asyncio.Event()

    def opened(self, stream: SpdyStream) -> None:
        kind = stream.headers.get("streamtype", "")
        if kind not in self._expected or kind in self._streams:
            stream.ignore()
            return
        self._streams[kind] = stream
        if kind not in ("stdin", "resize"):
            stream.ignore()  # these only go to the client
        if len(self._streams) == len(self._expected):
            self._complete.set()

    def lost(self) -> None:
        """The connection is over."""
        self._gone.set()
        self._complete.set()

    async def wait_opened(self) -> None:
        """Raises ConnectionError when the client does not open its streams."""
        try:
            async with asyncio.timeout(_OPENING_LIMIT_S):
                await self._complete.wait()
        except TimeoutError:
            raise ConnectionAbortedError("the client did not open its streams") from None
        if self._gone.is_set():
            raise ConnectionResetError("the client is gone")

    async def feed(self, session: Session) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._feed_stdin(session)), group.create_task(self._feed_sizes(session))]
            await self._gone.wait()
            for task in tasks:
                task.cancel()

    async def _feed_stdin(self, session: Session) -> None:
        stream = self._streams.get("stdin")
        if stream is None:
            return
        try:
            while data := await stream.read():
                await session.send_stdin(data)
        except StreamReset:
            pass  # as good as its end
        await session.close_stdin()

    async def _feed_sizes(self, session: Session) -> None:
        stream = self._streams.get("resize")
        if stream is None:
            return
        pending = b""
        try:
            while data := await stream.read():
                *messages, pending = (pending + data).split(b"\n")
                for size in filter(None, map(terminal_size, messages)):
                    session.resize(*size)
        except StreamReset:
            pass

    async def send(self, channel: int, data: bytes) -> None:
        try:
            await self._streams[_NAMES[channel]].write(data)
        except StreamReset:
            raise ConnectionResetError("the client gave up its output") from None

    async def finish(self, status: Object) -> None:
        try:
            await self._streams["error"].write(msgspec.json.encode(status))
        except StreamReset:
            raise ConnectionResetError("the client gave up") from None
        for stream in self._streams.values():
            await stream.finish()
        try:
            async with asyncio.timeout(_LEAVING_LIMIT_S):
                await self._gone.wait()  # closing before the client has read everything could take it away from it
        except TimeoutError:
            pass


@asynccontextmanager
async def spdy_channels(request: web.Request, options: CommandOptions) -> AsyncIterator[SpdyChannels]:
    """The client's streams, all open. Raises ConnectionError when it goes away before."""
    version = negotiate(request, COMMAND_PROTOCOLS)
    wanted = {
        "error": True,
        "stdin": options.stdin,
        "stdout": options.stdout,
        "stderr": options.stderr,
        "resize": options.tty,
    }
    channels = SpdyChannels(frozenset(name for name, expected in wanted.items() if expected))
    async with taken_over(request, version) as connection:
        session = SpdySession(connection, channels.opened)

        async def run() -> None:
            await session.run()
            channels.lost()

        async with asyncio.TaskGroup() as group:
            running = group.create_task(run())
            try:
                await channels.wait_opened()
                yield channels
            finally:
                running.cancel()
