"""One pass over a JobSet: from what is there to what is to be done about it (section 6.2). Pure.

Stands between `observed_of` and `reconcile.apply`. Each policy has its own file; this one is their order. A plan is one
step: what follows from a counter or a deletion is left to the pass that sees it done.
"""

from __future__ import annotations

from jobset.api.jobset import JobSet
from jobset.api.labels import MANAGED_BY_JOBSET
from jobset.api.meta import Condition
from jobset.core.actions import Action, Plan, Why
from jobset.core.blocked import record_blocked
from jobset.core.buckets import outcome
from jobset.core.elastic import resize_jobs
from jobset.core.failure_policy import apply_failure_policy
from jobset.core.jobs import create_jobs, delete_jobs
from jobset.core.network import create_service
from jobset.core.observed import Observed
from jobset.core.replicated_jobs_status import count_jobs
from jobset.core.startup_policy import decide_startup, record_startup
from jobset.core.status import StatusDraft
from jobset.core.success_policy import apply_success_policy
from jobset.core.suspend import resume_jobs, suspend_jobs
from jobset.core.ttl import expire
from jobset.core.volumes import create_claims


def plan(observed: Observed) -> Plan:
    """What to do now. Nothing at all for a JobSet that is being deleted or that another controller manages."""
    jobset = observed.jobset
    if jobset.metadata.deletion_timestamp or not is_managed_here(jobset):
        return Plan()
    draft = StatusDraft(jobset.status, count_jobs(jobset, observed.buckets, observed.gates), observed.now)
    if draft.finished is not None:
        return _tidy_up(observed, draft, draft.finished)
    actions: list[Action] = []
    actions += delete_jobs(observed.buckets.previous, _OUTDATED)
    if not observed.suspended and _all_ready(observed, draft):
        draft.end_restart("JobsReady", "all jobs are ready")
    if observed.buckets.failed:
        apply_failure_policy(observed, draft)
    elif not apply_success_policy(observed, draft):
        actions += _bring_about(observed, draft)
    return _plan(observed, draft, actions)


def is_managed_here(jobset: JobSet) -> bool:
    return jobset.spec.managed_by in (None, MANAGED_BY_JOBSET)


_OUTDATED = Why("DeleteJob", "its attempt is over: a restart follows")
_FINISHED = Why("DeleteJob", "the JobSet has finished")


def _tidy_up(observed: Observed, draft: StatusDraft, finished: Condition) -> Plan:
    """Of a finished JobSet: no Job goes on, none of an earlier attempt stays; the others are kept to be looked at."""
    deletions, requeue_after_s = expire(observed, finished)
    buckets = observed.buckets
    going_on = [job for job in buckets.unreadable if outcome(job) == "active"]
    unwanted = (*buckets.active, *buckets.previous, *going_on)
    actions: list[Action] = [*delete_jobs(unwanted, _FINISHED), *deletions]
    return _plan(observed, draft, actions, requeue_after_s)


def _bring_about(observed: Observed, draft: StatusDraft) -> list[Action]:
    """Everything a JobSet that neither failed nor succeeded should have, as far as its turn has come."""
    startup = decide_startup(observed, draft)
    actions: list[Action] = []
    actions += create_service(observed)
    actions += create_claims(observed)
    actions += resize_jobs(observed)
    actions += create_jobs(observed, startup)
    record_startup(startup, draft)
    if observed.suspended:
        actions += suspend_jobs(observed, draft)
    else:
        actions += resume_jobs(observed, startup, draft)
    record_blocked(observed, draft)
    return actions


def _all_ready(observed: Observed, draft: StatusDraft) -> bool:
    ready = sum(entry.ready + entry.succeeded for entry in draft.status.replicated_jobs_status)
    return ready == sum(each.replicas for each in observed.jobset.spec.replicated_jobs)


def _plan(observed: Observed, draft: StatusDraft, actions: list[Action], requeue_after_s: float | None = None) -> Plan:
    status = draft.result(observed.raw.get("status") or {})
    return Plan(tuple(actions), status, tuple(draft.events), requeue_after_s)
