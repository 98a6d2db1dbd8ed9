"""What failed Jobs lead to: rules, actions and restart counters (section 7). Pure.

Called by a pass that sees failed Jobs. It only records: counters, conditions and events in the draft. Deleting and
creating Jobs follows in later passes, from the counters, so a crash in between neither loses nor repeats a restart.

All failed Jobs of a pass are handled in that pass, in the order in which passes of one action each would take them:
by rule, then by time of failure, then by name, until an action concerns the whole JobSet.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec
import re2
from msgspec import Struct

from jobset.api import labels
from jobset.api.jobs import Job
from jobset.api.jobset import FailurePolicy, FailurePolicyAction, FailurePolicyRule, ReplicatedJobStatus
from jobset.core import conditions
from jobset.core.buckets import failure_of, number
from jobset.core.observed import Observed
from jobset.core.status import StatusDraft

RESTART_JOB_ACTIONS = ("RestartJob", "RestartJobAndIgnoreMaxRestarts")


class Failure(Struct, frozen=True):
    """A failed Job, when and why it failed."""

    job: str
    replicated_job: str
    index: int
    time: str
    reason: str
    message: str


class Response(Struct, frozen=True):
    """What is to be done about one failure; `rule` is the rule's name, empty for the default."""

    action: FailurePolicyAction
    rule: str
    failure: Failure


def apply_failure_policy(observed: Observed, draft: StatusDraft) -> None:
    """Record the consequences of all failed Jobs. There is at least one."""
    failures = sorted(map(_failure, observed.buckets.failed), key=lambda each: (each.time, each.job))
    policy = observed.jobset.spec.failure_policy
    if policy is None:
        draft.fail("FailedJobs", _naming("jobset failed due to one or more job failures", failures[0]))
        return
    counters = _Counters(policy, draft.status.replicated_jobs_status, observed)
    for response in _responses(policy, failures):
        if response.action not in RESTART_JOB_ACTIONS:
            _act_on_jobset(response, counters, draft)
            break
        if not observed.gates.restart_job:
            _refuse(response, draft)
            break
        if not _act_on_job(response, counters, draft):
            break
    draft.replace(
        restarts=counters.restarts,
        restarts_count_towards_max=counters.counted,
        replicated_jobs_status=counters.entries(),
    )


def _failure(job: Job) -> Failure:
    condition = failure_of(job)
    assert condition is not None, "only failed Jobs come here"
    found = job.metadata.labels
    return Failure(
        job=job.metadata.name,
        replicated_job=found.get(labels.REPLICATED_JOB_NAME, ""),
        index=number(found.get(labels.JOB_INDEX)) or 0,
        time=condition.last_transition_time,
        reason=condition.reason,
        message=condition.message,
    )


def _responses(policy: FailurePolicy, failures: list[Failure]) -> Iterator[Response]:
    """By rule in the policy's order, then by time: what one action after the other would pick."""
    by_rule: list[list[Failure]] = [[] for _ in range(len(policy.rules) + 1)]
    for failure in failures:
        first = next((n for n, rule in enumerate(policy.rules) if _matches(rule, failure)), len(policy.rules))
        by_rule[first].append(failure)
    for place, rule in enumerate(policy.rules):
        name = rule.name or f"failurePolicyRule{place}"
        for failure in by_rule[place]:
            yield Response(rule.action, name, failure)
    for failure in by_rule[-1]:
        yield Response("RestartJobSet", "", failure)


def _matches(rule: FailurePolicyRule, failure: Failure) -> bool:
    reasons, patterns, targets = (
        rule.on_job_failure_reasons,
        rule.on_job_failure_message_patterns,
        rule.target_replicated_jobs,
    )
    return (
        (not reasons or failure.reason in reasons)
        and bool(failure.replicated_job)
        and (not targets or failure.replicated_job in targets)
        and (not patterns or any(_found(pattern, failure.message) for pattern in patterns))
    )


def _found(pattern: str, message: str) -> bool:
    compiled = _compile(pattern)
    return compiled is not None and compiled.search(message) is not None


