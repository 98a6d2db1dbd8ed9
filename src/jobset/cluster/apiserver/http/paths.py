"""From method, path and query of a request to what it is about: verb, resource, namespace, name. Pure.

The first step of every request: authorization decides on the `RequestInfo`, the verbs act on it. Whether such a
resource is served at all is not decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import TypeAlias
from urllib.parse import parse_qsl

Query: TypeAlias = Mapping[str, str]
"""Query parameters; of one that is given more than once, the first."""

_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_OF_ALL = {"get": "list", "delete": "deletecollection"}
_OF_NAMESPACES = ("status", "finalize")
"""Subresources of a namespace, which stand where a namespaced resource would."""
_TRUE = ("true", "1")
_NAME_SELECTOR = "metadata.name="


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """What a request is about, with Kubernetes' own words for it.

    `name` of a list or watch is the one that its field selector asks for, as authorization has it. Of a request for
    anything but a resource, only `verb` (the method in lower case) and `path` tell.
    """

    verb: str
    path: str
    is_resource: bool = False
    group: str = ""
    version: str = ""
    resource: str = ""
    """The plural."""
    namespace: str = ""
    name: str = ""
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class _Place:
    group: str
    version: str
    resource: str
    namespace: str
    name: str
    subresource: str
    watch: bool


@lru_cache(maxsize=1024)
def parse_query(text: str) -> Query:
    query: dict[str, str] = {}
    for key, value in parse_qsl(text, keep_blank_values=True):
        query.setdefault(key, value)
    return MappingProxyType(query)


def request_info(method: str, path: str, query: Query) -> RequestInfo:
    """`path` is decoded."""
    place = _place(path)
    if place is None:
        return RequestInfo(method.lower(), path)
    verb, name = _VERBS.get(method, method.lower()), place.name
    if not name and verb in _OF_ALL:
        verb = _OF_ALL[verb]
        name = _selected_name(query.get("fieldSelector", ""))
    if verb in ("get", "list") and (place.watch or query.get("watch") in _TRUE) and not place.subresource:
        verb = "watch"
    return RequestInfo(
        verb, path, True, place.group, place.version, place.resource, place.namespace, name, place.subresource
    )


@lru_cache(maxsize=4096)
def _place(path: str) -> _Place | None:
    """Where in the tree of resources a path points; None when it is not about a resource."""
    parts = [part for part in path.split("/") if part]
    if len(parts) > 2 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) > 3 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    watch = rest[0] == "watch" and len(rest) > 1
    rest = rest[watch:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _OF_NAMESPACES:
            rest = rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    return _Place(group, version, rest[0], namespace, name, "/".join(rest[2:]), watch)


def _selected_name(field_selector: str) -> str:
    """The one name that a field selector asks for, if it does."""
    for term in field_selector.split(","):
        if term.startswith(_NAME_SELECTOR):
            return term[len(_NAME_SELECTOR) :].removeprefix("=")
    return ""
