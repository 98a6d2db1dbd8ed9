"""The worker loop: takes keys, runs a pass for each, and is the only place that catches Exception.

One pass: informer -> key -> observe(reader, key, now) -> plan(observed) -> apply(writer, plan). A `Controller` knows
its queue, how to run one pass, and which caches its writes come back through: a key is not looked at again before the
caches have shown what its last pass wrote, so no pass acts on the world before its own writes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from jobset.api.resources import Resource
from jobset.reconcile.apply import Applied, PassFailed
from jobset.reconcile.informer import Cache, Key
from jobset.reconcile.queue import WorkQueue

STALE_CACHE_LIMIT_S = 10.0
STALE_POLL_S = 0.01

log = logging.getLogger(__name__)


class Outcome(Struct, frozen=True):
    """What a pass came to: what it wrote, and when the key wants to be looked at again."""

    applied: Applied | None = None
    requeue_after_s: float | None = None


Pass: TypeAlias = Callable[[Key], Awaitable[Outcome]]


class Controller:
    """Runs `run_pass` for every key added to `queue`, one pass a key at a time, `workers` keys at once."""

    def __init__(self, name: str, run_pass: Pass, caches: Mapping[Resource, Cache[Any]], *, workers: int = 1) -> None:
        self.name = name
        self.queue: WorkQueue[Key] = WorkQueue()
        self._run_pass = run_pass
        self._caches = dict(caches)
        self._workers = workers
        self._unseen: dict[Key, tuple[float, dict[Resource, int]]] = {}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(), name=f"{self.name} worker {number}")

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            try:
                if self._waits_for_caches(key):
                    self.queue.add_after(key, STALE_POLL_S)
                else:
                    await self._pass(key)
            finally:
                self.queue.done(key)

    async def _pass(self, key: Key) -> None:
        try:
            outcome = await self._run_pass(key)
        except PassFailed as error:
            self._remember(key, error.applied)
            delay_s = self.queue.add_failed(key)
            if not error.conflict:
                log.warning("%s %s/%s: %s; trying again in %.3g s", self.name, *key, error, delay_s)
        except Exception:
            delay_s = self.queue.add_failed(key)
            log.exception("%s %s/%s failed; trying again in %.3g s", self.name, *key, delay_s)
        else:
            self._settle(key, outcome)

    def _settle(self, key: Key, outcome: Outcome) -> None:
        applied = outcome.applied
        self._remember(key, applied)
        if applied is not None and applied.stale:
            self.queue.add_failed(key)
        else:
            self.queue.forget(key)
        if outcome.requeue_after_s is not None:
            self.queue.add_after(key, outcome.requeue_after_s)

    def _remember(self, key: Key, applied: Applied | None) -> None:
        if applied is not None and applied.versions:
            self._unseen[key] = (asyncio.get_running_loop().time() + STALE_CACHE_LIMIT_S, applied.versions)

    def _waits_for_caches(self, key: Key) -> bool:
        if key not in self._unseen:
            return False
        limit, versions = self._unseen[key]
        behind = any(
            self._caches[resource].revision < version
            for resource, version in versions.items()
            if resource in self._caches
        )
        if behind and asyncio.get_running_loop().time() < limit:
            return True
        del self._unseen[key]
        return False
