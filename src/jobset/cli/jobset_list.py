"""JobSets as lines of a list, one for each. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from jobset.api.meta import Object, condition_of
from jobset.cli.board import jobset_row, jobset_state
from jobset.cli.columns import Columns, age_of, state_style

_TELLING = ("Failed", "Completed", "Blocked", "RestartingJobSet", "Suspended", "StartupPolicyInProgress")
"""Conditions whose message says most about a JobSet, the most telling first."""


class JobSetList:
    """`wide` adds how far each replicated job is, and the latest message."""

    def __init__(self, *, wide: bool, with_namespace: bool) -> None:
        self._wide = wide
        self._with_namespace = with_namespace
        headers = ["NAME", "STATE", "RESTARTS", "READY", "AGE"]
        headers = [*(["NAMESPACE"] if with_namespace else []), *headers]
        headers += ["REPLICATED JOBS", "MESSAGE"] if wide else []
        self._columns = Columns(headers, {headers.index("STATE"): state_style})

    def table(self, jobsets: Sequence[Object], now: datetime) -> list[str]:
        return self._columns.table([self._cells(jobset, now, jobset_word(jobset)) for jobset in jobsets])

    def lines(self, jobsets: Sequence[Object], now: datetime, *, deleted: bool = False) -> list[str]:
        """Of those that changed, to stand under the table."""
        return self._columns.lines(
            [self._cells(each, now, "Deleted" if deleted else jobset_word(each)) for each in jobsets]
        )

    def _cells(self, jobset: Object, now: datetime, state: str) -> list[str]:
        metadata, status = jobset["metadata"], jobset.get("status") or {}
        row = jobset_row(jobset, (), ())
        cells = [metadata["namespace"]] if self._with_namespace else []
        cells += [metadata["name"], state, str(status.get("restarts", 0)), f"{row.up}/{row.wanted}"]
        cells.append(age_of(jobset, now))
        if self._wide:
            cells.append(
                ", ".join(f"{group.name} {group.ready + group.succeeded}/{group.wanted}" for group in row.groups)
            )
            cells.append(latest_message(jobset))
        return cells


def jobset_word(jobset: Object) -> str:
    """The state of a JobSet in one word, its deletion included."""
    return "Deleting" if jobset["metadata"].get("deletionTimestamp") else jobset_state(jobset)


def latest_message(jobset: Object) -> str:
    for type_ in _TELLING:
        condition = condition_of(jobset, type_)
        if condition is not None and condition.get("status") == "True":
            return str(condition.get("message", ""))
    return ""
