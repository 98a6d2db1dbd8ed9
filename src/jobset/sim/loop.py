"""An event loop whose clock jumps to the next timer once nothing else is left to do: hours pass in milliseconds."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")

START = datetime(2026, 1, 1, tzinfo=UTC)
DEADLOCK_AFTER_S = 10.0


class Deadlock(RuntimeError):
    """Every task waits and no timer is set: nothing would ever happen."""


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.elapsed_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            if ready := super().select(DEADLOCK_AFTER_S):
                return ready
            raise Deadlock("every task waits and no timer is set")
        ready = super().select(0)
        if not ready and timeout > 0:
            self.elapsed_s += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """For code that uses only timers and in-process calls; sockets and processes work but do not stop the clock."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.elapsed_s


def wall_clock() -> Callable[[], datetime]:
    """`now` for code that runs on a VirtualLoop: START plus the loop's own time; START itself before a loop runs."""

    def now() -> datetime:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return START
        return START + timedelta(seconds=loop.time())

    return now


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """asyncio.run on a VirtualLoop."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
