"""Whether the Jobs that succeeded make the JobSet a success (section 6.6). Pure.

Called by a pass without failed Jobs: failure always comes first.
"""

from __future__ import annotations

from jobset.api import labels
from jobset.api.jobset import SuccessPolicy
from jobset.core.observed import Observed
from jobset.core.status import StatusDraft


def apply_success_policy(observed: Observed, draft: StatusDraft) -> bool:
    """Record success if there is any; whether there was. Without a policy, all Jobs must succeed."""
    if not _is_met(observed):
        return False
    draft.complete()
    return True


def _is_met(observed: Observed) -> bool:
    replicated_jobs = observed.jobset.spec.replicated_jobs
    policy = observed.jobset.spec.success_policy or SuccessPolicy()
    if not any(each.replicas for each in replicated_jobs):
        return not observed.suspended  # nothing to do is done, as for a Job without completions
    if not observed.buckets.successful:
        return False
    targets = set(policy.target_replicated_jobs) or {each.name for each in replicated_jobs}
    succeeded = sum(
        job.metadata.labels.get(labels.REPLICATED_JOB_NAME) in targets for job in observed.buckets.successful
    )
    if policy.operator == "Any":
        return succeeded >= 1
    return succeeded >= sum(each.replicas for each in replicated_jobs if each.name in targets)
