"""Whether a Job has to end now, and how. Pure.

The order is Kubernetes' own: a verdict of an earlier pass stands; then the pod failure policy, the back-off limit,
the deadline, failed indexes, and the success policy. Completion by count is decided last, once pods are managed.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from jobset.api.meta import Object, parse_time
from jobset.cluster.model.job.conditions import Verdict, announced
from jobset.cluster.model.job.failure_policy import rule_on
from jobset.cluster.model.job.pods import is_failed, restarts
from jobset.cluster.model.job.spec import JobSpec
from jobset.cluster.model.job.success_policy import rule_met
from jobset.cluster.model.job.tally import Tally

BACKOFF_LIMIT = Verdict("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
DEADLINE = Verdict("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
TOO_MANY_FAILED_INDEXES = Verdict(
    "Failed", "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
)
FAILED_INDEXES = Verdict("Failed", "FailedIndexes", "Job has failed indexes")
COMPLETED = Verdict("Complete", "CompletionsReached", "Reached expected number of succeeded pods")


def judge(job: Object, spec: JobSpec, pods: Tally, start_time: str | None, now: datetime) -> Verdict | None:
    """The verdict on a Job that is not finished; None lets it go on."""
    if earlier := announced(job):
        return earlier
    if message := _fail_job_message(spec, pods):
        return Verdict("Failed", "PodFailurePolicy", message)
    if pods.failed > spec.backoff_limit or _restarted_too_often(spec, pods):
        return BACKOFF_LIMIT
    left_s = deadline_left_s(spec, start_time, now)
    if left_s is not None and left_s <= 0:
        return DEADLINE
    if spec.indexed:
        return _judge_indexes(spec, pods)
    return None


def deadline_left_s(spec: JobSpec, start_time: str | None, now: datetime) -> float | None:
    """Seconds until activeDeadlineSeconds is over; None without one, or while the Job does not run."""
    if spec.active_deadline_s is None or start_time is None or spec.suspended:
        return None
    return (parse_time(start_time) + timedelta(seconds=spec.active_deadline_s) - now).total_seconds()


def completed(spec: JobSpec, pods: Tally, active: int) -> bool:
    """Whether enough pods succeeded and none is left to wait for."""
    if active:
        return False
    return pods.succeeded > 0 if spec.completions is None else pods.succeeded >= spec.completions


def _fail_job_message(spec: JobSpec, pods: Tally) -> str:
    if spec.failure_policy is None:
        return ""
    rulings = (rule_on(spec.failure_policy, pod.raw) for pod in pods.pods if is_failed(pod, spec))
    return next((ruling.message for ruling in rulings if ruling.message), "")


def _restarted_too_often(spec: JobSpec, pods: Tally) -> bool:
    if not spec.restarts_in_place:
        return False
    total = sum(restarts(pod.raw) for pod in pods.pods if pod.phase in ("Pending", "Running"))
    return total > 0 if spec.backoff_limit == 0 else total >= spec.backoff_limit


def _judge_indexes(spec: JobSpec, pods: Tally) -> Verdict | None:
    completions = spec.completions or 0
    failed = len(pods.failed_indexes or ())
    if spec.max_failed_indexes is not None and failed > spec.max_failed_indexes:
        return TOO_MANY_FAILED_INDEXES
    if failed and failed + len(pods.succeeded_indexes) >= completions:
        return FAILED_INDEXES
    position = rule_met(spec.success_policy, completions, pods.succeeded_indexes)
    if position is not None:
        return Verdict("Complete", "SuccessPolicy", f"Matched rules at index {position}")
    return None
