"""Why a JobSet is where it is: what it waits for, and what it would create. Pure.

Asks the same policies that `plan` asks, so an explanation cannot differ from what is done.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from jobset.api.jobs import Job
from jobset.api.jobset import DependsOn, JobSet, ReplicatedJob, from_object
from jobset.api.meta import Object
from jobset.core.actions import CreateObject
from jobset.core.blocked import obstacles
from jobset.core.features import FeatureGates
from jobset.core.jobs import create_jobs_of
from jobset.core.labels import labels_by_replicated_job
from jobset.core.network import headless_service, wants_dns
from jobset.core.observed import Observed, is_leaving, observed_of
from jobset.core.plan import is_managed_here
from jobset.core.replicated_jobs_status import count_jobs, is_ready
from jobset.core.startup_policy import decide_startup, is_in_order
from jobset.core.status import StatusDraft
from jobset.core.volumes import claim_names, claims


def observed_at_once(
    raw: Object,
    *,
    jobs: Iterable[Job],
    claims: Iterable[Object],
    service: Object | None,
    gates: FeatureGates,
    now: datetime,
) -> Observed:
    """Without caches: `jobs` and `claims` are all of the namespace, `service` is the one of its subdomain."""
    jobset = from_object(raw)
    by_name = {job.metadata.name: job for job in jobs}
    existing = {claim["metadata"]["name"] for claim in claims}
    return observed_of(
        raw,
        jobset,
        jobs=[job for job in by_name.values() if _owner_uid(job) == jobset.metadata.uid],
        find_job=by_name.get,
        service=service,
        claims=[claim for claim in claim_names(jobset) if claim in existing],
        gates=gates,
        now=now,
    )


def _owner_uid(job: Job) -> str:
    owner = job.metadata.controller
    return "" if owner is None else owner.uid


def why_waiting(observed: Observed) -> list[str]:
    """One sentence for each thing that keeps the JobSet from running; none when all its Jobs run or are done."""
    jobset = observed.jobset
    if not is_managed_here(jobset):
        return [f"It is managed by {jobset.spec.managed_by}, not by this controller."]
    draft = StatusDraft(jobset.status, count_jobs(jobset, observed.buckets, observed.gates), observed.now)
    if draft.finished is not None:
        return []
    reasons = []
    if observed.suspended:
        reasons.append("It is suspended (spec.suspend): its Jobs run no pods until it is resumed.")
    startup = decide_startup(observed, draft)
    reasons += [f"Replicated job {each.name} waits for {why}." for each, why in startup.waiting]
    reasons += [f"{text}." for _, text in obstacles(observed)]
    reasons += _of_previous(observed)
    if not observed.suspended:
        reasons += [text for job in observed.buckets.active if (text := _of_active(job))]
    return reasons


def explain_objects(raw: Object, gates: FeatureGates) -> list[CreateObject]:
    """Everything a JobSet creates on its way, in order, each with its reason. `raw` has been through admission."""
    jobset = from_object(raw)
    job_labels = labels_by_replicated_job(jobset, gates)
    found = [headless_service(jobset)] if wants_dns(jobset) else []
    found += claims(jobset)
    before = ""
    for each in jobset.spec.replicated_jobs:
        when = _when(jobset, each, before)
        found += create_jobs_of(jobset, each, job_labels[each.name], range(each.replicas), when)
        before = each.name
    return found


def _when(jobset: JobSet, replicated_job: ReplicatedJob, before: str) -> str:
    conditions = [_in_words(dependency) for dependency in replicated_job.depends_on]
    if before and is_in_order(jobset) and not jobset.spec.suspend:
        conditions.append(f"{before} is ready (startupPolicy InOrder)")
    once = f", once {' and '.join(conditions)}" if conditions else ""
    return once + (", suspended" if jobset.spec.suspend else "")


def _in_words(dependency: DependsOn) -> str:
    state = "complete" if dependency.status == "Complete" else "ready"
    return f"{dependency.name} is {state} (dependsOn)"


def _of_previous(observed: Observed) -> list[str]:
    reasons = []
    leaving = [job for job in observed.foreign if is_leaving(job, observed.jobset)]
    for job in (*observed.buckets.previous, *leaving):
        pods = job.status.active + job.status.terminating
        reasons.append(
            f"Job {job.metadata.name} of an earlier attempt is still being deleted ({_count(pods, 'pod')} left)."
        )
    if reasons and observed.missing:
        policy = observed.jobset.spec.failure_policy
        if policy is not None and policy.restart_strategy == "BlockingRecreate":
            reasons.append("No Job is created before all of the earlier attempt are gone (BlockingRecreate).")
    return reasons


def _of_active(job: Job) -> str:
    if is_ready(job):
        return ""
    name = job.metadata.name
    if job.metadata.deletion_timestamp:
        return f"Job {name} is being deleted by someone else, and will be created anew."
    if job.spec.suspend:
        return f"Job {name} is not resumed yet."
    wanted = 1 if job.spec.parallelism is None else job.spec.parallelism
    running = job.status.ready + job.status.succeeded
    return f"Job {name} has {running} of {_count(wanted, 'pod')} ready ({job.status.active} active)."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
