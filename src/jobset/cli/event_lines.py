"""`--output events`: everything that happens, as one JSON object a line.

Each has `time` (RFC 3339, microseconds) and `type`, and by its type:

    note                      text, warning            what the other views say in words
    added, changed, deleted   object                   a JobSet, Job or Pod as it is now (deleted: as it was last)
    event                     object                   a Kubernetes Event (events.k8s.io/v1)
    log                       namespace, pod, container, attempt, stream, line
    result                    what --output json prints; the last line
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime

from jobset.api.meta import Object, format_micro_time
from jobset.cli.interruption import Output
from jobset.cli.view import Silent
from jobset.cluster.kubelet.cri_log import LogLine
from jobset.local.follow import Source


class EventLines(Silent):
    """A view whose lines are for programs."""

    def __init__(self, out: Output, now: Callable[[], datetime]) -> None:
        self._out = out
        self._now = now

    def notice(self, text: str, *, warning: bool = False) -> None:
        self._write("note", {"text": text, "warning": warning})

    def object_changed(self, old: Object | None, new: Object | None) -> None:
        self._write("added" if old is None else "deleted" if new is None else "changed", {"object": new or old})

    def kubernetes_event(self, event: Object) -> None:
        self._write("event", {"object": event})

    def line(self, source: Source, line: LogLine) -> None:
        said = {
            "namespace": source.namespace, "pod": source.pod, "container": source.container, "attempt": source.attempt,
        }  # fmt: skip
        self._write("log", {**said, "stream": line.stream, "line": line.text})

    def result(self, result: Object) -> None:
        self._write("result", result)

    def _write(self, type_: str, body: Object) -> None:
        self._out.write(json.dumps({"time": format_micro_time(self._now()), "type": type_, **body}) + "\n")
        self._out.flush()
