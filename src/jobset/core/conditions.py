"""The conditions of a JobSet: their types, and how a wanted one is merged into those there are (section 6.9). Pure."""

from __future__ import annotations

from typing import Literal

from jobset.api.meta import Condition

COMPLETED = "Completed"
FAILED = "Failed"
SUSPENDED = "Suspended"
RESTARTING = "RestartingJobSet"
STARTUP_IN_PROGRESS = "StartupPolicyInProgress"
STARTUP_COMPLETED = "StartupPolicyCompleted"
BLOCKED = "Blocked"
"""Ours: something that only a person can clear keeps Jobs, or the Service, from being created."""

TERMINAL = (COMPLETED, FAILED)


def find(conditions: tuple[Condition, ...], type_: str) -> Condition | None:
    return next((each for each in conditions if each.type == type_), None)


def merge(
    conditions: tuple[Condition, ...],
    type_: str,
    status: Literal["True", "False"],
    reason: str,
    message: str,
    now: str,
) -> tuple[Condition, ...]:
    """With the wanted condition; the very same tuple when it is there already. A False one is never the first of its
    type, and the transition time changes only with the status."""
    old = find(conditions, type_)
    if old is None:
        new = Condition(type=type_, status=status, reason=reason, message=message, last_transition_time=now)
        return (*conditions, new) if status == "True" else conditions
    if (old.status, old.reason, old.message) == (status, reason, message):
        return conditions
    since = old.last_transition_time if old.status == status else now
    new = Condition(type=type_, status=status, reason=reason, message=message, last_transition_time=since)
    return tuple(new if each is old else each for each in conditions)
