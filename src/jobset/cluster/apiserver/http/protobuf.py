"""Bodies in protobuf as plain JSON values: Go clients send Kubernetes' own types so (kubectl create, auth can-i).

Only read, never written: answers are JSON, which all of them take. The field numbers are generated
(tools/generate_protobuf.py). Fields that are zero were mostly never set, protobuf has no other word for it: they are
left out, unless the type makes the difference. Pure.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, TypeAlias

import msgspec

from jobset.api.errors import BadRequest
from jobset.api.generated import protobuf
from jobset.api.meta import Object, format_micro_time, format_time
from jobset.api.schema import definitions

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\0"
_DEEPEST = 64
_META = "io.k8s.apimachinery.pkg."
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ABSENT: Any = object()
_SIGN, _WHOLE = 1 << 63, 1 << 64

Field: TypeAlias = tuple[str, str, str]
"""(name, type, shape); shape: list, map, inline, zero or nothing."""


@cache
def _messages() -> dict[str, dict[int, Field]]:
    return msgspec.json.decode(protobuf.MESSAGES_JSON, type=dict[str, dict[int, tuple[str, str, str]]])


@cache
def _names() -> dict[tuple[str, str], str]:
    """(apiVersion, kind) to the name of the message."""
    found: dict[tuple[str, str], str] = {}
    for name, schema in definitions().items():
        for kind in schema.get("x-kubernetes-group-version-kind") or ():
            version = f"{kind['group']}/{kind['version']}" if kind["group"] else kind["version"]
            if name in _messages():
                found[version, kind["kind"]] = name
    return found


def decode(body: bytes) -> Object:
    """The object in an envelope that says what it is. BadRequest."""
    if not body.startswith(_MAGIC):
        raise BadRequest("provided data does not appear to be a protobuf message, expected prefix 6b 38 73 00")
    try:
        envelope = dict(_fields(body[len(_MAGIC) :]))
        said = dict(_fields(_part(envelope, 1)))
        api_version, kind = _part(said, 1).decode(), _part(said, 2).decode()
        name = _names().get((api_version, kind))
        if name is None:
            raise BadRequest(f'no kind "{kind}" is registered for version "{api_version}" in protobuf')
        value = _message(_part(envelope, 2), name, 0)
    except (ValueError, IndexError, TypeError, OverflowError, struct.error) as error:
        raise BadRequest(f"the body is no protobuf message of Kubernetes: {error}") from error
    return {"kind": kind, "apiVersion": api_version, **value}


def _part(message: dict[int, Any], number: int) -> bytes:
    value = message.get(number, b"")
    if not isinstance(value, bytes):
        raise ValueError(f"field {number} is of a wrong type")
    return value


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(number, value) of a message's fields, in order; numbers without sign, all else as bytes."""
    position, end = 0, len(data)
    while position < end:
        key, position = _varint(data, position)
        number, wire_type = key >> 3, key & 7
        if wire_type == 0:
            value, position = _varint(data, position)
            yield number, value
            continue
        if wire_type == 2:
            length, position = _varint(data, position)
        elif wire_type in (1, 5):
            length = 8 if wire_type == 1 else 4
        else:
            raise ValueError(f"unknown wire type {wire_type}")
        if position + length > end:
            raise ValueError("it ends too early")
        yield number, data[position : position + length]
        position += length


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position
        if shift > 63:
            raise ValueError("a number is too long")


def _message(data: bytes, name: str, depth: int) -> Any:
    if depth > _DEEPEST:
        raise ValueError("it is nested too deeply")
    if (special := _SPECIAL.get(name)) is not None:
        return special(dict(_fields(data)))
    table = _messages().get(name)
    if table is None:
        raise ValueError(f"{name} is not known")
    result: Object = {}
    for number, raw in _fields(data):
        if number in table:
            _take(result, table[number], raw, depth + 1)
    if name.endswith(".ExtraValue"):
        return result.get("items", [])
    return result


def _take(result: Object, field: Field, raw: int | bytes, depth: int) -> None:
    """Put one field into its message."""
    name, type_, shape = field
    if shape == "map":
        entry = dict(_fields(_bytes(raw)))
        empty: int | bytes = 0 if type_ in ("int", "bool") else b""
        result.setdefault(name, {})[_part(entry, 1).decode()] = _value(entry.get(2, empty), type_, depth)
    elif shape == "list":
        listed = result.setdefault(name, [])
        if type_ in ("int", "bool") and isinstance(raw, bytes):
            listed += _packed(raw, type_)
        else:
            listed.append(_value(raw, type_, depth))
    else:
        value = _value(raw, type_, depth)
        if shape == "inline":
            result.update(value)
        elif value is not _ABSENT and (shape == "zero" or "." in type_ or value):
            result[name] = value


def _packed(raw: bytes, type_: str) -> list[Any]:
    position, values = 0, []
    while position < len(raw):
        value, position = _varint(raw, position)
        values.append(_value(value, type_, 0))
    return values


def _bytes(raw: int | bytes) -> bytes:
    if not isinstance(raw, bytes):
        raise ValueError("a number stands where there should be none")
    return raw


def _number(raw: int | bytes) -> int:
    if isinstance(raw, bytes):
        raise ValueError("a number is missing")
    return raw - _WHOLE if raw >= _SIGN else raw


def _value(raw: int | bytes, type_: str, depth: int) -> Any:
    match type_:
        case "string":
            return _bytes(raw).decode()
        case "int":
            return _number(raw)
        case "bool":
            return bool(raw)
        case "bytes":
            return b64encode(_bytes(raw)).decode()
        case "double":
            return struct.unpack("<d", _bytes(raw))[0]
        case _:
            return _message(_bytes(raw), type_, depth)


def _moment(parts: dict[int, Any]) -> datetime:
    return _EPOCH + timedelta(seconds=_number(parts.get(1, 0)), microseconds=_number(parts.get(2, 0)) // 1000)


def _int_or_string(parts: dict[int, Any]) -> int | str:
    return _part(parts, 3).decode() if parts.get(1) else _number(parts.get(2, 0))


def _json(parts: dict[int, Any]) -> Any:
    text = _part(parts, 1)
    return msgspec.json.decode(text) if text else _ABSENT


_SPECIAL = {
    f"{_META}apis.meta.v1.Time": lambda parts: format_time(_moment(parts)) if parts else _ABSENT,
    f"{_META}apis.meta.v1.MicroTime": lambda parts: format_micro_time(_moment(parts)) if parts else _ABSENT,
    f"{_META}api.resource.Quantity": lambda parts: _part(parts, 1).decode(),
    f"{_META}util.intstr.IntOrString": _int_or_string,
    f"{_META}apis.meta.v1.FieldsV1": _json,
    f"{_META}runtime.RawExtension": _json,
}
"""Types that JSON writes as one value."""
