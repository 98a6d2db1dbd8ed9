"""Plain lines for pipes and log collectors: what changed, and the pods' output, each line with its source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TextIO

from jobset.cli.board import SetRow


class PlainView:
    """Same use as the live view; `changed` prints a line for each replicated job whose numbers moved."""

    def __init__(self, out: TextIO, rows: Callable[[], Sequence[SetRow]], elapsed_s: Callable[[], float]) -> None:
        self._out = out
        self._rows = rows
        self._elapsed_s = elapsed_s
        self._shown: dict[str, str] = {}

    def __enter__(self) -> PlainView:
        return self

    def __exit__(self, *_: object) -> None:
        self._out.flush()

    async def redraw(self) -> None:
        """Lines are printed once, when they come."""

    def log(self, source: str, text: str) -> None:
        self._write(f"{source} | {text}")

    def notice(self, text: str, *, warning: bool = False) -> None:
        self._write(f"[{self._elapsed_s():7.2f} s] {'warning: ' if warning else ''}{text}")

    def changed(self) -> None:
        for row in self._rows():
            self._say(row.name, f"{row.kind} {row.name}: {row.state}")
            for group in row.groups:
                parts = [f"{group.ready} ready"] if group.ready or not group.succeeded else []
                parts += [f"{group.succeeded} succeeded"] if group.succeeded else []
                parts += [f"{group.failed} failed"] if group.failed else []
                text = f"{row.name}/{group.name}: {', '.join(parts)} of {group.wanted}"
                self._say(f"{row.name}/{group.name}", text + (f" ({group.note})" if group.note else ""))

    def _say(self, subject: str, text: str) -> None:
        if self._shown.get(subject) != text:
            self._shown[subject] = text
            self.notice(text)

    def _write(self, text: str) -> None:
        self._out.write(text + "\n")
        self._out.flush()
