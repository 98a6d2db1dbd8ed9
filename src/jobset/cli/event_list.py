"""Kubernetes Events as lines for people, and which of them are about a JobSet. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

import click

from jobset.api.meta import Object
from jobset.cli.columns import Columns, age_since


class EventList:
    """Events of core/v1; the youngest last."""

    def __init__(self, *, with_namespace: bool = False) -> None:
        self._with_namespace = with_namespace
        headers = ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
        headers = [*(["NAMESPACE"] if with_namespace else []), *headers]
        self._columns = Columns(headers, {headers.index("TYPE"): _type_style})

    def table(self, events: Iterable[Object], now: datetime) -> list[str]:
        return self._columns.table([self._cells(event, now) for event in in_order(events)])

    def lines(self, events: Iterable[Object], now: datetime) -> list[str]:
        """Of those that came later, to stand under the table."""
        return self._columns.lines([self._cells(event, now) for event in in_order(events)])

    def _cells(self, event: Object, now: datetime) -> list[str]:
        about = event["involvedObject"]
        count = (event.get("series") or {}).get("count") or event.get("count") or 1
        message = " ".join(str(event.get("message", "")).split())
        return [
            *([event["metadata"].get("namespace", "")] if self._with_namespace else []),
            age_since(last_seen(event), now),
            event.get("type", ""),
            event.get("reason", ""),
            f"{about.get('kind', '').lower()}/{about.get('name', '')}",
            message + (f" (x{count})" if count > 1 else ""),
        ]


def last_seen(event: Object) -> str:
    """RFC 3339."""
    times = ((event.get("series") or {}).get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return str(next((time for time in times if time), event["metadata"].get("creationTimestamp", "")))


def in_order(events: Iterable[Object]) -> list[Object]:
    """The youngest last; those of one second as they were written."""

    def age_key(event: Object) -> tuple[str, int, str]:
        version = event["metadata"].get("resourceVersion", "")
        return last_seen(event)[:19], len(version), version

    return sorted(events, key=age_key)


def about(name: str, jobset: Object | None) -> Callable[[Object], bool]:
    """Whether an event is about the JobSet of this name or what it made; `jobset` is None when it is gone."""
    replicated = (each["name"] for each in jobset["spec"].get("replicatedJobs") or ()) if jobset else ()
    names = "|".join(map(re.escape, replicated)) or ".+"
    made = re.compile(rf"{re.escape(name)}-({names})-\d+(-.*)?")

    def is_about(event: Object) -> bool:
        regarding = event["involvedObject"]
        if regarding.get("kind") == "JobSet":
            return bool(regarding.get("name") == name)
        return regarding.get("kind") in ("Job", "Pod") and made.fullmatch(regarding.get("name", "")) is not None

    return is_about


def most_telling(events: Sequence[Object], count: int) -> list[Object]:
    """The youngest: of warnings and of what is said of JobSets first, then of the daily life of Jobs and pods."""
    telling = [event for event in events if event.get("type") != "Normal" or _kind(event) == "JobSet"]
    others = [event for event in events if event.get("type") == "Normal" and _kind(event) != "JobSet"]
    chosen = in_order(telling)[-count:]
    left = count - len(chosen)
    return in_order([*chosen, *(in_order(others)[-left:] if left else ())])


def _kind(event: Object) -> str:
    return str(event["involvedObject"].get("kind", ""))


def _type_style(padded: str) -> str:
    return click.style(padded, fg="yellow") if padded.startswith("Warning") else padded
