"""Requests for what containers wrote. Pure."""

from __future__ import annotations

from msgspec import Struct

from jobset.api.resources import PODS
from jobset.client.requests import Request, path_of


class LogOptions(Struct, frozen=True):
    """Which part of a log, and how. None: all of it. `previous`: of the container's run before this one."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since_s: int | None = None
    since: str = ""
    """RFC 3339, instead of `since_s`."""


def log_request(namespace: str, pod: str, container: str, options: LogOptions) -> Request:
    query = {"container": container}
    for name, flag in (("follow", options.follow), ("previous", options.previous), ("timestamps", options.timestamps)):
        if flag:
            query[name] = "true"
    if options.since:
        query["sinceTime"] = options.since
    for name, number in (("tailLines", options.tail_lines), ("sinceSeconds", options.since_s)):
        if number is not None:
            query[name] = str(number)
    return Request("GET", path_of(PODS, namespace, pod, "log"), query)
