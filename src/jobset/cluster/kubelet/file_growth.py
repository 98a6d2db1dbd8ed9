"""Tells whoever reads a growing file that there is more. One look a file and round, however many read it.

By size, not by notification, which works on every file system. The pause between rounds grows with what a round takes,
so that following thousands of files costs little of one core. Nobody waiting costs nothing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

SHORTEST_PAUSE_S = 0.02
PAUSE_PER_WORK = 9
"""Rounds take at most a tenth of the time."""


class _Wait(Struct):
    size: int
    may_stop: Callable[[], bool]
    woken: asyncio.Future[None]


class FileGrowth:
    def __init__(self) -> None:
        self._waits: dict[Path, list[_Wait]] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self, path: Path, size: int, may_stop: Callable[[], bool]) -> None:
        """Until the file is larger than this, or `may_stop`, which every round asks, says so."""
        waiting = _Wait(size, may_stop, asyncio.get_running_loop().create_future())
        self._waits.setdefault(path, []).append(waiting)
        if self._timer is None:
            self._schedule(SHORTEST_PAUSE_S)
        try:
            await waiting.woken
        finally:
            waiting.woken.cancel()

    def _schedule(self, pause_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(pause_s, self._look)

    def _look(self) -> None:
        now = asyncio.get_running_loop().time
        begun = now()
        self._timer = None
        for path, waits in list(self._waits.items()):
            size = _size(path)
            left = [each for each in waits if not _wake(each, size)]
            if left:
                self._waits[path] = left
            else:
                del self._waits[path]
        if self._waits:
            self._schedule(max(SHORTEST_PAUSE_S, PAUSE_PER_WORK * (now() - begun)))


def _wake(waiting: _Wait, size: int) -> bool:
    """Whether it waits no longer."""
    if not waiting.woken.done() and (size > waiting.size or waiting.may_stop()):
        waiting.woken.set_result(None)
    return waiting.woken.done()


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
