"""Whether a raw object has the structure its schema asks for; all problems at once, as causes with paths. Pure.

First step of every admission: decode (types), refuse or prune what is unknown, put in the schema's defaults, then check
required fields, enums, bounds, sizes and list keys. What needs knowledge of a kind is not decided here.

A schema (api/schema.py) is compiled once into a `Structure`; those of named definitions are kept. Where nothing is to
change, values are returned as they are, so that unchanged parts stay shared.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any, TypeAlias

from jobset.api.errors import Cause
from jobset.api.field_errors import duplicate, invalid, not_supported, required, too_many, unknown_field, wrong_type
from jobset.api.meta import copy_json
from jobset.api.quantity import parse_quantity
from jobset.api.schema import Schema, definition

ScalarCheck: TypeAlias = Callable[[Any], str]
"""What is wrong with the value, as words to follow the value; empty when nothing is."""

_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_QUANTITY_LIMIT = Decimal(10) ** 30
_ABSENT: Any = object()
_CHECKED = frozenset({"enum", "minimum", "maximum", "minLength", "maxLength", "maxItems", "minItems", "maxProperties"})


def check_structure(value: Any, schema: Schema, path: str = "") -> list[Cause]:
    """All problems of `value`: types, required fields, enums, bounds, sizes, duplicate keys. Unknown fields pass."""
    return structure_of(schema).problems(value, path)


def check_types(value: Any, schema: Schema, path: str = "") -> list[Cause]:
    """Only what cannot be decoded: wrong JSON types, and text that is no quantity, time or base64."""
    return structure_of(schema).type_problems(value, path)


def unknown_fields(value: Any, schema: Schema, path: str = "") -> list[Cause]:
    """Every field that the schema does not have, in the order in which they stand."""
    return structure_of(schema).unknown(value, path)


def prune(value: Any, schema: Schema) -> Any:
    """`value` without the fields that the schema does not have."""
    return structure_of(schema).pruned(value)


def drop_nulls(value: Any, schema: Schema) -> Any:
    """`value` with every null field taken as absent, and null in a map of text as empty text, as Kubernetes decodes."""
    return structure_of(schema).without_nulls(value)


def fill_defaults(value: Any, schema: Schema) -> Any:
    """`value` with the schema's `default`s where a field is absent."""
    return structure_of(schema).defaulted(value)


def structure_of(schema: Schema) -> Structure:
    reference = schema.get("$ref")
    return _named(reference[1:]) if reference else _compile(schema)


@cache
def _named(name: str) -> Structure:
    if name == _QUANTITY:
        return Structure(kind="quantity", scalar=_quantity)
    if name == _INT_OR_STRING:
        return Structure(kind="int-or-string", scalar=_int_or_string)
    return _compile(definition(name), named=True)


