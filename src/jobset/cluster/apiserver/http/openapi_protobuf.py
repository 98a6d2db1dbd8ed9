"""OpenAPI version 2 in the protobuf form that Go clients ask for; old ones, such as kubectl 1.20, take nothing else.

Only what a document of openapi.py holds. The numbers are those of the fields of OpenAPIv2.proto (gnostic). Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import yaml

from jobset.api.meta import Object
from jobset.api.schema import Schema

_VARINT, _DOUBLE, _BYTES = 0, 1, 2
_TEXTS = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13, "discriminator": 26}
_NUMBERS = {"multipleOf": 6, "maximum": 7, "minimum": 9}
_COUNTS = {"maxLength": 11, "minLength": 12, "maxItems": 14, "minItems": 15, "maxProperties": 17, "minProperties": 18}
_FLAGS = {"exclusiveMaximum": 8, "exclusiveMinimum": 10, "uniqueItems": 16, "readOnly": 27}
_OPERATIONS = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def encode_swagger(document: Object) -> bytes:
    info = _text(1, document["info"]["title"]) + _text(2, document["info"]["version"])
    paths = b"".join(_bytes(2, _named(path, _path(item))) for path, item in document["paths"].items())
    definitions = b"".join(_bytes(1, _named(name, _schema(one))) for name, one in document["definitions"].items())
    return _text(1, document["swagger"]) + _bytes(2, info) + _bytes(8, paths) + _bytes(9, definitions)


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _tag(field: int, wire_type: int) -> bytes:
    return _varint(field << 3 | wire_type)


def _bytes(field: int, value: bytes) -> bytes:
    return _tag(field, _BYTES) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def _count(field: int, value: int) -> bytes:
    return _tag(field, _VARINT) + _varint(value)


def _named(name: str, value: bytes) -> bytes:
    return _text(1, name) + _bytes(2, value)


def _any(value: Any) -> bytes:
    """A value of any kind travels as YAML."""
    plain = msgspec.json.decode(msgspec.json.encode(value))
    text: str = yaml.dump(plain, Dumper=_DUMPER, default_flow_style=isinstance(value, str | int | float | bool))
    return _text(2, text.removesuffix("...\n"))


def _extensions(field: int, values: Mapping[str, Any]) -> bytes:
    return b"".join(_bytes(field, _named(key, _any(value))) for key, value in values.items() if key.startswith("x-"))


def _schema(schema: Schema) -> bytes:
    out = [_text(number, schema[key]) for key, number in _TEXTS.items() if key in schema]
    out += [_tag(number, _DOUBLE) + struct.pack("<d", schema[key]) for key, number in _NUMBERS.items() if key in schema]
    out += [_count(number, int(schema[key])) for key, number in (_COUNTS | _FLAGS).items() if key in schema]
    if "default" in schema:
        out.append(_bytes(5, _any(schema["default"])))
    out += [_text(19, name) for name in schema.get("required", ())]
    out += [_bytes(20, _any(value)) for value in schema.get("enum", ())]
    out.append(_nested(schema))
    out.append(_extensions(31, schema))
    return b"".join(out)


def _nested(schema: Schema) -> bytes:
    out = []
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        out.append(_bytes(21, _bytes(1, _schema(additional))))
    elif additional is not None:
        out.append(_bytes(21, _count(2, int(additional))))
    if "type" in schema:
        out.append(_bytes(22, _text(1, schema["type"])))
    if "items" in schema:
        out.append(_bytes(23, _bytes(1, _schema(schema["items"]))))
    out += [_bytes(24, _schema(one)) for one in schema.get("allOf", ())]
    if "properties" in schema:
        out.append(_bytes(25, b"".join(_bytes(1, _named(n, _schema(one))) for n, one in schema["properties"].items())))
    return b"".join(out)


def _path(item: Object) -> bytes:
    out = [_bytes(number, _operation(item[method])) for method, number in _OPERATIONS.items() if method in item]
    return b"".join(out) + _parameters(9, item.get("parameters", ()))


def _operation(operation: Object) -> bytes:
    answers = b"".join(_bytes(2, _named(code, _bytes(1, _answer(one)))) for code, one in operation["responses"].items())
    return (
        _text(5, operation["operationId"])
        + b"".join(_text(7, media_type) for media_type in operation.get("consumes", ()))
        + _parameters(8, operation.get("parameters", ()))
        + _bytes(9, answers)
        + _extensions(13, operation)
    )


def _answer(answer: Object) -> bytes:
    return _text(1, answer["description"]) + _bytes(2, _bytes(1, _schema(answer["schema"])))


def _parameters(field: int, parameters: Iterable[Object]) -> bytes:
    return b"".join(_bytes(field, _bytes(1, _parameter(one))) for one in parameters)


def _parameter(parameter: Object) -> bytes:
    name, place = parameter["name"], parameter["in"]
    required = _count(1, 1) if parameter.get("required") else b""
    if place == "body":
        body = _text(2, name) + _text(3, place) + (_count(4, 1) if required else b"")
        return _bytes(1, body + _bytes(5, _schema(parameter["schema"])))
    if place == "path":
        return _bytes(2, _bytes(4, required + _text(2, place) + _text(4, name) + _text(5, parameter["type"])))
    return _bytes(2, _bytes(3, required + _text(2, place) + _text(4, name) + _text(6, parameter["type"])))
