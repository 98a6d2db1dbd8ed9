"""How lists are laid out for people: columns as wide as what stands in them, ages in one or two units. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import click

from jobset.api.meta import Object, parse_time

GAP = "   "
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 86400 * 365
STATE_COLOURS = {
    "Completed": "green", "Failed": "red", "Running": "green", "Restarting": "yellow", "Suspended": "yellow",
    "Starting": "cyan", "Deleting": "bright_black",
}  # fmt: skip
PREFIX_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "bright_cyan", "bright_magenta", "bright_green")
"""Of those whose lines stand among each other's."""


def age(seconds: float) -> str:
    """45s, 3m20s, 50m, 5h10m, 3d4h: as kubectl writes it."""
    left = max(int(seconds), 0)
    if left < 2 * _MINUTE:
        return f"{left}s"
    if left < 10 * _MINUTE:
        return _two_units(left, _MINUTE, "m", 1, "s")
    if left < 3 * _HOUR:
        return f"{left // _MINUTE}m"
    if left < 8 * _HOUR:
        return _two_units(left, _HOUR, "h", _MINUTE, "m")
    if left < 2 * _DAY:
        return f"{left // _HOUR}h"
    if left < 8 * _DAY:
        return _two_units(left, _DAY, "d", _HOUR, "h")
    if left < 2 * _YEAR:
        return f"{left // _DAY}d"
    return _two_units(left, _YEAR, "y", _DAY, "d")


def age_of(obj: Object, now: datetime) -> str:
    return age_since(obj["metadata"].get("creationTimestamp"), now)


def age_since(time: str | None, now: datetime) -> str:
    """Of a moment in RFC 3339; `-` when there is none."""
    return age((now - parse_time(time)).total_seconds()) if time else "-"


def _two_units(seconds: int, unit: int, name: str, small: int, small_name: str) -> str:
    rest = seconds % unit // small
    return f"{seconds // unit}{name}" + (f"{rest}{small_name}" if rest else "")


class Columns:
    """Rows under headers. Widths only grow, so that rows that come later stand under those above."""

    def __init__(self, headers: Sequence[str], styles: dict[int, Callable[[str], str]] | None = None) -> None:
        self._headers = tuple(headers)
        self._styles = styles or {}
        self._widths = [len(header) for header in headers]

    def header(self) -> str:
        return self._line(self._headers, {})

    def lines(self, rows: Sequence[Sequence[str]]) -> list[str]:
        for row in rows:
            self._widths = [max(width, len(cell)) for width, cell in zip(self._widths, row, strict=True)]
        return [self._line(row, self._styles) for row in rows]

    def table(self, rows: Sequence[Sequence[str]]) -> list[str]:
        body = self.lines(rows)
        return [self.header(), *body]

    def _line(self, row: Sequence[str], styles: dict[int, Callable[[str], str]]) -> str:
        cells = []
        for index, (cell, width) in enumerate(zip(row, self._widths, strict=True)):
            padded = cell if index == len(row) - 1 else cell.ljust(width)
            cells.append(styles[index](padded) if index in styles else padded)
        return GAP.join(cells).rstrip()


def state_style(padded: str) -> str:
    return click.style(padded, fg=STATE_COLOURS.get(padded.strip()))
