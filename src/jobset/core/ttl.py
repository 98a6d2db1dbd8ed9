"""When a finished JobSet is deleted (section 6.8). Pure."""

from __future__ import annotations

from datetime import timedelta

from jobset.api.meta import Condition, parse_time
from jobset.api.resources import JOBSETS
from jobset.core.actions import DeleteObject, Why
from jobset.core.observed import Observed


def expire(observed: Observed, finished: Condition) -> tuple[list[DeleteObject], float | None]:
    """The deletion, if its time has come, else in how many seconds it will; neither without a TTL."""
    ttl_s = observed.jobset.spec.ttl_seconds_after_finished
    if ttl_s is None or not finished.last_transition_time:
        return [], None
    remaining = parse_time(finished.last_transition_time) + timedelta(seconds=ttl_s) - observed.now
    if remaining > timedelta():
        return [], remaining.total_seconds()
    metadata = observed.jobset.metadata
    why = Why("TTLExpired", f"finished {ttl_s} s ago or longer (ttlSecondsAfterFinished)")
    delete = DeleteObject(JOBSETS, metadata.namespace, metadata.name, metadata.uid, why, propagation="Foreground")
    return [delete], None
