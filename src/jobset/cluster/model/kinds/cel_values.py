"""Custom resources as rules in CEL see them: field names made identifiers, numbers and bytes by their schema. Pure.

`self.a-b` is no CEL: the field is `self.a__dash__b` there. Fields that the schema does not declare are not seen, and
of the metadata of a whole object only its name and generateName.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from jobset.api.schema import Schema

_RESERVED = frozenset(
    (
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
        "let", "loop", "package", "namespace", "return",
    )
)  # fmt: skip
_ESCAPES = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h|d|w)")
_TEXT: Schema = {"type": "string"}
_OBJECT_PROPERTIES: dict[str, Schema] = {
    "apiVersion": _TEXT,
    "kind": _TEXT,
    "metadata": {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}},
}


@cache
def identifier(name: str) -> str:
    """The name under which a rule finds a field."""
    if name in _RESERVED:
        return f"__{name}__"
    for text, escape in _ESCAPES:
        name = name.replace(text, escape)
    return name


def with_object_fields(schema: Schema) -> Schema:
    """The schema of a whole object: apiVersion, kind and a little metadata belong to it."""
    return {**schema, "properties": {**(schema.get("properties") or {}), **_OBJECT_PROPERTIES}}


def declared(schema: Schema) -> dict[str, Schema]:
    """The fields of an object schema by their names in CEL."""
    if schema.get("x-kubernetes-embedded-resource"):
        schema = with_object_fields(schema)
    return {identifier(name): child for name, child in (schema.get("properties") or {}).items()}


def cel_value(value: Any, schema: Schema) -> Any:
    """A value as a rule sees it, apart from times: those are `time_value`, possible only for `self` as a whole."""
    if isinstance(value, dict):
        return _cel_object(value, schema)
    if isinstance(value, list):
        items = schema.get("items") or {}
        return [cel_value(item, items) for item in value]
    type_ = schema.get("type")
    if type_ == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type_ == "string" and schema.get("format") == "byte":
        try:
            return base64.b64decode(value)
        except (binascii.Error, ValueError):
            return value
    return value


def _cel_object(value: dict[str, Any], schema: Schema) -> dict[str, Any]:
    values = schema.get("additionalProperties")
    if isinstance(values, dict):
        return {name: cel_value(item, values) for name, item in value.items()}
    if not schema.get("properties") and not schema.get("x-kubernetes-embedded-resource"):
        return value
    if schema.get("x-kubernetes-embedded-resource"):
        schema = with_object_fields(schema)
    properties = schema["properties"]
    return {identifier(name): cel_value(item, properties[name]) for name, item in value.items() if name in properties}


def time_value(value: Any, schema: Schema) -> Any:
    """What a string is when its format says that it is a time; any other value itself."""
    if not isinstance(value, str):
        return value
    match time_type(schema):
        case "timestamp":
            return datetime.fromisoformat(value)
        case "duration":
            parts = _DURATION_PART.findall(value)
            seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
            return timedelta(seconds=-seconds if value.startswith("-") else seconds) if parts else value
    return value


def time_type(schema: Schema) -> str:
    """timestamp, duration or nothing."""
    if schema.get("type") != "string":
        return ""
    return {"date-time": "timestamp", "date": "timestamp", "duration": "duration"}.get(schema.get("format") or "", "")


def has_times(schema: Any) -> bool:
    """Whether a time is anywhere in values of this schema."""
    if isinstance(schema, dict):
        return bool(time_type(schema)) or any(has_times(child) for child in schema.values())
    return isinstance(schema, list) and any(has_times(child) for child in schema)
