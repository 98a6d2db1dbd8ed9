"""Plain lines for pipes and log collectors: what changed, and the pods' output, each line with its source."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from jobset.cli.board import SetRow, counts
from jobset.cli.interruption import Output

SHORTEST_PAUSE_S = 0.02
PAUSE_PER_WORK = 9
"""Looking at the board takes at most a tenth of the time."""


class PlainView:
    """Same use as the live view; after `changed`, a line for each replicated job whose numbers moved."""

    def __init__(self, out: Output, rows: Callable[[], Sequence[SetRow]], elapsed_s: Callable[[], float]) -> None:
        self._out = out
        self._rows = rows
        self._elapsed_s = elapsed_s
        self._shown: dict[str, str] = {}
        self._changed = asyncio.Event()

    def __enter__(self) -> PlainView:
        return self

    def __exit__(self, *_: object) -> None:
        self._say_what_changed()

    async def redraw(self) -> None:
        """Until cancelled. Changes that come together make one line."""
        while True:
            await self._changed.wait()
            begun = self._elapsed_s()
            self._say_what_changed()
            await asyncio.sleep(max(SHORTEST_PAUSE_S, PAUSE_PER_WORK * (self._elapsed_s() - begun)))

    def changed(self) -> None:
        self._changed.set()

    def log(self, source: str, text: str) -> None:
        self._write(f"{source} | {text}")

    def notice(self, text: str, *, warning: bool = False) -> None:
        self._write(f"[{self._elapsed_s():7.2f} s] {'warning: ' if warning else ''}{text}")

    def _say_what_changed(self) -> None:
        if not self._changed.is_set():
            return
        self._changed.clear()
        for row in self._rows():
            self._say(f"{row.kind} {row.name}", f"{row.kind} {row.name}: {row.state}")
            if row.kind == "JobSet":
                for group in row.groups:
                    self._say(f"{row.name}/{group.name}", f"{row.name}/{group.name}: {counts(group)}")

    def _say(self, subject: str, text: str) -> None:
        if self._shown.get(subject) != text:
            self._shown[subject] = text
            self.notice(text)

    def _write(self, text: str) -> None:
        self._out.write(text + "\n")
        self._out.flush()
