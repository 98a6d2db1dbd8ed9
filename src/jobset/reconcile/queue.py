"""A queue of keys: each key at most once, never two workers on one key, failures back off, times can be asked for."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

BACKOFF_BASE_S = 0.005
BACKOFF_MAX_S = 1000.0


class WorkQueue(Generic[K]):
    """`add` from anywhere in the loop; workers `await get()` and must call `done` with the key."""

    def __init__(self) -> None:
        self._ready: deque[K] = deque()
        self._waiting: set[K] = set()  # in _ready, or asked for while in work
        self._working: set[K] = set()
        self._failures: dict[K, int] = {}
        self._delayed: list[tuple[float, int, K]] = []
        self._due: dict[K, float] = {}
        self._counter = 0
        self._timer: asyncio.TimerHandle | None = None
        self._wakeups: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def idle(self) -> bool:
        """Nothing ready and nothing in work (delayed keys do not count)."""
        return not self._ready and not self._working

    def add(self, key: K) -> None:
        if key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._working:
            self._push(key)

    def add_after(self, key: K, delay_s: float) -> None:
        """Add the key after `delay_s`, unless an earlier time is already asked for."""
        if delay_s <= 0:
            self.add(key)
            return
        due = asyncio.get_running_loop().time() + delay_s
        if self._due.get(key, float("inf")) <= due:
            return
        self._due[key] = due
        self._counter += 1
        heapq.heappush(self._delayed, (due, self._counter, key))
        self._arm()

    def add_failed(self, key: K) -> float:
        """Add the key after its back-off, which doubles with each failure in a row. Returns the delay in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay_s: float = min(BACKOFF_BASE_S * 2 ** min(failures, 30), BACKOFF_MAX_S)
        self.add_after(key, delay_s)
        return delay_s

    def forget(self, key: K) -> None:
        """The key succeeded: its next failure starts the back-off anew."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        while not self._ready:
            wakeup: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._wakeups.append(wakeup)
            try:
                await wakeup
            except asyncio.CancelledError:
                if wakeup.done() and not wakeup.cancelled():
                    self._wake()  # pass on the wake-up we cannot use
                raise
        key = self._ready.popleft()
        self._waiting.discard(key)
        self._working.add(key)
        return key

    def done(self, key: K) -> None:
        self._working.discard(key)
        if key in self._waiting:
            self._push(key)

    def _push(self, key: K) -> None:
        self._ready.append(key)
        self._wake()

    def _wake(self) -> None:
        while self._wakeups:
            wakeup = self._wakeups.popleft()
            if not wakeup.done():
                wakeup.set_result(None)
                return

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._delayed:
            self._timer = asyncio.get_running_loop().call_at(self._delayed[0][0], self._release)

    def _release(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._delayed and self._delayed[0][0] <= now:
            due, _, key = heapq.heappop(self._delayed)
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key)
        self._arm()
