"""Bytes of answers to what the caller asked for: a view decodes only what it names, `dict` gives everything.

A watch is one JSON object a line, of any length: lines are split here, whatever pieces they arrive in.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Generic, TypeVar, cast, get_args

import msgspec

from jobset.api.errors import from_status
from jobset.api.resources import Resource
from jobset.client.port import EventType, ObjectList, WatchEvent

T = TypeVar("T")

_CHANGES = frozenset(get_args(EventType)) - {"BOOKMARK"}


class _ListMeta(msgspec.Struct, rename="camel", gc=False):
    resource_version: str = ""
    continue_token: str = msgspec.field(name="continue", default="")


class _ListOf(msgspec.Struct, Generic[T]):
    metadata: _ListMeta
    items: list[T] | None = None


class _EventOf(msgspec.Struct, Generic[T]):
    type: str
    object: T


class _Versioned(msgspec.Struct):
    metadata: _ListMeta


@cache
def _list_decoder(as_: Any) -> msgspec.json.Decoder[_ListOf[Any]]:
    return msgspec.json.Decoder(_ListOf[as_])


@cache
def _event_decoder(as_: Any) -> msgspec.json.Decoder[_EventOf[Any]]:
    return msgspec.json.Decoder(_EventOf[as_])


def decode_list(body: bytes, resource: Resource, as_: type[T]) -> ObjectList[T]:
    found: _ListOf[T] = _list_decoder(cast("Any", as_)).decode(body)
    items = found.items or []
    if as_ is dict:  # the items of a list do not say what they are
        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
        items = [cast("T", {**kind, **cast("dict[str, Any]", item)}) for item in items]
    return ObjectList(items, found.metadata.resource_version, found.metadata.continue_token)


def decode_event(line: bytes, as_: type[T]) -> WatchEvent[T]:
    """One line of a watch. Raises what the server tells as an ERROR, such as Gone."""
    try:
        event: _EventOf[T] = _event_decoder(cast("Any", as_)).decode(line)
    except msgspec.ValidationError:
        return _other_event(line, as_)  # bookmarks and errors need not have the shape of a view
    if event.type not in _CHANGES:
        return _other_event(line, as_)
    return WatchEvent(cast("EventType", event.type), event.object, _version(event.object))


def _other_event(line: bytes, as_: type[T]) -> WatchEvent[T]:
    outline: _EventOf[msgspec.Raw] = _event_decoder(msgspec.Raw).decode(line)
    if outline.type == "ERROR":
        raise from_status(msgspec.json.decode(outline.object))
    if outline.type == "BOOKMARK":
        bookmark = msgspec.json.decode(outline.object, type=_Versioned)
        return WatchEvent("BOOKMARK", None, bookmark.metadata.resource_version)
    obj = msgspec.json.decode(outline.object, type=as_)
    return WatchEvent(cast("EventType", outline.type), obj, _version(obj))


def _version(obj: Any) -> str:
    found: str = obj["metadata"]["resourceVersion"] if isinstance(obj, dict) else obj.metadata.resource_version
    return found


class Lines:
    """Cuts a stream into lines. Takes time in proportion to what arrives, however long a line is."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes, without their ends and without empty ones."""
        *ended, rest = chunk.split(b"\n")
        if ended:
            self._begun.append(ended[0])
            ended[0] = b"".join(self._begun)
            self._begun = []
        if rest:
            self._begun.append(rest)
        return [line for line in ended if line]
