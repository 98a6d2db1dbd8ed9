"""Container logs as Kubernetes writes them: `<RFC 3339 with nanoseconds> stdout|stderr F|P <text>`, appended.

A line longer than 16 KiB is written in parts, all but the last flagged P. What a stream leaves unfinished is a line.
"""

from __future__ import annotations

import os
import time

LINE_LIMIT = 16 * 1024


def rfc3339_nano(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:09d}Z"


class LogStream:
    """One stream of one container. Complete lines are written at once; the rest waits for its end."""

    def __init__(self, log_fd: int, name: str) -> None:
        self._log_fd = log_fd
        self.name = name
        self._rest = b""

    def write(self, data: bytes) -> None:
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        head = self._head()
        full, partial = head + b"F ", head + b"P "
        out = bytearray()
        for line in lines:
            while len(line) > LINE_LIMIT:
                out += partial + line[:LINE_LIMIT] + b"\n"
                line = line[LINE_LIMIT:]
            out += full + line + b"\n"
        while len(self._rest) >= LINE_LIMIT:
            out += partial + self._rest[:LINE_LIMIT] + b"\n"
            self._rest = self._rest[LINE_LIMIT:]
        _write_all(self._log_fd, out)

    def finish(self) -> None:
        if self._rest:
            _write_all(self._log_fd, self._head() + b"F " + self._rest + b"\n")
            self._rest = b""

    def _head(self) -> bytes:
        return f"{rfc3339_nano(time.time_ns())} {self.name} ".encode()


def _write_all(fd: int, data: bytes | bytearray) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except OSError:
            return  # a full disk must not stop the container
