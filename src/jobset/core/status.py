"""The status a pass is about to write, and the events that hang on it. Pure.

Every policy of a pass records what it decided in one `StatusDraft`; `result` says whether there is anything to write.
So a pass writes the status once, and not at all when nothing changed.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from jobset.api.jobset import JobSetStatus, ReplicatedJobStatus
from jobset.api.meta import Condition, Object, format_time, is_true
from jobset.core import conditions
from jobset.core.actions import EventNote

EventType = Literal["Normal", "Warning"]


class StatusDraft:
    """Begins as what was observed; `status` is replaced, never changed."""

    def __init__(self, observed: JobSetStatus, counts: tuple[ReplicatedJobStatus, ...], now: datetime) -> None:
        self._observed = observed
        self._now = format_time(now)
        self.status = msgspec.structs.replace(observed, replicated_jobs_status=counts)
        self.events: list[EventNote] = []

    @property
    def finished(self) -> Condition | None:
        """The condition that ended the JobSet, if one did."""
        ended = (conditions.find(self.status.conditions, type_) for type_ in conditions.TERMINAL)
        return next((each for each in ended if each is not None and each.status == "True"), None)

    def is_true(self, type_: str) -> bool:
        return is_true(self.status.conditions, type_)

    def replace(self, **fields: Any) -> None:
        self.status = msgspec.structs.replace(self.status, **fields)

    def note(self, type_: EventType, reason: str, message: str) -> None:
        self.events.append(EventNote(type_, reason, message))

    def set_condition(
        self, type_: str, status: Literal["True", "False"], reason: str, message: str, event: EventType | None
    ) -> None:
        """Want a condition. An actual change is told by an event of the same reason and message, unless None."""
        before = self.status.conditions
        after = conditions.merge(before, type_, status, reason, message, self._now)
        if after is not before:
            self.replace(conditions=after)
            if event is not None:
                self.note(event, reason, message)

    def end_restart(self, reason: str, message: str) -> None:
        """RestartingJobSet is over, if it ever began."""
        self.set_condition(conditions.RESTARTING, "False", reason, message, "Normal")

    def fail(self, reason: str, message: str) -> None:
        self.set_condition(conditions.FAILED, "True", reason, message, "Warning")
        self._finish("Failed", "JobSetFailed", "jobset failed")

    def complete(self) -> None:
        message = "jobset completed successfully"
        self.set_condition(conditions.COMPLETED, "True", "AllJobsCompleted", message, "Normal")
        self._finish("Completed", "JobSetCompleted", message)

    def _finish(self, terminal_state: str, reason: str, message: str) -> None:
        self.replace(terminal_state=terminal_state)
        self.end_restart(reason, message)
        self.set_condition(conditions.BLOCKED, "False", reason, message, None)

    def result(self, raw: Object) -> Object | None:
        """The whole status to write over the raw one, fields we do not know included; None when nothing changed."""
        if self.status == _in_order(self._observed):
            return None
        ours: Object = msgspec.json.decode(msgspec.json.encode(self.status))
        kept = {key: value for key, value in raw.items() if key not in JobSetStatus.__struct_encode_fields__}
        return {**kept, "restarts": self.status.restarts, **ours}


def _in_order(status: JobSetStatus) -> JobSetStatus:
    entries = sorted(status.replicated_jobs_status, key=lambda entry: entry.name, reverse=True)
    return msgspec.structs.replace(status, replicated_jobs_status=tuple(entries))
