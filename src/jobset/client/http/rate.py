"""How fast we may ask: a steady rate with room for bursts, so that a busy controller does not drown its API server."""

from __future__ import annotations

import asyncio


class RateLimit:
    """`per_second` requests over time, `burst` of them at once after a pause. Those who wait go in their order."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._interval_s = 1 / per_second
        self._burst_s = burst / per_second
        self._next = float("-inf")

    async def wait(self) -> None:
        now = asyncio.get_running_loop().time()
        self._next = max(self._next, now - self._burst_s) + self._interval_s
        if (delay_s := self._next - now) > 0:
            await asyncio.sleep(delay_s)
