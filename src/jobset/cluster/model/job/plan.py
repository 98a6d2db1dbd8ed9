"""One pass over a Job: from the Job and its pods to what is to be written. Pure; start reading here.

Stands between the Job controller's caches and its writes (controllers/job.py). A plan has up to four steps, each to be
carried out before the next: finalizers of pods given up, pods created or deleted together with the first status,
finalizers of counted pods, final status. No step needs another's output, only its success; `tracking.py` says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from jobset.api.meta import Object, format_time
from jobset.api.resources import PODS
from jobset.cluster.model.job.backoff import KUBERNETES_DELAYS, NO_FAILURES, Failures, RetryDelays
from jobset.cluster.model.job.claim import claims, untrack
from jobset.cluster.model.job.conditions import Verdict, has, is_finished, with_condition
from jobset.cluster.model.job.judgement import COMPLETED, completed, deadline_left_s, judge
from jobset.cluster.model.job.pods import JobPod, finished_at, is_ready, read_pod
from jobset.cluster.model.job.spec import JobSpec, read_spec
from jobset.cluster.model.job.staffing import UNCHANGED, Retry, Staffing, staff
from jobset.cluster.model.job.status import Draft
from jobset.cluster.model.job.tally import Tally, tally
from jobset.cluster.model.job.tracking import Tracking, track
from jobset.core.actions import Action, CreateObject, DeleteObject, EventNote, Plan, Why

COUNTED = Why("Counted", "The pod's end is on record")
GIVEN_UP = Why("GivenUp", "The Job has no use for the pod, which is not to count as failed")


class Observed(Struct, frozen=True):
    """A Job of ours and its pods. `pods`: those it controls by UID. `orphans`: those without any controller that may
    match its selector. `suffixes`: an endless stream of five random characters each.
    """

    job: Object
    pods: Sequence[Object]
    now: datetime
    suffixes: Iterator[str]
    orphans: Sequence[Object] = ()
    failures: Failures = NO_FAILURES
    retry_delays: RetryDelays = KUBERNETES_DELAYS


class JobPlan(Struct, frozen=True):
    """`failures` is to be remembered once the first status of `steps` is written."""

    steps: tuple[Plan, ...] = ()
    failures: Failures = NO_FAILURES
    requeue_after_s: float | None = None


class _Pass(Struct, frozen=True):
    """What is known and decided before anything is put into words."""

    job: Object
    spec: JobSpec
    pods: Tally
    now: datetime
    start_time: str | None
    staffing: Staffing
    verdict: Verdict | None

    @property
    def status(self) -> Object:
        status: Object = self.job.get("status", {})
        return status

    @property
    def deleted(self) -> bool:
        return "deletionTimestamp" in self.job["metadata"]

    @property
    def leaving(self) -> Sequence[JobPod]:
        """Active pods that are to be deleted: all of them once the Job ends."""
        return self.pods.active if self.verdict else self.staffing.remove


def plan(observed: Observed) -> JobPlan:
    job = observed.job
    if is_finished(job):
        tracked = [pod for pod in map(read_pod, observed.pods) if pod.tracked]
        return JobPlan(_untrack_step(tracked, COUNTED))
    if claimed := claims(job, observed.pods, observed.orphans):
        return JobPlan((Plan(claimed),), observed.failures)
    spec = read_spec(job)
    pods = tally(job, spec, [read_pod(raw) for raw in observed.pods])
    failures = observed.failures
    if spec.backoff_limit_per_index is None:  # otherwise each index counts for itself
        failures = failures.after(_ends(pods.newly_succeeded), _ends(pods.newly_failed))
    decided = _decided(observed, spec, pods, failures)
    given_up = _untrack_step([pod for pod in decided.staffing.remove if pod.tracked], GIVEN_UP)
    tracking = track(spec, pods, decided.verdict, leaving=_uids(decided.staffing.remove), all_go=decided.deleted)
    left_s = None if decided.verdict else deadline_left_s(spec, decided.start_time, observed.now)
    more = 0.0 if tracking.capped else None
    waits = [wait_s for wait_s in (more, left_s, decided.staffing.retry_after_s) if wait_s is not None]
    return JobPlan(given_up + _steps(decided, tracking), failures, min(waits, default=None))


def _decided(observed: Observed, spec: JobSpec, pods: Tally, failures: Failures) -> _Pass:
    """The verdict, or else which pods come and go."""
    job, now = observed.job, observed.now
    start_time = job.get("status", {}).get("startTime") or (None if spec.suspended else format_time(now))
    verdict = judge(job, spec, pods, start_time, now)
    staffing = UNCHANGED
    if verdict is None and "deletionTimestamp" not in job["metadata"]:
        retry = Retry(observed.retry_delays, failures, now)
        staffing = staff(job, spec, pods, retry, observed.suffixes)
    if verdict is None and completed(spec, pods, len(pods.active) - len(staffing.remove) + len(staffing.create)):
        verdict = COMPLETED
    return _Pass(job, spec, pods, now, start_time, staffing, verdict)


def _steps(decided: _Pass, tracking: Tracking) -> tuple[Plan, ...]:
    """Step 1 puts the newly ended pods and the verdict on record, 2 lets go of them, 3 counts and finishes."""
    verdict = decided.verdict
    first, notes = _recorded(decided, tracking)
    last = replace(
        first,
        uncounted=tracking.waiting,
        succeeded=first.succeeded + len(tracking.uncounted.succeeded) - len(tracking.waiting.succeeded),
        failed=first.failed + len(tracking.uncounted.failed) - len(tracking.waiting.failed),
    )
    end_notes: tuple[EventNote, ...] = ()
    if verdict and not tracking.capped and not last.terminating:
        last = _with_verdict(last, verdict.final, verdict, decided.now)
        end_notes = _end_notes(decided.spec, last, verdict)
    actions: tuple[Action, ...] = (*map(_create, decided.staffing.create), *map(_delete, decided.leaving))
    recorded = first.status_if_changed(decided.status)
    counted = last.status_if_changed(first.to_status())
    steps = (Plan(actions, recorded, notes),) if actions or recorded is not None else ()
    end = (Plan((), counted, end_notes),) if counted is not None else ()
    return steps + _untrack_step(tracking.untrack, COUNTED) + end


def _recorded(decided: _Pass, tracking: Tracking) -> tuple[Draft, tuple[EventNote, ...]]:
    """The first status and its events: pods as they will be, ended ones named, the verdict announced."""
    spec, pods, status, verdict = decided.spec, decided.pods, decided.status, decided.verdict
    conditions: Sequence[Object] = status.get("conditions") or ()
    start_time = decided.start_time
    notes: tuple[EventNote, ...] = ()
    if verdict:
        start_time = start_time or format_time(decided.now)  # a Job can end while suspended, but not unstarted
    elif not decided.deleted:
        conditions, notes = _suspension(spec, conditions, decided.now)
        if spec.suspended:
            start_time = None
        elif notes:
            start_time = format_time(decided.now)  # the deadline runs anew from here
    counted = len(tracking.indexes) if spec.indexed else status.get("succeeded", 0) + tracking.settled_succeeded
    draft = Draft(
        old=status,
        active=len(pods.active) - len(decided.leaving) + len(decided.staffing.create),
        ready=pods.ready - sum(is_ready(pod) for pod in decided.leaving),
        terminating=pods.terminating + len(decided.leaving),
        succeeded=counted,
        failed=status.get("failed", 0) + tracking.settled_failed,
        uncounted=tracking.uncounted,
        completed_indexes=str(tracking.indexes),
        failed_indexes=None if pods.failed_indexes is None else str(pods.failed_indexes),
        start_time=start_time,
        conditions=conditions,
    )
    if verdict and not has(decided.job, verdict.announcement):
        draft = _with_verdict(draft, verdict.announcement, verdict, decided.now)
    return draft, notes


def _suspension(
    spec: JobSpec, conditions: Sequence[Object], now: datetime
) -> tuple[Sequence[Object], tuple[EventNote, ...]]:
    status, word = ("True", "Suspended") if spec.suspended else ("False", "Resumed")
    message = f"Job {word.lower()}"
    changed = with_condition(conditions, "Suspended", status, f"Job{word}", message, now)
    return changed, () if changed is conditions else (EventNote("Normal", word, message),)


def _create(body: Object) -> CreateObject:
    why = Why("SuccessfulCreate", f"Created pod: {body['metadata']['name']}")
    return CreateObject(PODS, body, why, failure_event="FailedCreate", success_event=why.reason)


def _delete(pod: JobPod) -> DeleteObject:
    why = Why("SuccessfulDelete", f"Deleted pod: {pod.name}")
    return DeleteObject(PODS, pod.namespace, pod.name, pod.uid, why, success_event=why.reason)


def _with_verdict(draft: Draft, type_: str, verdict: Verdict, now: datetime) -> Draft:
    conditions = with_condition(draft.conditions, type_, "True", verdict.reason, verdict.message, now)
    done = format_time(now) if type_ == "Complete" else None
    return replace(draft, conditions=conditions, completion_time=done)


def _end_notes(spec: JobSpec, last: Draft, verdict: Verdict) -> tuple[EventNote, ...]:
    if verdict.final == "Failed":
        return (EventNote("Warning", verdict.reason, verdict.message),)
    completed_note = EventNote("Normal", "Completed", "Job completed")
    if spec.completions is not None and last.succeeded > spec.completions:
        message = "Too many succeeded pods running after completion count reached"
        return EventNote("Warning", "TooManySucceededPods", message), completed_note
    return (completed_note,)


def _untrack_step(pods: Sequence[JobPod], why: Why) -> tuple[Plan, ...]:
    return (Plan(tuple(untrack(pod.raw, why) for pod in pods)),) if pods else ()


def _uids(pods: Sequence[JobPod]) -> set[str]:
    return {pod.uid for pod in pods}


def _ends(pods: Sequence[JobPod]) -> list[datetime]:
    return [finished_at(pod.raw) for pod in pods]
