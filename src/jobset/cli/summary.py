"""How a run ended: as JSON, and as the lines a person reads last."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from jobset.api.meta import Object, format_micro_time
from jobset.cli.clock import clock
from jobset.core.failed_containers import ContainerFailure, in_order
from jobset.local.history import Attempt
from jobset.local.run import Target

SHOWN_REASONS = 10


def target_summary(target: Target, waits: Sequence[str], now: datetime) -> Object:
    """JSON of one workload: result, message, attempts with their causes, durations in seconds.

    `waits`: why it is not finished, if it is not.
    """
    return {
        "kind": target.resource.kind,
        "namespace": target.namespace,
        "name": target.name,
        "result": target.state,
        "message": target.message,
        "durationSeconds": _seconds(target.started_at, target.ended_at or now),
        "restarts": (target.last.get("status") or {}).get("restarts", 0),
        "waitsFor": list(waits),
        "attempts": [_attempt(attempt, now) for attempt in target.history.attempts],
        "jobRestarts": [
            {
                "job": restart.job,
                "at": format_micro_time(restart.at),
                "attempt": restart.attempt,
                "cause": _failure(restart.failure) if restart.failure else None,
            }
            for restart in target.history.job_restarts
        ],
    }


def summary_lines(summaries: Iterable[Object]) -> list[str]:
    """What a person reads last: result, why it is not finished, each attempt and its cause."""
    lines: list[str] = []
    for summary in summaries:
        restarts = summary["restarts"]
        counted = f", {restarts} restart{'s' if restarts != 1 else ''}" if summary["kind"] == "JobSet" else ""
        spent = clock(summary["durationSeconds"])
        result = "not finished" if summary["result"] == "Running" else summary["result"]
        lines.append(f"{summary['kind']} {summary['name']}: {result} after {spent}{counted}")
        if summary["message"] and result != "Completed":
            lines.append(f"  {summary['message']}")
        lines += [f"  {reason}" for reason in summary["waitsFor"][:SHOWN_REASONS]]
        if len(summary["waitsFor"]) > SHOWN_REASONS:
            lines.append(f"  … {len(summary['waitsFor']) - SHOWN_REASONS} more reasons (--output json has them all)")
        for attempt in summary["attempts"]:
            lines += _attempt_lines(attempt, alone=len(summary["attempts"]) == 1)
        for restart in summary["jobRestarts"]:
            lines.append(f"  Job {restart['job']} restarted alone (attempt {restart['attempt'] + 1})")
            lines += _failure_lines(restart["cause"]) if restart["cause"] else []
    return lines


def _attempt_lines(attempt: Object, *, alone: bool) -> list[str]:
    lines = []
    if not alone:
        ready = attempt["readyAfterSeconds"]
        became = f", all ready after {clock(ready)}" if ready is not None else ", never all ready"
        outcome = "not finished" if attempt["outcome"] == "Running" else attempt["outcome"].lower()
        ran = clock(attempt["durationSeconds"])
        lines.append(f"  attempt {attempt['number'] + 1}: {outcome} after {ran}{became}")
    if attempt["failures"] and attempt["outcome"] != "Completed":
        first, *others = attempt["failures"]
        lines += _failure_lines(first)
        if others:
            lines.append(f"    then {len(others)} other container{'s' if len(others) > 1 else ''} failed")
    return lines


def _failure_lines(failure: Object) -> list[str]:
    word = "" if failure["reason"] == "Error" else f"{failure['reason']}, "
    lines = [f"    {failure['pod']} ({failure['container']}): {word}exit code {failure['exitCode']}"]
    return lines + [f"      > {line}" for line in failure["lastLines"]]


def _attempt(attempt: Attempt, now: datetime) -> Object:
    return {
        "number": attempt.number,
        "outcome": attempt.outcome,
        "startedAt": format_micro_time(attempt.started_at),
        "readyAfterSeconds": _seconds(attempt.started_at, attempt.ready_at) if attempt.ready_at else None,
        "durationSeconds": _seconds(attempt.started_at, attempt.ended_at or now),
        "cause": attempt.cause,
        "failures": [_failure(failure) for failure in in_order(attempt.failures)],
    }


def _failure(failure: ContainerFailure) -> Object:
    return {
        "pod": failure.pod,
        "container": failure.container,
        "exitCode": failure.exit_code,
        "reason": failure.reason,
        "finishedAt": failure.finished_at,
        "lastLines": list(failure.log_tail),
    }


def _seconds(start: datetime, end: datetime) -> float:
    return round((end - start).total_seconds(), 3)
