"""How the processes of the runtime talk: JSON messages, each after its length in four bytes. Used on both sides."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
from typing import Any, TypeAlias

Message: TypeAlias = dict[str, Any]

_LENGTH = struct.Struct("!I")
READ_SIZE = 256 * 1024


def encode(message: Message) -> bytes:
    body = json.dumps(message, separators=(",", ":")).encode()
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Puts messages together from what arrives."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        buffer = self._buffer
        buffer += data
        messages: list[Message] = []
        start = 0
        while len(buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(buffer, start)
            end = start + _LENGTH.size + length
            if len(buffer) < end:
                break
            messages.append(json.loads(buffer[start + _LENGTH.size : end]))
            start = end
        del buffer[:start]
        return messages


class Channel:
    """One end of a socket pair that carries messages. Sending blocks, which is right: the other end always reads."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._frames = FrameReader()

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: Message) -> bool:
        """False when nobody is there any more."""
        try:
            self._socket.sendall(encode(message))
        except OSError:
            return False
        return True

    def send_with_fds(self, message: Message, fds: list[int]) -> bool:
        data = encode(message)
        try:
            sent = socket.send_fds(self._socket, [data], fds)
            self._socket.sendall(data[sent:])
        except OSError:
            return False
        return True

    def receive(self) -> list[Message] | None:
        """What has arrived, after waiting for something to arrive; None when the other end is gone."""
        try:
            data = self._socket.recv(READ_SIZE)
        except OSError:
            return None
        return self._frames.feed(data) if data else None

    def receive_with_fds(self, max_fds: int) -> tuple[list[Message], list[int]] | None:
        try:
            data, fds, _, _ = socket.recv_fds(self._socket, READ_SIZE, max_fds)
        except OSError:
            return None
        for fd in fds:
            os.set_inheritable(fd, False)  # they are ours, not for what we start
        return (self._frames.feed(data), fds) if data else None

    def close(self) -> None:
        self._socket.close()

    def finish(self) -> None:
        """Say that nothing more will come, and wait until the other end has ended."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        while self.receive() is not None:
            pass
        self.close()