@lru_cache(maxsize=1024)
def _compile(pattern: str) -> Any | None:
    """The compiled RE2 expression; None for one that is not valid, which then matches nothing."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error:
        return None


class _Counters:
    """The restart counters of a JobSet while failures are counted."""

    def __init__(self, policy: FailurePolicy, entries: tuple[ReplicatedJobStatus, ...], observed: Observed) -> None:
        status = observed.jobset.status
        self.restarts = status.restarts
        self.counted = status.restarts_count_towards_max
        self._max = policy.max_restarts
        self._per_job = observed.gates.restart_job
        self._entries = entries
        self._replicas = {each.name: each.replicas for each in observed.jobset.spec.replicated_jobs}
        self._all = {each.name: _numbers(each.job_restarts) for each in entries}
        self._towards_max = {each.name: _numbers(each.job_restarts_count_towards_max) for each in entries}
        self._total = self.counted + sum(map(sum, self._towards_max.values()))

    def jobset_exhausted(self) -> bool:
        return self.counted >= self._max or (self._per_job and self._total >= self._max)

    def job_exhausted(self) -> bool:
        return self._total >= self._max

    def restart_jobset(self, *, counts: bool) -> None:
        self.restarts += 1
        if counts:
            self.counted += 1
            self._total += 1

    def restart_job(self, replicated_job: str, index: int, *, counts: bool) -> None:
        self._bump(self._all, replicated_job, index)
        if counts:
            self._bump(self._towards_max, replicated_job, index)
            self._total += 1

    def entries(self) -> tuple[ReplicatedJobStatus, ...]:
        return tuple(
            msgspec.structs.replace(
                entry,
                job_restarts=tuple(self._all[entry.name]) or msgspec.UNSET,
                job_restarts_count_towards_max=tuple(self._towards_max[entry.name]) or msgspec.UNSET,
            )
            for entry in self._entries
        )

    def _bump(self, counters: dict[str, list[int]], replicated_job: str, index: int) -> None:
        numbers = counters[replicated_job]
        numbers.extend([0] * (self._replicas[replicated_job] - len(numbers)))
        numbers[index] += 1


def _numbers(numbers: tuple[int, ...] | msgspec.UnsetType) -> list[int]:
    return list(numbers) if isinstance(numbers, tuple) else []


def _act_on_jobset(response: Response, counters: _Counters, draft: StatusDraft) -> None:
    action = response.action
    message = _naming(f"applying {action} failure policy action", response.failure)
    if action == "FailJobSet":
        draft.fail("FailJobSetFailurePolicyAction", message)
        return
    counts = action == "RestartJobSet"
    if counts and counters.jobset_exhausted():
        _fail_exhausted(response, draft)
        return
    counters.restart_jobset(counts=counts)
    reason = f"FailurePolicy_{response.rule}" if response.rule else "DefaultFailurePolicy"
    draft.set_condition(conditions.RESTARTING, "True", reason, message, "Warning")
    draft.note("Warning", f"{action}FailurePolicyAction", message)


def _act_on_job(response: Response, counters: _Counters, draft: StatusDraft) -> bool:
    """Restart one Job alone; whether the JobSet goes on."""
    counts = response.action == "RestartJob"
    failure = response.failure
    if counts and counters.job_exhausted():
        _fail_exhausted(response, draft)
        return False
    counters.restart_job(failure.replicated_job, failure.index, counts=counts)
    message = _naming(f"applying {response.action} failure policy action", failure)
    draft.note("Warning", f"{response.action}FailurePolicyAction", message)
    return True


def _fail_exhausted(response: Response, draft: StatusDraft) -> None:
    message = "jobset failed due to reaching max number of restarts"
    draft.fail("ReachedMaxRestarts", _naming(message, response.failure))


def _refuse(response: Response, draft: StatusDraft) -> None:
    message = (
        f"failure policy rule {response.rule} wants {response.action} for {response.failure.job}, "
        "which needs the feature gate RestartJob: turn it on, or delete the JobSet"
    )
    draft.set_condition(conditions.BLOCKED, "True", "FeatureGateOff", message, "Warning")


def _naming(message: str, failure: Failure) -> str:
    return f"{message} (first failed job: {failure.job})"
