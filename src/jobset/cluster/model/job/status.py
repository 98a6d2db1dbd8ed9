"""A Job's status, as Kubernetes writes it: zero counters left out, ready and terminating always there. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from jobset.api.meta import Object
from jobset.cluster.model.job.tally import Uncounted


class Draft(Struct, frozen=True):
    """Everything in a status that the Job controller decides; `old` keeps what it does not know."""

    old: Object
    active: int
    ready: int
    terminating: int
    succeeded: int
    failed: int
    uncounted: Uncounted
    completed_indexes: str
    failed_indexes: str | None
    start_time: str | None
    conditions: Sequence[Object]
    completion_time: str | None = None

    def to_status(self) -> Object:
        uncounted = {"succeeded": list(self.uncounted.succeeded), "failed": list(self.uncounted.failed)}
        decided: Object = {
            "active": self.active or None,
            "ready": self.ready,
            "terminating": self.terminating,
            "succeeded": self.succeeded or None,
            "failed": self.failed or None,
            "uncountedTerminatedPods": {key: uids for key, uids in uncounted.items() if uids},
            "completedIndexes": self.completed_indexes or None,
            "failedIndexes": self.failed_indexes,
            "startTime": self.start_time,
            "completionTime": self.completion_time,
            "conditions": list(self.conditions) or None,
        }
        return {key: value for key, value in {**self.old, **decided}.items() if value is not None}

    def status_if_changed(self, known: Object) -> Object | None:
        status = self.to_status()
        return None if status == known else status
