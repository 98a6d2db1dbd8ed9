"""Container logs in the CRI format: `<RFC 3339 time> stdout|stderr F|P <text>`, one line each. How they are read.

The runtime writes them. P marks a part of a line that was too long or had no end yet; F ends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

TAIL_BYTES = 2048
TAIL_LINES = 80
READ_BYTES = 64 * 1024


class LogLine(Struct, frozen=True):
    time: str
    stream: str
    text: str
    complete: bool = True


def parse_line(raw: str) -> LogLine | None:
    """None for what is no such line: a torn one after a crash."""
    parts = raw.rstrip("\n").split(" ", 3)
    if len(parts) < 3 or parts[1] not in ("stdout", "stderr"):
        return None
    return LogLine(parts[0], parts[1], parts[3] if len(parts) > 3 else "", complete=not parts[2].startswith("P"))


def join_parts(lines: Iterable[LogLine]) -> Iterator[LogLine]:
    """Whole lines: parts of one stream put together, with the time of the first."""
    open_lines: dict[str, LogLine] = {}
    for line in lines:
        begun = open_lines.pop(line.stream, None)
        if begun is not None:
            line = LogLine(begun.time, line.stream, begun.text + line.text, line.complete)
        if line.complete:
            yield line
        else:
            open_lines[line.stream] = line
    yield from open_lines.values()


def read_log(path: Path) -> Iterator[LogLine]:
    """All lines of a log file; nothing when there is none."""
    try:
        with path.open(errors="replace") as file:
            yield from join_parts(line for raw in file if (line := parse_line(raw)) is not None)
    except FileNotFoundError:
        return


def tail_text(path: Path, lines: int = TAIL_LINES, limit_bytes: int = TAIL_BYTES) -> str:
    """The end of a log as text without times, for terminationMessagePolicy FallbackToLogsOnError."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - READ_BYTES))
            raw = file.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    parsed = (line for text in raw[-4 * lines :] if (line := parse_line(text)) is not None)
    text = "".join(f"{line.text}\n" for line in list(join_parts(parsed))[-lines:])
    return text.encode()[-limit_bytes:].decode(errors="ignore")
