"""Rules of a change of a Job's status: counters, times and conditions must tell one story. Pure.

They bind every controller that writes the status of Jobs, the embedded one and those of others (managedBy).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from jobset.api.errors import Cause
from jobset.api.field_errors import invalid, required
from jobset.api.meta import Object, parse_time
from jobset.cluster.model.kinds.problems import not_negative

_COUNTERS = ("active", "succeeded", "failed", "ready", "terminating")
_TERMINAL = ("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet")
_CONDITIONS = "status.conditions"


def validate_job_status_update(new: Object, old: Object) -> list[Cause]:
    status, before = new.get("status") or {}, old.get("status") or {}
    return [] if status == before else list(_status_problems(status, before, old["spec"]))


def _status_problems(status: Object, before: Object, spec: Object) -> Iterator[Cause]:
    for field in _COUNTERS:
        yield from not_negative(f"status.{field}", status.get(field))
    true, was_true = _true_conditions(status), _true_conditions(before)
    yield from _condition_problems(true, was_true)
    yield from _finished_problems(status, before, bool(true & {"Complete", "Failed"}), was_true)
    yield from _completion_problems(status, before, "Complete" in true)
    yield from _start_problems(status, before, suspended=bool(spec.get("suspend")))
    yield from _counter_problems(status, before, indexed=spec.get("completionMode") == "Indexed")
    yield from _index_problems(status, before, spec)
    for type_ in _TERMINAL:
        if type_ in was_true - true:
            yield _story(_CONDITIONS, f"cannot disable the terminal {type_}=True condition")


def _story(path: str, detail: str) -> Cause:
    """A problem of several fields together, which has no single value to show."""
    return Cause("FieldValueInvalid", f"Invalid value: {detail}", path)


def _true_conditions(status: Object) -> set[str]:
    return {one["type"] for one in status.get("conditions") or () if one.get("status") == "True"}


def _condition_problems(true: set[str], was_true: set[str]) -> Iterator[Cause]:
    changed = true ^ was_true
    if {"Complete", "Failed"} <= true and changed & {"Complete", "Failed"}:
        yield _story(_CONDITIONS, "cannot set Complete=True and Failed=true conditions")
    if {"Complete", "FailureTarget"} <= true and changed & {"Complete", "FailureTarget"}:
        yield _story(_CONDITIONS, "cannot set Complete=True and FailureTarget=true conditions")
    if "Failed" in true & changed and "FailureTarget" not in true:
        yield _story(_CONDITIONS, "cannot set Failed=True condition without the FailureTarget=true condition")
    if "Complete" in true & changed and "SuccessCriteriaMet" not in true:
        yield _story(_CONDITIONS, "cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
    if "SuccessCriteriaMet" in true:
        for other in ("Failed", "FailureTarget"):
            if other in true:
                yield _story(_CONDITIONS, f"cannot set SuccessCriteriaMet=True and {other}=true conditions")


def _finished_problems(status: Object, before: Object, finished: bool, was_true: set[str]) -> Iterator[Cause]:
    if not finished:
        return
    newly = not was_true & {"Complete", "Failed"}
    if not status.get("startTime") and (newly or before.get("startTime")):
        yield required("status.startTime", "startTime is required for finished job")
    for field in ("active", "terminating"):
        count = status.get(field) or 0
        if count > 0 and (newly or count != before.get(field)):
            yield invalid(f"status.{field}", count, f"{field}>0 is invalid for finished job")
    uncounted = status.get("uncountedTerminatedPods") or {}
    if newly and (uncounted.get("succeeded") or uncounted.get("failed")):
        path = "status.uncountedTerminatedPods"
        yield invalid(path, uncounted, "uncountedTerminatedPods needs to be empty for finished job")


def _completion_problems(status: Object, before: Object, complete: bool) -> Iterator[Cause]:
    path, completed, earlier = "status.completionTime", status.get("completionTime"), before.get("completionTime")
    if complete and not completed:
        yield required(path, "completionTime is required for Complete jobs")
    if completed and not complete and not earlier:
        yield invalid(path, completed, "cannot set completionTime when there is no Complete=True condition")
    if earlier and completed and parse_time(completed) != parse_time(earlier):
        yield invalid(path, completed, "completionTime cannot be mutated")
    started = status.get("startTime")
    if completed and not earlier and started and parse_time(completed) < parse_time(started):
        yield invalid(path, completed, "completionTime cannot be set before startTime")


def _start_problems(status: Object, before: Object, *, suspended: bool) -> Iterator[Cause]:
    started, earlier = status.get("startTime"), before.get("startTime")
    if suspended or not earlier or started == earlier:
        return
    if not started or parse_time(started) != parse_time(earlier):
        yield required("status.startTime", "startTime cannot be removed for unsuspended job")


def _counter_problems(status: Object, before: Object, *, indexed: bool) -> Iterator[Cause]:
    # An Indexed Job that shrinks no longer counts the indexes it gave up.
    for field in ("failed",) if indexed else ("failed", "succeeded"):
        count = status.get(field) or 0
        if count < (before.get(field) or 0):
            yield invalid(f"status.{field}", count, f"cannot decrease the {field} counter")
    ready, active = status.get("ready"), status.get("active") or 0
    changed = ready != before.get("ready") or active != (before.get("active") or 0)
    if ready is not None and ready > active and changed:
        yield invalid("status.ready", ready, "cannot set more ready pods than active")


def _index_problems(status: Object, before: Object, spec: Object) -> Iterator[Cause]:
    completed, failed = status.get("completedIndexes") or "", status.get("failedIndexes")
    if completed == (before.get("completedIndexes") or "") and failed == before.get("failedIndexes"):
        return
    path = "status.completedIndexes"
    if completed and spec.get("completionMode") != "Indexed":
        yield invalid(path, completed, "cannot set non-empty completedIndexes when non-indexed completion mode")
        return
    if failed is not None and spec.get("backoffLimitPerIndex") is None:
        detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        yield invalid("status.failedIndexes", failed, detail)
        return
    intervals: list[tuple[int, int]] = []
    for here, text in ((path, completed), ("status.failedIndexes", failed or "")):
        try:
            intervals.extend(index_intervals(text, spec.get("completions") or 0))
        except ValueError as problem:
            yield invalid(here, text, f"error parsing {here.removeprefix('status.')}: {problem}")
    intervals.sort()
    if any(following[0] <= one[1] for one, following in pairwise(intervals)):
        yield invalid("status.failedIndexes", failed, "failedIndexes and completedIndexes overlap")


def index_intervals(text: str, completions: int) -> list[tuple[int, int]]:
    """The intervals that `1,3-5` names. ValueError if they do not rise, or one is not below `completions`."""
    intervals: list[tuple[int, int]] = []
    for part in text.split(",") if text else ():
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part, re.ASCII)
        if match is None:
            raise ValueError(f"cannot convert string to integer for index: {part!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        for index in (first, last):
            if index >= completions:
                raise ValueError(f'too large index: "{index}"')
        previous = intervals[-1][1] if intervals else -1
        if first <= previous:
            raise ValueError(f"non-increasing order, previous: {previous}, current: {first}")
        if match[2] is not None and last <= first:
            raise ValueError(f"non-increasing order, previous: {first}, current: {last}")
        intervals.append((first, last))
    return intervals
