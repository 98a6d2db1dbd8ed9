"""Events about an object, with repeats folded into one series as Kubernetes does (events.k8s.io/v1)."""

from __future__ import annotations

import logging
import zlib
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from typing import TypeAlias

from jobset.api.errors import ApiError, NotFound
from jobset.api.meta import Object, format_micro_time
from jobset.api.resources import EVENTS
from jobset.client.port import Writer
from jobset.core.actions import EventNote

REMEMBERED = 4096
NOTE_LIMIT_BYTES = 1024

log = logging.getLogger(__name__)
_Series: TypeAlias = tuple[str, str, int]


class EventRecorder:
    """Sends events in the name of one component. A lost event is logged, never an error of the pass."""

    def __init__(self, writer: Writer, component: str, now: Callable[[], datetime], instance: str = "") -> None:
        self._writer = writer
        self._component = component
        self._instance = instance or component
        self._now = now
        # Two components may tell of one object at the same moment: their events must not have one name.
        self._mark = f"{zlib.crc32(f'{component}/{self._instance}'.encode()):08x}"
        self._sent: OrderedDict[tuple[str, str, str, str], _Series] = OrderedDict()
        self._counter = 0

    async def record(self, regarding: Object, note: EventNote, *, action: str = "Reconciling") -> None:
        """`regarding` is the object itself (apiVersion, kind, metadata). The note is cut to 1,024 bytes."""
        text = note.message.encode()[:NOTE_LIMIT_BYTES].decode(errors="ignore")
        identity = (regarding["metadata"].get("uid", ""), note.type, note.reason, text)
        try:
            sent = self._sent.get(identity)
            if sent is None or not await self._repeat(sent):
                sent = await self._first(regarding, note, text, action)
            else:
                sent = (sent[0], sent[1], sent[2] + 1)
            self._sent[identity] = sent
            self._sent.move_to_end(identity)
            if len(self._sent) > REMEMBERED:
                self._sent.popitem(last=False)
        except ApiError as error:
            log.warning("event %s on %s lost: %s", note.reason, regarding["metadata"].get("name"), error)

    async def _first(self, regarding: Object, note: EventNote, text: str, action: str) -> _Series:
        metadata = regarding["metadata"]
        now = self._now()
        self._counter += 1
        namespace = metadata.get("namespace") or "default"
        name = f"{metadata['name']}.{int(now.timestamp() * 1e6):x}{self._counter:04x}{self._mark}"
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"namespace": namespace, "name": name},
            "eventTime": format_micro_time(now),
            "reportingController": self._component,
            "reportingInstance": self._instance,
            "action": action,
            "reason": note.reason,
            "note": text,
            "type": note.type,
            "regarding": {
                "apiVersion": regarding["apiVersion"],
                "kind": regarding["kind"],
                "name": metadata["name"],
                "uid": metadata.get("uid", ""),
                "resourceVersion": metadata.get("resourceVersion", ""),
                **({"namespace": metadata["namespace"]} if metadata.get("namespace") else {}),
            },
        }
        await self._writer.create(EVENTS, body)
        return namespace, name, 1

    async def _repeat(self, sent: _Series) -> bool:
        namespace, name, count = sent
        series = {"count": count + 1, "lastObservedTime": format_micro_time(self._now())}
        try:
            await self._writer.patch(EVENTS, namespace, name, {"series": series})
        except NotFound:
            return False
        return True
