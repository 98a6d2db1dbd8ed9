"""A user's end of a session with a container: the descriptors that its supervisor passed, in the event loop.

Reads only what is asked for and writes only what is taken, so the kernel's buffers are all there is in between. Also
connections into a pod's network.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import socket
import struct
import termios
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence

from jobset.cluster.runtime.port import CannotStart
from jobset.cluster.runtime.process.node.sessions import STDERR, STDIN, STDOUT, TERMINAL
from jobset.cluster.runtime.process.node.wire import FrameReader, Message

KILLED = 137
_READ_BYTES = 64 * 1024
_MAX_FDS = 8
_END_OF_INPUT = b"\x04"
_SIZE = struct.Struct("HHHH")


async def open_session(sock: socket.socket) -> ProcessSession:
    """The session at the other end of this socket, once its command runs. Raises CannotStart."""
    session = ProcessSession(sock)
    try:
        await session.wait_started()
    except BaseException:
        await session.close()
        raise
    return session


class ProcessSession:
    """The Session of the runtime port."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._socket = sock
        self._frames = FrameReader()
        self._streams: dict[str, int] = {}
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._exit_code: asyncio.Future[int] = self._loop.create_future()
        self._loop.add_reader(sock, self._receive)

    async def wait_started(self) -> None:
        await self._started

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        channels = {STDOUT: 1, STDERR: 2, TERMINAL: 1}
        if STDOUT in self._streams:
            del channels[TERMINAL]  # of an attached terminal the supervisor sends what it shows
        while True:
            ended = self._exit_code.done()
            nothing = True
            for name, channel in channels.items():
                if data := self._read(name):
                    nothing = False
                    yield channel, data
            if nothing and (ended or not channels.keys() & self._streams.keys()):
                return  # what it has left behind may keep the streams open for ever
            if nothing:
                await self._wait_readable([self._streams[name] for name in channels if name in self._streams])

    async def send_stdin(self, data: bytes) -> None:
        name = STDIN if STDIN in self._streams else TERMINAL
        view = memoryview(data)
        while view and name in self._streams:
            try:
                view = view[os.write(self._streams[name], view) :]
            except BlockingIOError:
                await self._wait_writable(self._streams[name])
            except OSError:
                self._drop(name)  # nobody reads any more

    async def close_stdin(self) -> None:
        if STDIN in self._streams:
            self._drop(STDIN)
        else:
            await self.send_stdin(_END_OF_INPUT)

    def resize(self, columns: int, rows: int) -> None:
        if TERMINAL in self._streams:
            with contextlib.suppress(OSError):  # it has ended
                fcntl.ioctl(self._streams[TERMINAL], termios.TIOCSWINSZ, _SIZE.pack(rows, columns, 0, 0))

    async def wait(self) -> int:
        return await asyncio.shield(self._exit_code)

    async def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._socket.close()
        for name in list(self._streams):
            self._drop(name)
        for waiting in (self._started, self._exit_code):
            waiting.cancel()

    def _read(self, name: str) -> bytes:
        """What is there now. A stream that has ended is dropped."""
        if name not in self._streams:
            return b""
        try:
            data = os.read(self._streams[name], _READ_BYTES)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""  # a terminal that nobody has open any more
        if not data:
            self._drop(name)
        return data

    async def _wait_readable(self, fds: Sequence[int]) -> None:
        """Until there is something to read, or the command has ended."""
        woken: asyncio.Future[None] = self._loop.create_future()
        self._exit_code.add_done_callback(wake := _waker(woken))
        for fd in fds:
            self._loop.add_reader(fd, wake, None)
        try:
            await woken
        finally:
            self._exit_code.remove_done_callback(wake)
            for fd in self._streams.values():  # what was dropped meanwhile may be another's by now
                if fd in fds:
                    self._loop.remove_reader(fd)

    async def _wait_writable(self, fd: int) -> None:
        woken: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_writer(fd, _waker(woken), None)
        try:
            await woken
        finally:
            if fd in self._streams.values():
                self._loop.remove_writer(fd)

    def _drop(self, name: str) -> None:
        fd = self._streams.pop(name)
        self._loop.remove_reader(fd)
        self._loop.remove_writer(fd)
        os.close(fd)

    def _receive(self) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self._socket, _READ_BYTES, _MAX_FDS)
        except BlockingIOError:
            return
        except OSError:
            data, fds = b"", []
        passed = deque(fds)
        for message in self._frames.feed(data):
            self._hear(message, passed)
        if not data:
            self._loop.remove_reader(self._socket)
            self._hear({"event": "exit", "exit_code": KILLED}, passed)

    def _hear(self, message: Message, passed: deque[int]) -> None:
        if message["event"] == "started":
            for name in message["fds"]:
                fd = self._streams[name] = passed.popleft()
                os.set_inheritable(fd, False)
                os.set_blocking(fd, False)
            self._started.set_result(None)
        elif message["event"] == "failed":
            self._started.set_exception(CannotStart(message["message"], message["exit_code"]))
        elif not self._started.done():
            self._started.set_exception(CannotStart("the container has ended"))
        elif not self._exit_code.done():
            self._exit_code.set_result(message["exit_code"])


def _waker(future: asyncio.Future[None]) -> Callable[[object], None]:
    def wake(_: object) -> None:
        if not future.done():
            future.set_result(None)

    return wake


async def connect(
    sock: socket.socket, hosts: Sequence[str], port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect a socket to the first of these addresses that listens. Raises OSError of the last."""
    sock.setblocking(False)
    try:
        for host in hosts[:-1]:
            with contextlib.suppress(ConnectionRefusedError):
                await _connect(sock, host, port)
                return await asyncio.open_connection(sock=sock)
        await _connect(sock, hosts[-1], port)
        return await asyncio.open_connection(sock=sock)
    except BaseException:
        sock.close()
        raise


async def _connect(sock: socket.socket, host: str, port: int) -> None:
    try:
        await asyncio.get_running_loop().sock_connect(sock, (host, port))
    except OSError as error:
        raise type(error)(f"connect to {host}:{port}: {os.strerror(error.errno or 0)}") from error
