"""What tells a run to end early: signals, and an output that nobody reads any more."""

from __future__ import annotations

import asyncio
import signal
from contextlib import ExitStack
from typing import TextIO

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """Counts the wishes to end. As a context manager, signals are such wishes instead of the end of the program.

    It is entered before there is anything to clean up, which is before there is an event loop: `heed` when there is.
    """

    def __init__(self) -> None:
        self.count = 0
        self._more = asyncio.Event()
        self._handlers = ExitStack()

    def __enter__(self) -> Interruption:
        for number in SIGNALS:
            self._handlers.callback(signal.signal, number, signal.signal(number, lambda *_: self.add()))
        return self

    def __exit__(self, *_: object) -> None:
        self._handlers.close()

    def heed(self) -> None:
        """From now on a signal wakes the running event loop."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self.add)

    def add(self) -> None:
        self.count += 1
        self._more.set()

    async def wait(self, count: int) -> None:
        """Until there have been so many."""
        while self.count < count:
            self._more.clear()
            await self._more.wait()


class Output:
    """Standard output that may be gone, as in `jobset run ... | head -1`: that interrupts the run, without an error."""

    def __init__(self, out: TextIO, interruption: Interruption) -> None:
        self.closed = False
        self._out = out
        self._interruption = interruption
        self.encoding = out.encoding

    def isatty(self) -> bool:
        return self._out.isatty()

    def fileno(self) -> int:
        return self._out.fileno()

    def write(self, text: str) -> int:
        if not self.closed:
            try:
                self._out.write(text)
            except OSError:
                self._close()
        return len(text)

    def flush(self) -> None:
        if not self.closed:
            try:
                self._out.flush()
            except OSError:
                self._close()

    def _close(self) -> None:
        self.closed = True
        self._interruption.add()
