"""Events of the embedded cluster's own controllers, in the older form (core/v1) that those of Kubernetes still write.

Repeats of one event raise its count. An object may cause only so many events of one reason (a burst, then one in five
minutes), so that a Job of thousands of pods does not fill the store with one event a pod, and its end is told all the
same.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from typing import TypeAlias

from msgspec import Struct

from jobset.api.errors import ApiError, NotFound
from jobset.api.meta import Object, format_time
from jobset.api.resources import CORE_EVENTS
from jobset.client.port import Writer
from jobset.core.actions import EventNote

BURST = 25
REFILL_S = 300.0
REMEMBERED = 4096

log = logging.getLogger(__name__)
_Identity: TypeAlias = tuple[str, str, str, str]


class _Budget(Struct):
    tokens: float
    since: datetime


class CoreEventRecorder:
    """Sends events in the name of one component. A lost event is logged, never an error of the pass."""

    def __init__(self, writer: Writer, component: str, now: Callable[[], datetime]) -> None:
        self._writer = writer
        self._component = component
        self._now = now
        self._sent: OrderedDict[_Identity, tuple[str, int]] = OrderedDict()
        self._budgets: OrderedDict[tuple[str, str], _Budget] = OrderedDict()
        self._counter = 0

    async def record(self, regarding: Object, note: EventNote) -> None:
        metadata = regarding["metadata"]
        uid = metadata.get("uid", "")
        if not self._affords((uid, note.reason)):
            return
        namespace = metadata.get("namespace") or "default"
        identity = (uid, note.type, note.reason, note.message)
        try:
            name, count = self._sent.get(identity, ("", 0))
            if not name or not await self._repeat(namespace, name, count + 1):
                name, count = await self._first(regarding, namespace, note), 0
        except ApiError as error:
            log.warning("event %s on %s lost: %s", note.reason, metadata["name"], error)
            return
        self._sent[identity] = (name, count + 1)
        self._sent.move_to_end(identity)
        if len(self._sent) > REMEMBERED:
            self._sent.popitem(last=False)

    def _affords(self, purse: tuple[str, str]) -> bool:
        now = self._now()
        budget = self._budgets.setdefault(purse, _Budget(BURST, now))
        self._budgets.move_to_end(purse)
        if len(self._budgets) > REMEMBERED:
            self._budgets.popitem(last=False)
        budget.tokens = min(BURST, budget.tokens + (now - budget.since).total_seconds() / REFILL_S)
        budget.since = now
        if budget.tokens < 1:
            return False
        budget.tokens -= 1
        return True

    async def _first(self, regarding: Object, namespace: str, note: EventNote) -> str:
        metadata, now = regarding["metadata"], self._now()
        self._counter += 1
        name = f"{metadata['name']}.{int(now.timestamp() * 1e6):x}{self._counter:04x}"
        moment = format_time(now)
        involved = {
            "apiVersion": regarding["apiVersion"],
            "kind": regarding["kind"],
            "name": metadata["name"],
            "uid": metadata.get("uid", ""),
            "resourceVersion": metadata.get("resourceVersion", ""),
            **({"namespace": metadata["namespace"]} if metadata.get("namespace") else {}),
        }
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"namespace": namespace, "name": name},
            "involvedObject": involved,
            "type": note.type,
            "reason": note.reason,
            "message": note.message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": "",
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "count": 1,
        }
        await self._writer.create(CORE_EVENTS, body)
        return name

    async def _repeat(self, namespace: str, name: str, count: int) -> bool:
        patch = {"count": count, "lastTimestamp": format_time(self._now())}
        try:
            await self._writer.patch(CORE_EVENTS, namespace, name, patch)
        except NotFound:
            return False
        return True
