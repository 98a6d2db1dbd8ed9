"""Commands and terminals that somebody looks at: exec with streams, and attaching to the container's own process.

Each session is a socket whose other end the program has. The supervisor sends the descriptors of the streams over it,
and in the end the exit code; what flows in the streams then passes neither supervisor nor node process. When the other
end closes, nobody looks any more, and the command is killed with its terminal session.

Only the main process's output passes here, since the log gets it first. A client that does not keep up gets what fits
into its buffer and is told what it missed: it must not stop the container.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import socket
import time
from collections.abc import Callable, Iterator

from jobset.cluster.runtime.process.node.launch import CannotLaunch, Launched, launch
from jobset.cluster.runtime.process.node.process_tree import ProcessTree
from jobset.cluster.runtime.process.node.wire import Channel, Message

PENDING_LIMIT_BYTES = 8 << 20
FLUSH_LIMIT_S = 2.0
PIPE_BYTES = 1 << 20
STDOUT, STDERR, STDIN, TERMINAL = "stdout", "stderr", "stdin", "terminal"

Listen = Callable[[int, Callable[[], object]], None]
Forget = Callable[[int], object]
"""Stop listening to a descriptor."""


class _Copy:
    """A client's copy of one output stream: a pipe, and what does not fit into it yet."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        with contextlib.suppress(OSError):  # the user's share of pipe memory may be used up
            fcntl.fcntl(self.writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        os.set_blocking(self.writing, False)
        self._pending = bytearray()
        self._missed_bytes = 0

    def add(self, data: bytes) -> None:
        if len(self._pending) + len(data) > PENDING_LIMIT_BYTES:
            self._missed_bytes += len(data)
        else:
            self._pending += data
        self.push()

    def push(self) -> None:
        """Move on what fits. Raises OSError when nobody reads."""
        try:
            while self._pending:
                del self._pending[: os.write(self.writing, self._pending[:PIPE_BYTES])]
                if self._missed_bytes and not self._pending:
                    self._pending += f"\n[{self._missed_bytes} bytes are missing: read faster]\n".encode()
                    self._missed_bytes = 0
        except BlockingIOError:
            pass

    @property
    def waits(self) -> bool:
        return bool(self._pending)


class _Session:
    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.pid = 0
        self.copies: dict[str, _Copy] = {}

    def begin(self, streams: dict[str, int]) -> None:
        """Tell the client of its streams; the descriptors are then its own."""
        self.channel.send_with_fds({"event": "started", "fds": list(streams)}, list(streams.values()))
        for fd in streams.values():
            os.close(fd)


class Sessions:
    """Of one container."""

    def __init__(self, tree: ProcessTree, listen: Listen, forget: Forget) -> None:
        self._tree = tree
        self._listen = listen
        self._forget = forget
        self._sessions: dict[int, _Session] = {}  # by the descriptor of the channel

    @property
    def waits(self) -> bool:
        """Whether output waits for a client, so that it is worth looking again soon."""
        return any(True for _ in self._waiting())

    def _waiting(self) -> Iterator[_Copy]:
        for session in self._sessions.values():
            yield from (copy for copy in session.copies.values() if copy.waits)

    def exec(self, message: Message, fd: int, env: dict[str, str]) -> None:
        """Start a command. A failure to start is told to the client."""
        session = self._open(fd)
        try:
            process = launch(message["argv"], env, tty=message["tty"], open_stdin=message["stdin"])
        except CannotLaunch as error:
            session.channel.send({"event": "failed", "message": str(error), "exit_code": error.exit_code})
            self._close(session)
            return
        session.pid = process.pid
        session.begin(streams_of(process, message["tty"]))

    def attach(self, message: Message, fd: int, main: Launched, tty: bool) -> None:
        """From now on the client gets what the main process says, and writes to it if it asks to."""
        session = self._open(fd)
        names = [STDOUT] if tty else [STDOUT, STDERR]
        session.copies = {name: _Copy() for name in names}
        streams = {name: copy.reading for name, copy in session.copies.items()}
        if tty:
            if main.stdout >= 0:
                streams[TERMINAL] = os.dup(main.stdout)
        elif message["stdin"] and main.stdin >= 0:
            streams[STDIN] = os.dup(main.stdin)
            if message["ends_stdin"]:  # the client's is then the last one, whose end the container sees
                os.close(main.stdin)
                main.stdin = -1
        session.begin(streams)

    def tell(self, stream: str, data: bytes) -> None:
        """The main process has said something."""
        for session in list(self._sessions.values()):
            if (copy := session.copies.get(stream)) is not None:
                try:
                    copy.add(data)
                except OSError:
                    self._close(session)

    def push(self) -> None:
        """Move on what waited for clients."""
        for session in list(self._sessions.values()):
            try:
                for copy in session.copies.values():
                    copy.push()
            except OSError:
                self._close(session)

    def reaped(self, pid: int, exit_code: int) -> bool:
        """A child has ended; whether it was ours."""
        for session in list(self._sessions.values()):
            if session.pid == pid:
                session.pid = 0
                session.channel.send({"event": "exit", "exit_code": exit_code})
                self._close(session)
                return True
        return False

    def finish(self, exit_code: int) -> None:
        """The container has ended: clients get the rest, for a moment, and are told."""
        deadline = time.monotonic() + FLUSH_LIMIT_S
        while self.waits and (left := deadline - time.monotonic()) > 0:
            poll = select.poll()
            for copy in self._waiting():
                poll.register(copy.writing, select.POLLOUT)
            poll.poll(left * 1000)
            self.push()
        for session in list(self._sessions.values()):
            session.channel.send({"event": "exit", "exit_code": exit_code})
            self._close(session)

    def _open(self, fd: int) -> _Session:
        session = _Session(Channel(socket.socket(fileno=fd)))
        self._sessions[fd] = session
        self._listen(fd, lambda: self._heard(session))
        return session

    def _heard(self, session: _Session) -> None:
        """Clients say nothing: they only close."""
        if session.channel.receive() is not None or session.channel.fileno() not in self._sessions:
            return
        if session.pid:
            self._tree.kill_session(session.pid)
        self._close(session)

    def _close(self, session: _Session) -> None:
        fd = session.channel.fileno()
        if self._sessions.pop(fd, None) is None:
            return
        self._forget(fd)
        session.channel.close()
        for copy in session.copies.values():
            os.close(copy.writing)


def streams_of(process: Launched, tty: bool) -> dict[str, int]:
    if tty:
        return {TERMINAL: process.stdout}
    named = {STDOUT: process.stdout, STDERR: process.stderr, STDIN: process.stdin}
    return {name: fd for name, fd in named.items() if fd >= 0}
