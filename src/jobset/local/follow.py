"""Follows the log files of many containers at once and hands on complete lines as they appear.

Files are watched by size, not by notification: one stat a file and round, which works everywhere. The pause between
rounds grows with what a round takes, so that following thousands of files costs little of one core.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, field

from jobset.cluster.kubelet.cri_log import LogLine, join_parts, parse_line

SHORTEST_PAUSE_S = 0.02
PAUSE_PER_WORK = 9
"""Rounds take at most a tenth of the time."""
READ_LIMIT = 1 << 20
TAIL_BYTES = 16 << 10


class Source(Struct, frozen=True):
    """Whose output it is."""

    namespace: str
    pod: str
    container: str
    attempt: int


class _File(Struct):
    source: Source
    path: Path
    offset: int = 0
    rest: bytes = b""
    partial: dict[str, LogLine] = field(default_factory=dict)
    """The beginning of an unfinished line of each stream."""
    finished: bool = False


class LogFollower:
    """`add` files at any time; `on_line` is called in the event loop for every complete line."""

    def __init__(self, on_line: Callable[[Source, LogLine], None]) -> None:
        self._on_line = on_line
        self._files: dict[Source, _File] = {}
        self._known: set[Source] = set()

    def add(self, source: Source, path: Path) -> None:
        """Follow this file from its start; a source is followed once."""
        if source not in self._known:
            self._known.add(source)
            self._files[source] = _File(source, path)

    def finish(self, source: Source) -> None:
        """The container ended: what is in the file is read once more, then it is let go."""
        if source in self._files:
            self._files[source].finished = True

    async def run(self) -> None:
        now = asyncio.get_running_loop().time
        while True:
            begun = now()
            self.read_all()
            await asyncio.sleep(max(SHORTEST_PAUSE_S, PAUSE_PER_WORK * (now() - begun)))

    def read_all(self) -> None:
        """Hand on what has come since the last time, in the order of its times."""
        found: list[tuple[Source, LogLine]] = []
        for file in list(self._files.values()):
            ended = file.finished  # asked before reading: what comes later is read in the next round
            came = self._read(file, found)
            if ended and not came:
                del self._files[file.source]
                found += ((file.source, line) for line in file.partial.values())
        found.sort(key=lambda each: each[1].time)
        for source, line in found:
            self._on_line(source, line)

    def _read(self, file: _File, found: list[tuple[Source, LogLine]]) -> bool:
        try:
            if os.stat(file.path).st_size <= file.offset:
                return False
            with open(file.path, "rb") as stream:
                stream.seek(file.offset)
                data = stream.read(READ_LIMIT)
        except FileNotFoundError:
            return False
        file.offset += len(data)
        *lines, file.rest = (file.rest + data).split(b"\n")
        for raw in lines:
            self._line(file, raw, found)
        return True

    def _line(self, file: _File, raw: bytes, found: list[tuple[Source, LogLine]]) -> None:
        line = parse_line(raw.decode(errors="replace"))
        if line is None:
            return
        if begun := file.partial.pop(line.stream, None):
            line = LogLine(begun.time, line.stream, begun.text + line.text, line.complete)
        if line.complete:
            found.append((file.source, line))
        else:
            file.partial[line.stream] = line


def tail(path: Path, lines: int) -> tuple[LogLine, ...]:
    """The last lines of a log file; empty when there is none."""
    try:
        with path.open("rb") as stream:
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - TAIL_BYTES))
            data = stream.read()
    except FileNotFoundError:
        return ()
    parsed = (parse_line(raw.decode(errors="replace")) for raw in data.split(b"\n"))
    return tuple(join_parts(line for line in parsed if line is not None))[-lines:]
