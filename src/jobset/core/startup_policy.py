"""Which replicated jobs may have their Jobs created and resumed now: dependsOn and startupPolicy (section 6.10). Pure.

Called once a pass, before Jobs are created or resumed. It creates nothing itself.
"""

from __future__ import annotations

from msgspec import Struct

from jobset.api.jobset import DependsOn, JobSet, ReplicatedJob, ReplicatedJobStatus
from jobset.core import conditions
from jobset.core.observed import Observed
from jobset.core.replicated_jobs_status import started
from jobset.core.status import StatusDraft


class Startup(Struct, frozen=True):
    """`open` may go on now, in the spec's order; `waiting` says of every other replicated job why it may not."""

    open: tuple[ReplicatedJob, ...]
    waiting: tuple[tuple[ReplicatedJob, str], ...]
    in_order: bool
    """Whether startupPolicy InOrder rules this pass; it does not while the JobSet is suspended."""
    complete: bool
    """Whether every replicated job had its turn."""


def decide_startup(observed: Observed, draft: StatusDraft) -> Startup:
    """Evaluated against this pass's counters."""
    counts = {entry.name: entry for entry in draft.status.replicated_jobs_status}
    replicated_jobs = observed.jobset.spec.replicated_jobs
    replicas = {each.name: each.replicas for each in replicated_jobs}
    in_order = is_in_order(observed.jobset) and not observed.suspended
    stopped_at = "" if not in_order or _stays_complete(observed, draft) else _first_not_started(observed, counts)
    opened: list[ReplicatedJob] = []
    waiting: list[tuple[ReplicatedJob, str]] = []
    stopped = False
    for each in replicated_jobs:
        unmet = [wait for dependency in each.depends_on if (wait := _unmet(dependency, counts, replicas))]
        if stopped:
            waiting.append((each, f"startupPolicy InOrder: {stopped_at} must be ready first"))
        elif unmet:
            waiting.append((each, "dependsOn: " + ", ".join(unmet)))
        else:
            opened.append(each)
        stopped = stopped or each.name == stopped_at
    return Startup(tuple(opened), tuple(waiting), in_order, complete=not stopped_at)


def record_startup(startup: Startup, draft: StatusDraft) -> None:
    """The two startup conditions exclude each other; the one that ends tells the reason that ended it."""
    if not startup.in_order:
        return
    in_progress = ("InOrderStartupPolicyInProgress", "in order startup policy is in progress")
    completed = ("InOrderStartupPolicyCompleted", "in order startup policy has completed")
    if startup.complete:
        draft.set_condition(conditions.STARTUP_IN_PROGRESS, "False", *completed, None)
        draft.set_condition(conditions.STARTUP_COMPLETED, "True", *completed, "Normal")
    else:
        draft.set_condition(conditions.STARTUP_COMPLETED, "False", *in_progress, None)
        draft.set_condition(conditions.STARTUP_IN_PROGRESS, "True", *in_progress, "Normal")


def is_in_order(jobset: JobSet) -> bool:
    policy = jobset.spec.startup_policy
    return policy is not None and policy.startup_policy_order == "InOrder"


def _stays_complete(observed: Observed, draft: StatusDraft) -> bool:
    """Once started, a set of running Jobs stays started: a pod that loses readiness does not start it anew."""
    buckets = observed.buckets
    whole = not (observed.missing or observed.foreign or buckets.previous)
    running = not any(job.spec.suspend for job in buckets.active)
    return draft.is_true(conditions.STARTUP_COMPLETED) and whole and running


def _first_not_started(observed: Observed, counts: dict[str, ReplicatedJobStatus]) -> str:
    for each in observed.jobset.spec.replicated_jobs:
        if started(counts[each.name]) != each.replicas:
            return each.name
    return ""


def _unmet(dependency: DependsOn, counts: dict[str, ReplicatedJobStatus], replicas: dict[str, int]) -> str:
    """What a dependency still lacks, in words; empty when it holds."""
    wanted = replicas.get(dependency.name)
    if wanted is None:
        return f"{dependency.name} is not a replicated job of this JobSet"
    entry = counts[dependency.name]
    done = entry.succeeded if dependency.status == "Complete" else started(entry)
    if done == wanted:
        return ""
    return f"{dependency.name} must be {dependency.status.lower()} ({done} of {wanted} Jobs are)"
