"""What keeps a JobSet from getting on that only a person can clear, told as one condition of our own. Pure.

The original retries forever and says nothing. Here the obstacle is named once, in condition `Blocked` and a Warning
event; the pass goes on with everything else and is run again when the obstacle goes away.
"""

from __future__ import annotations

from jobset.core import conditions
from jobset.core.names import service_name
from jobset.core.network import is_foreign, wants_dns
from jobset.core.observed import Observed, is_leaving
from jobset.core.status import StatusDraft

NAMED_AT_MOST = 3


def record_blocked(observed: Observed, draft: StatusDraft) -> None:
    found = obstacles(observed)
    if not found:
        draft.set_condition(conditions.BLOCKED, "False", "Unblocked", "nothing is in the way any more", "Normal")
        return
    message = "; ".join(text for _, text in found)
    draft.set_condition(conditions.BLOCKED, "True", found[0][0], message, "Warning")


def obstacles(observed: Observed) -> list[tuple[str, str]]:
    """(reason, message) of each kind of obstacle, gravest first."""
    found = []
    jobs = [job.metadata.name for job in observed.foreign if not is_leaving(job, observed.jobset)]
    if jobs:
        message = "not made by this JobSet, but of a name it needs; delete it, or give the JobSet another name"
        found.append(("ForeignJob", f"{_jobs(jobs)}: {message}"))
    unreadable = [job.metadata.name for job in observed.buckets.unreadable]
    if unreadable:
        found.append(("UnreadableJob", f"{_jobs(unreadable)}: its JobSet labels were changed; delete it"))
    service = observed.service
    if service is not None and wants_dns(observed.jobset) and is_foreign(service, observed.jobset):
        name = service_name(observed.jobset)
        found.append(
            (
                "ForeignService",
                f"Service {name}: not made by this JobSet and does not select its pods, which have no DNS names "
                "therefore; delete it, or set network.subdomain to another name",
            )
        )
    return found


def _jobs(names: list[str]) -> str:
    more = f" and {len(names) - NAMED_AT_MOST} more" if len(names) > NAMED_AT_MOST else ""
    return f"{'Job' if len(names) == 1 else 'Jobs'} {', '.join(names[:NAMED_AT_MOST])}{more}"
