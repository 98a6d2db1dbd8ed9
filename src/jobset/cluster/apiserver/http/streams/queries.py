"""Query parameters of log, exec and attach: read, checked, and refused in the API server's words. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from jobset.api.errors import BadRequest, Cause, Invalid
from jobset.api.meta import parse_time
from jobset.cluster.apiserver.http.streams.port import LogOptions

Query: TypeAlias = Mapping[str, Sequence[str]]
"""All values of each parameter."""


@dataclass(frozen=True, slots=True)
class CommandOptions:
    """Which streams a client wants of a command. A terminal has one output, so no standard error."""

    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool


def flag(query: Query, name: str) -> bool:
    """As Kubernetes reads a boolean: given without a value it is true."""
    values = query.get(name) or ()
    return len(values) > 0 and values[0].lower() not in ("false", "0")


def text(query: Query, name: str) -> str:
    return next(iter(query.get(name) or ()), "")


def command_options(query: Query) -> CommandOptions:
    """BadRequest when there is nothing to transfer."""
    tty = flag(query, "tty")
    options = CommandOptions(flag(query, "stdin"), flag(query, "stdout"), flag(query, "stderr") and not tty, tty)
    if not (options.stdin or options.stdout or options.stderr):
        raise BadRequest("you must specify at least 1 of stdin, stdout, stderr")
    return options


def log_options(query: Query, pod_name: str, now: datetime) -> LogOptions:
    """BadRequest for what cannot be read, Invalid for what cannot be meant."""
    tail_lines = _number(query, "tailLines")
    limit_bytes = _number(query, "limitBytes")
    since_seconds = _number(query, "sinceSeconds")
    since = _time(query, "sinceTime")
    problems: list[Cause] = []
    if tail_lines is not None and tail_lines < 0:
        problems.append(_invalid("tailLines", tail_lines, "must be greater than or equal to 0"))
    if limit_bytes is not None and limit_bytes < 1:
        problems.append(_invalid("limitBytes", limit_bytes, "must be greater than 0"))
    if since_seconds is not None and since is not None:
        why = "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"
        problems.append(Cause("FieldValueForbidden", why, ""))
    elif since_seconds is not None and since_seconds < 1:
        problems.append(_invalid("sinceSeconds", since_seconds, "must be greater than 0"))
    if problems:
        raise _refusal(pod_name, problems)
    if since_seconds is not None:
        since = now - timedelta(seconds=since_seconds)
    return LogOptions(
        follow=flag(query, "follow"),
        previous=flag(query, "previous"),
        timestamps=flag(query, "timestamps"),
        tail_lines=tail_lines,
        since=since,
        limit_bytes=limit_bytes,
    )


def _refusal(pod_name: str, problems: list[Cause]) -> Invalid:
    said = [f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in problems]
    words = said[0] if len(said) == 1 else f"[{', '.join(said)}]"
    text = f'PodLogOptions "{pod_name}" is invalid: {words}'
    return Invalid(text, causes=problems, kind="PodLogOptions", name=pod_name)


def _invalid(field: str, value: int, why: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {value}: {why}", field)


def _number(query: Query, name: str) -> int | None:
    given = text(query, name)
    if not given:
        return None
    try:
        return int(given)
    except ValueError:
        raise BadRequest(f'strconv.ParseInt: parsing "{given}": invalid syntax') from None


def _time(query: Query, name: str) -> datetime | None:
    given = text(query, name)
    if not given:
        return None
    try:
        return parse_time(given)
    except ValueError:
        layout = "2006-01-02T15:04:05Z07:00"
        raise BadRequest(f'parsing time "{given}" as "{layout}": cannot parse "{given}"') from None
