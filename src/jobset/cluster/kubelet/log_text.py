"""The log file of one run of a container as the text that a client asked for: from where, how much, with times or not.

Reads forward in pieces and holds none of it; finds the last lines by reading backward. Lines that the runtime had to
cut are put together again as they were written. Nothing is said here about when a log ends.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import BinaryIO

READ_BYTES = 256 * 1024
TAIL_BYTES = 64 * 1024


class LogText:
    """Turns what comes out of the file into what the client sees. `since`: leaves out lines before this moment."""

    def __init__(self, *, timestamps: bool, since: datetime | None, limit_bytes: int | None) -> None:
        self._timestamps = timestamps
        self._since = None if since is None else _stamp(since)
        self._left_bytes = limit_bytes
        self._rest = b""
        self._inside: set[bytes] = set()
        """Streams in the middle of a line that came in parts."""

    @property
    def is_full(self) -> bool:
        return self._left_bytes == 0

    def feed(self, data: bytes) -> bytes:
        """The text of the lines that have become complete."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        text = b"".join([self._line(line) for line in lines])
        if self._left_bytes is not None:
            text = text[: self._left_bytes]
            self._left_bytes -= len(text)
        return text

    def _line(self, raw: bytes) -> bytes:
        parts = raw.split(b" ", 3)
        if len(parts) < 3 or parts[1] not in (b"stdout", b"stderr"):
            return b""  # torn by a crash
        time, stream, tag = parts[:3]
        if self._since is not None:
            if time < self._since:
                return b""
            self._since = None  # lines are in the order of their times
        text = parts[3] if len(parts) > 3 else b""
        if self._timestamps and stream not in self._inside:
            text = time + b" " + text
        if tag.startswith(b"P"):
            self._inside.add(stream)
            return text
        self._inside.discard(stream)
        return text + b"\n"


def _stamp(moment: datetime) -> bytes:
    """A time as the log has it, so that both compare as text."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z").encode()


def tail_offset(file: BinaryIO, lines: int, block_bytes: int = TAIL_BYTES) -> int:
    """Where the last `lines` lines begin. Parts of a line count as one. Reads backward in blocks."""
    end = file.seek(0, os.SEEK_END)
    position, later, found = end, b"", 0
    line_end = end
    while position > 0:
        start = max(0, position - block_bytes)
        file.seek(start)
        block = file.read(position - start) + later
        pieces = block.split(b"\n")
        # the first piece may begin before this block; the last one has no end yet, or is empty
        for piece in reversed(pieces[1:] if start else pieces):
            begun = line_end - len(piece)
            if _ends_line(piece):
                found += 1
                if found > lines:
                    return line_end + 1
            line_end = begun - 1
        later = pieces[0] if start else b""
        position = start
    return 0


def _ends_line(raw: bytes) -> bool:
    tag = raw.split(b" ", 3)[2:3]
    return tag != [b"P"] and tag != []
