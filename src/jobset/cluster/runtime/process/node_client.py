"""The asyncio end of the node process: starts it, sends requests, delivers answers and exits.

Knows nothing of what the requests mean. Never blocks: what the socket does not take at once waits in a buffer.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, TypeAlias

from jobset.cluster.runtime.process.node.wire import READ_SIZE, FrameReader, Message, encode

_SOURCE = Path(__file__).parents[4]
_BOOT = "import sys; sys.path.insert(0, {source!r}); from {package}.node import main; main.{call}"
_MAX_FDS = 16
_LOG_TAIL_BYTES = 2000

OnEvent: TypeAlias = Callable[[Message], None]


class NodeError(Exception):
    """The node process refused a request, or is gone (`gone`). The message is for the user."""

    def __init__(self, message: str, exit_code: int = 128, gone: bool = False) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.gone = gone


def start_node_process(
    call: str, fds: Sequence[int], log: IO[bytes], cwd: str | None = None
) -> subprocess.Popen[bytes]:
    """Run `call`, of node/main.py, in a process of its own that gets these descriptors."""
    boot = _BOOT.format(source=str(_SOURCE), package=__package__, call=call)
    return subprocess.Popen(
        [sys.executable, "-S", "-I", "-E", "-c", boot],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=log,
        pass_fds=fds,
        cwd=cwd,
        start_new_session=True,  # a Ctrl-C at our terminal is for us to handle
    )


class NodeClient:
    """One node process. `on_event` gets its events; `on_gone` is called once if it ends without being told to."""

    def __init__(self, on_event: OnEvent, on_gone: Callable[[str], None]) -> None:
        self._on_event = on_event
        self._on_gone = on_gone
        self._frames = FrameReader()
        self._unsent = bytearray()
        self._fds: deque[int] = deque()
        self._waiting: dict[int, asyncio.Future[tuple[Any, socket.socket | None]]] = {}
        self._numbers = itertools.count(1)
        self._ready: asyncio.Future[Message] | None = None
        self._ended = asyncio.Event()
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._starter: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._closing = False

    def launch(self, setup: Message, log: Path) -> None:
        """Start the process and tell it to set up. Needs no event loop. `log` gets what it has to complain about."""
        ours, theirs = socket.socketpair()
        self._log = log.open("w+b")  # kept open: the directory may be gone when the last words are wanted
        with theirs:
            self._process = start_node_process(f"main({theirs.fileno()})", [theirs.fileno()], self._log)
        self._begin(ours, setup)

    def connect(
        self, connection: socket.socket, setup: Message, log: Path, starter: subprocess.Popen[bytes] | None = None
    ) -> None:
        """Use a node process that goes on without us. Needs no event loop. `starter` made it, and is about to end."""
        self._log = log.open("a+b")
        self._starter = starter
        self._begin(connection, setup)

    def _begin(self, connection: socket.socket, setup: Message) -> None:
        connection.sendall(encode(setup))
        connection.setblocking(False)
        self._socket = connection

    async def wait_ready(self) -> Message:
        """What the launched process says of the machine. Raises NodeError."""
        assert self._socket is not None
        loop = asyncio.get_running_loop()
        self._ready = loop.create_future()
        loop.add_reader(self._socket.fileno(), self._receive)
        try:
            ready = await self._ready
        finally:
            if self._starter is not None:
                self._starter.wait()
        self._numbers = itertools.count(ready.get("first_request", 1))
        return ready

    async def request(self, op: str, **fields: Any) -> Any:
        """The result. Raises NodeError."""
        return (await self.request_socket(op, **fields))[0]

    async def request_socket(self, op: str, **fields: Any) -> tuple[Any, socket.socket | None]:
        """The result and the socket that came with it, if one did."""
        if self._socket is None or self._closing:
            raise NodeError("the process runtime is not running", gone=True)
        number = next(self._numbers)
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._send({"op": op, "id": number, **fields})
            result: tuple[Any, socket.socket | None] = await waiting
            return result
        finally:
            self._waiting.pop(number, None)

    def disconnect(self) -> None:
        """Leave the process to itself."""
        if self._socket is not None and not self._ended.is_set():
            self._closing = True
            self._end()

    async def close(self) -> None:
        """End the process and everything it runs; returns when nothing is left."""
        if self._socket is None or self._process is None:
            return
        self._closing = True
        if not self._ended.is_set():
            self._socket.shutdown(socket.SHUT_WR)
            await self._ended.wait()
        self._process.wait()  # it closes its channel by ending
        self._process = None

    def _send(self, message: Message) -> None:
        if self._socket is None:
            return
        data = encode(message)
        if not self._unsent:
            try:
                data = data[self._socket.send(data) :]
            except BlockingIOError:
                pass
            except OSError:
                return  # the reader sees the end and says so
            if data:
                asyncio.get_running_loop().add_writer(self._socket.fileno(), self._flush)
        self._unsent += data

    def _flush(self) -> None:
        assert self._socket is not None
        try:
            del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()
        if not self._unsent:
            asyncio.get_running_loop().remove_writer(self._socket.fileno())

    def _receive(self) -> None:
        assert self._socket is not None
        try:
            data, fds, _, _ = socket.recv_fds(self._socket, READ_SIZE, _MAX_FDS)
        except BlockingIOError:
            return
        except OSError:
            data, fds = b"", []
        self._fds.extend(fds)
        if not data:
            self._end()
            return
        for message in self._frames.feed(data):
            self._deliver(message)

    def _deliver(self, message: Message) -> None:
        passed = socket.socket(fileno=self._fds.popleft()) if message.get("fds") else None
        if message.get("event") == "ready" and self._ready is not None:
            self._ready.set_result(message)
        elif "event" in message:
            # after whoever waited for the start of this container has run
            asyncio.get_running_loop().call_soon(self._on_event, message)
        else:
            waiting = self._waiting.get(message["id"])
            if waiting is None or waiting.done():
                if passed is not None:
                    passed.close()
            elif "error" in message:
                waiting.set_exception(NodeError(message["error"], message["exit_code"]))
            else:
                waiting.set_result((message["result"], passed))

    def _end(self) -> None:
        assert self._socket is not None
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._socket.fileno())
        loop.remove_writer(self._socket.fileno())
        self._socket.close()
        self._ended.set()
        expected, self._closing = self._closing, True
        error = NodeError(f"the node process ended{self._last_words()}", gone=True)
        pending: list[asyncio.Future[Any]] = [*self._waiting.values(), *([self._ready] if self._ready else [])]
        for future in pending:
            if not future.done():
                future.set_exception(error)
        if not expected:
            loop.call_soon(self._on_gone, str(error))

    def _last_words(self) -> str:
        if self._log is None:
            return ""
        with self._log as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(0, size - _LOG_TAIL_BYTES))
            said = log.read().decode(errors="replace").strip()
        return f": {said}" if said else ""
