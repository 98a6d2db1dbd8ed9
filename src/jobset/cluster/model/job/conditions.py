"""A Job's conditions as the Job controller writes them: in place when known, at the end when new. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct

from jobset.api.meta import Object, condition_of, format_time


class Verdict(Struct, frozen=True):
    """How the Job ends. It is announced (FailureTarget, SuccessCriteriaMet) before pods have gone, final after."""

    final: Literal["Complete", "Failed"]
    reason: str
    message: str

    @property
    def announcement(self) -> str:
        return "SuccessCriteriaMet" if self.final == "Complete" else "FailureTarget"


def has(job: Object, type_: str) -> bool:
    condition = condition_of(job, type_)
    return condition is not None and condition["status"] == "True"


def is_finished(job: Object) -> bool:
    return has(job, "Complete") or has(job, "Failed")


def announced(job: Object) -> Verdict | None:
    """The verdict of an earlier pass."""
    for type_, final in (("SuccessCriteriaMet", "Complete"), ("FailureTarget", "Failed")):
        condition = condition_of(job, type_)
        if condition is not None and condition["status"] == "True":
            verdict: Literal["Complete", "Failed"] = "Complete" if final == "Complete" else "Failed"
            return Verdict(verdict, condition.get("reason", ""), condition.get("message", ""))
    return None


def with_condition(
    conditions: Sequence[Object], type_: str, status: str, reason: str, message: str, now: datetime
) -> Sequence[Object]:
    """`conditions` with this one; the very same sequence when it says so already, or denies what nobody claimed."""
    at = next((at for at, condition in enumerate(conditions) if condition["type"] == type_), None)
    if at is None and status == "False":
        return conditions
    if at is not None:
        old = conditions[at]
        if (old["status"], old.get("reason"), old.get("message")) == (status, reason, message):
            return conditions
    moment = format_time(now)
    new = {
        "type": type_,
        "status": status,
        "lastProbeTime": moment,
        "lastTransitionTime": moment,
        "reason": reason,
        "message": message,
    }
    return [*conditions, new] if at is None else [*conditions[:at], new, *conditions[at + 1 :]]