@dataclass(slots=True, eq=False)
class Structure:
    """One compiled schema. Children are looked up through their schemas on first use: definitions are recursive."""

    kind: str
    """object, array, one of the scalar types, or any."""
    scalar: ScalarCheck | None = None
    nullable: bool = False
    schema: Schema = field(default_factory=dict)
    """Only for the checks named in `_CHECKED`; empty when there are none."""
    properties: dict[str, Schema | Structure] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    values: Schema | Structure | None = None
    """Of a map: its values; of an array: its items."""
    free: bool = False
    """Fields without a schema belong to it."""
    list_keys: tuple[str, ...] = ()
    is_set: bool = False

    def child(self, name: str) -> Structure | None:
        found = self.properties.get(name)
        if isinstance(found, dict):
            found = self.properties[name] = structure_of(found)
        return found

    def each(self) -> Structure | None:
        if isinstance(self.values, dict):
            self.values = structure_of(self.values)
        return self.values

    def type_problems(self, value: Any, path: str) -> list[Cause]:
        causes: list[Cause] = []
        self._check(value, path, causes, types_only=True)
        return causes

    def problems(self, value: Any, path: str) -> list[Cause]:
        causes: list[Cause] = []
        self._check(value, path, causes, types_only=False)
        return causes

    def _check(self, value: Any, path: str, causes: list[Cause], *, types_only: bool) -> None:
        if self.scalar is not None:
            if (value is not None or not self.nullable) and (problem := self.scalar(value)):
                causes.append(wrong_type(path, value, problem))
                return
        elif self.kind == "object":
            if not isinstance(value, dict):
                if value is not None or not self.nullable:
                    causes.append(wrong_type(path, value, "must be a mapping of fields (type object)"))
                return
            self._check_object(value, path, causes, types_only)
        elif self.kind == "array":
            if not isinstance(value, list):
                if value is not None or not self.nullable:
                    causes.append(wrong_type(path, value, "must be a list (type array)"))
                return
            self._check_array(value, path, causes, types_only)
        if self.schema and not types_only and value is not None:
            causes.extend(_limit_problems(self.schema, value, path))

    def _check_object(self, value: dict[str, Any], path: str, causes: list[Cause], types_only: bool) -> None:
        if not types_only:
            missing = [name for name in self.required if value.get(name) is None]
            causes.extend(required(_join(path, name), self._choices(name)) for name in missing)
        each = self.each()
        for name, item in value.items():
            child = self.child(name)
            if child is not None:
                if item is not None or name not in self.required:  # a required field that is null was reported
                    child._check(item, _join(path, name), causes, types_only=types_only)
            elif each is not None:
                each._check(item, _join(path, name), causes, types_only=types_only)

    def _choices(self, name: str) -> str:
        child = self.child(name)
        choices = child.schema.get("enum") if child else None
        return "one of " + ", ".join(f'"{choice}"' for choice in choices) if choices else ""

    def _check_array(self, value: list[Any], path: str, causes: list[Cause], types_only: bool) -> None:
        each = self.each()
        if each is not None:
            for index, item in enumerate(value):
                if item is None and each.kind != "any":
                    causes.append(wrong_type(f"{path}[{index}]", item, "a list item must not be empty"))
                else:
                    each._check(item, f"{path}[{index}]", causes, types_only=types_only)
        if (self.list_keys or self.is_set) and not types_only:
            causes.extend(self._duplicates(value, path))

    def _duplicates(self, value: list[Any], path: str) -> list[Cause]:
        seen: set[str] = set()
        causes = []
        for index, item in enumerate(value):
            if self.list_keys:
                if not isinstance(item, dict):
                    continue
                item = {key: item[key] for key in self.list_keys if item.get(key) is not None}
            identity = repr(item)
            if identity in seen:
                causes.append(duplicate(f"{path}[{index}]", item))
            seen.add(identity)
        return causes

    def unknown(self, value: Any, path: str) -> list[Cause]:
        causes: list[Cause] = []
        self._find_unknown(value, path, causes)
        return causes

    def _find_unknown(self, value: Any, path: str, causes: list[Cause]) -> None:
        if isinstance(value, dict) and self.kind == "object":
            each = self.each()
            for name, item in value.items():
                child = self.child(name) or each
                if child is not None:
                    child._find_unknown(item, _join(path, name), causes)
                elif not self.free:
                    causes.append(unknown_field(_join(path, name), self.properties))
        elif isinstance(value, list) and (each := self.each()) is not None:
            for index, item in enumerate(value):
                each._find_unknown(item, f"{path}[{index}]", causes)

    def pruned(self, value: Any) -> Any:
        return self._rebuilt(value, _prune_field)

    def without_nulls(self, value: Any) -> Any:
        return self._rebuilt(value, _drop_null_field)

    def defaulted(self, value: Any) -> Any:
        return self._rebuilt(value, _keep_field, fill=True)

    def _rebuilt(self, value: Any, keep: _FieldRule, fill: bool = False) -> Any:
        """`value` with each field passed through `keep`; the same object when nothing changed."""
        if isinstance(value, dict) and self.kind == "object":
            return self._rebuilt_object(value, keep, fill)
        each = self.each() if isinstance(value, list) else None
        if each is None:
            return value
        items = [each._rebuilt(item, keep, fill) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value

    def _rebuilt_object(self, value: dict[str, Any], keep: _FieldRule, fill: bool) -> dict[str, Any]:
        each = self.each()
        changed: dict[str, Any] | None = None
        for name, item in value.items():
            child = self.child(name) or each
            new = keep(self, child, item, name)
            if new is not _ABSENT and child is not None:
                new = child._rebuilt(new, keep, fill)
            if new is not item:
                changed = dict(value) if changed is None else changed
                if new is _ABSENT:
                    del changed[name]
                else:
                    changed[name] = new
        if fill:
            for name, schema in self.schema.get("defaults", _NOTHING).items():
                if name not in value:
                    changed = dict(value) if changed is None else changed
                    child = self.child(name)
                    changed[name] = child._rebuilt(copy_json(schema), keep, fill) if child else copy_json(schema)
        return value if changed is None else changed


_FieldRule: TypeAlias = Callable[[Structure, Structure | None, Any, str], Any]
_NOTHING: dict[str, Any] = {}


def _keep_field(_parent: Structure, _child: Structure | None, item: Any, _name: str) -> Any:
    return item


def _prune_field(parent: Structure, child: Structure | None, item: Any, _name: str) -> Any:
    return item if child is not None or parent.free else _ABSENT


def _drop_null_field(parent: Structure, child: Structure | None, item: Any, name: str) -> Any:
    if item is not None:
        return item
    is_text_map = child is not None and child.kind == "string" and name not in parent.properties
    return "" if is_text_map else _ABSENT


def _compile(schema: Schema, *, named: bool = False) -> Structure:
    types = schema.get("type", ())
    types = (types,) if isinstance(types, str) else tuple(types)
    nullable = "null" in types or bool(schema.get("nullable"))
    kind = next((name for name in types if name != "null"), "any")
    if schema.get("x-kubernetes-int-or-string"):
        return Structure(kind="int-or-string", scalar=_int_or_string, nullable=nullable, schema=_limits(schema))
    properties = schema.get("properties", _NOTHING)
    if kind == "any" and properties:
        kind = "object"
    additional = schema.get("additionalProperties")
    free = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or additional is True or (named and not properties)
    return Structure(
        kind=kind,
        scalar=_scalar_check(kind, schema.get("format", "")),
        nullable=nullable,
        schema=_limits(schema),
        properties=dict(properties),
        required=tuple(schema.get("required", ())),
        values=schema.get("items") if kind == "array" else additional if isinstance(additional, dict) else None,
        free=free,
        list_keys=tuple(schema.get("x-kubernetes-list-map-keys", ())),
        is_set=schema.get("x-kubernetes-list-type") == "set",
    )


def _limits(schema: Schema) -> Schema:
    """The part of a schema that is looked at for every value; mostly empty."""
    limits = {key: schema[key] for key in _CHECKED & schema.keys()}
    defaults = {
        name: child["default"] for name, child in schema.get("properties", _NOTHING).items() if "default" in child
    }
    if defaults:
        limits["defaults"] = defaults
    return limits


def _limit_problems(schema: Schema, value: Any, path: str) -> list[Cause]:
    if "enum" in schema and value not in schema["enum"]:
        return [not_supported(path, value, schema["enum"])]
    causes = []
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value < schema.get("minimum", value):
            causes.append(invalid(path, value, f"must be greater than or equal to {schema['minimum']}"))
        if value > schema.get("maximum", value):
            causes.append(invalid(path, value, f"must be less than or equal to {schema['maximum']}"))
    elif isinstance(value, str):
        if len(value) > schema.get("maxLength", len(value)):
            causes.append(Cause("FieldValueTooLong", f"Too long: at most {schema['maxLength']} characters", path))
        if len(value) < schema.get("minLength", 0):
            causes.append(invalid(path, value, f"must be at least {schema['minLength']} characters long"))
    elif isinstance(value, list):
        if len(value) > schema.get("maxItems", len(value)):
            causes.append(too_many(path, len(value), schema["maxItems"]))
        if len(value) < schema.get("minItems", 0):
            causes.append(invalid(path, len(value), f"must have at least {schema['minItems']} items"))
    elif isinstance(value, dict) and len(value) > schema.get("maxProperties", len(value)):
        causes.append(too_many(path, len(value), schema["maxProperties"]))
    return causes


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _scalar_check(kind: str, format_: str) -> ScalarCheck | None:
    return _SCALARS.get((kind, format_)) or _SCALARS.get((kind, ""))


def _string(value: Any) -> str:
    if isinstance(value, str):
        return ""
    hint = "; write it in quotes" if isinstance(value, bool | int | float) else ""
    return f"must be text (type string){hint}"


def _boolean(value: Any) -> str:
    return "" if isinstance(value, bool) else "must be true or false (type boolean)"


def _integer(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return ""
    return "must be a whole number (type integer)"


def _int32(value: Any) -> str:
    return _integer(value) or ("" if -(2**31) <= value < 2**31 else "does not fit in 32 bits (at most 2147483647)")


def _int64(value: Any) -> str:
    return _integer(value) or ("" if -(2**63) <= value < 2**63 else "does not fit in 64 bits")


def _number(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return ""
    return "must be a number (type number)"


def _quantity(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return "must be a quantity, such as 500m, 2 or 1Gi"
    try:
        amount = parse_quantity(value)
    except ValueError as error:
        return str(error)
    return "" if abs(amount) < _QUANTITY_LIMIT else "is out of range"


def _int_or_string(value: Any) -> str:
    return "" if isinstance(value, str) else _int32(value) and "must be a whole number or text"


def _date_time(value: Any) -> str:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    return (
        "" if moment is not None and moment.tzinfo else "must be a time in RFC 3339 form, such as 2026-01-31T12:00:00Z"
    )


def _base64(value: Any) -> str:
    try:
        b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        return "must be text in base64"
    return ""


_SCALARS: dict[tuple[str, str], ScalarCheck] = {
    ("string", ""): _string,
    ("string", "date-time"): _date_time,
    ("string", "byte"): _base64,
    ("integer", ""): _integer,
    ("integer", "int32"): _int32,
    ("integer", "int64"): _int64,
    ("boolean", ""): _boolean,
    ("number", ""): _number,
}
