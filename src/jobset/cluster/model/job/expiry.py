"""When a finished Job is due for deletion (ttlSecondsAfterFinished). Pure (KEP-592)."""

from __future__ import annotations

from datetime import datetime, timedelta

from jobset.api.meta import Object, condition_of, parse_time


def expires_at(job: Object) -> datetime | None:
    """None while the Job is not finished, has no TTL, or is being deleted already."""
    ttl_s = job["spec"].get("ttlSecondsAfterFinished")
    if ttl_s is None or "deletionTimestamp" in job["metadata"]:
        return None
    for type_ in ("Complete", "Failed"):
        condition = condition_of(job, type_)
        if condition is not None and condition["status"] == "True":
            return parse_time(condition["lastTransitionTime"]) + timedelta(seconds=ttl_s)
    return None
