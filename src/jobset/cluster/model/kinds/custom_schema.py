"""Whether a custom resource is as its definition's schema (OpenAPI v3, structural) says. Pure.

All problems at once, at the paths and with the reasons of a Kubernetes API server. Given the stored object, what did
not change since is not looked at: a schema that became stricter must not block changes elsewhere in the object.
Unknown fields, pruning and defaults are api/structure.py's, rules in CEL are cel_rules.py's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import re2
from msgspec import Struct, field

from jobset.api.errors import Cause
from jobset.api.field_errors import TYPE_INVALID, duplicate, invalid, not_supported, required, too_long, too_many
from jobset.api.schema import Schema
from jobset.cluster.model.kinds.custom_formats import FORMATS

NOWHERE = "<nil>"
"""The field of problems that Kubernetes cannot place."""

ABSENT: Any = object()
Pattern = Callable[[str], Any]


class Node(Struct, eq=False):
    """One schema, compiled."""

    type: str = ""
    format: str = ""
    nullable: bool = False
    int_or_string: bool = False
    enum: tuple[Any, ...] = ()
    limits: Schema = field(default_factory=dict)
    pattern: Pattern | None = None
    properties: dict[str, Node] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    values: Node | None = None
    """Of a map: its values; of an array: its items."""
    list_keys: tuple[str, ...] = ()
    key_defaults: dict[str, Any] = field(default_factory=dict)
    is_set: bool = False
    all_of: tuple[Node, ...] = ()
    any_of: tuple[Node, ...] = ()
    one_of: tuple[Node, ...] = ()
    negated: Node | None = None


_LIMITS = frozenset(
    (
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
        "minItems", "maxItems", "minProperties", "maxProperties", "uniqueItems",
    )
)  # fmt: skip


def compile_schema(schema: Schema) -> Node:
    """ValueError if a pattern is no regular expression."""
    additional, items = schema.get("additionalProperties"), schema.get("items")
    values = items if schema.get("type") == "array" else additional
    list_type = schema.get("x-kubernetes-list-type")
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ()) if list_type == "map" else ()
    fields = (items or {}).get("properties") or {} if isinstance(items, dict) else {}
    return Node(
        type=schema.get("type") or "",
        format=schema.get("format") or "",
        nullable=bool(schema.get("nullable")),
        int_or_string=bool(schema.get("x-kubernetes-int-or-string")),
        enum=tuple(schema.get("enum") or ()),
        limits={key: schema[key] for key in _LIMITS & schema.keys()},
        pattern=compile_pattern(schema["pattern"]) if schema.get("pattern") else None,
        properties={name: compile_schema(child) for name, child in (schema.get("properties") or {}).items()},
        required=tuple(schema.get("required") or ()),
        values=compile_schema(values) if isinstance(values, dict) else None,
        list_keys=keys,
        key_defaults={key: fields[key]["default"] for key in keys if "default" in fields.get(key, {})},
        is_set=list_type == "set",
        all_of=tuple(map(compile_schema, schema.get("allOf") or ())),
        any_of=tuple(map(compile_schema, schema.get("anyOf") or ())),
        one_of=tuple(map(compile_schema, schema.get("oneOf") or ())),
        negated=compile_schema(schema["not"]) if schema.get("not") else None,
    )


def compile_pattern(text: str) -> Pattern:
    """Linear-time matching, and the same dialect as Kubernetes. ValueError if it is no regular expression."""
    options = re2.Options()
    options.log_errors = False
    try:
        search: Pattern = re2.compile(text, options).search
    except re2.error as error:
        detail = error.args[0] if error.args else ""
        raise ValueError(detail.decode() if isinstance(detail, bytes) else str(detail)) from None
    return search


def schema_problems(node: Node, value: Any, path: str, old: Any = ABSENT) -> Iterator[Cause]:
    """What is wrong with `value` at `path`, but for what is as it was in `old`."""
    if old is not ABSENT and (value is old or value == old):
        return
    wrong = _type_problem(node, value, path)
    if wrong:
        yield from wrong
        return
    if value is None:
        return
    if node.enum and not _in(value, node.enum):
        yield not_supported(path, value, [one if isinstance(one, str) else json.dumps(one) for one in node.enum])
    if node.limits or node.pattern:
        yield from _limit_problems(node, value, path)
    yield from _combined_problems(node, value, path)
    if isinstance(value, dict):
        yield from _object_problems(node, value, path, old)
    elif isinstance(value, list):
        yield from _array_problems(node, value, path, old)


def _in(value: Any, choices: tuple[Any, ...]) -> bool:
    return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in choices)


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    names = ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "array"), (dict, "object"))
    return next(name for kind, name in names if isinstance(value, kind))


def _wrong_type(path: str, expected: str, found: str) -> Cause:
    return Cause(TYPE_INVALID, f'Invalid value: "{found}": {path} in body must be of type {expected}: "{found}"', path)


def _type_problem(node: Node, value: Any, path: str) -> list[Cause]:
    if value is None:
        return [] if node.nullable or not (node.type or node.int_or_string) else [_wrong_type(path, node.type, "null")]
    found = _type_name(value)
    if node.int_or_string:
        return [] if found in ("integer", "string") else [_wrong_type(path, "integer,string", found)]
    whole = isinstance(value, float) and value.is_integer()
    if not node.type or found == node.type or (node.type == "number" and found == "integer"):
        return _format_problem(node, value, path)
    if node.type == "integer" and found == "number":
        if whole:
            return _format_problem(node, int(value), path)
        return [_wrong_type(path, node.format or "integer", "float64"), *_unplaced(node, path)]
    return [_wrong_type(path, node.type, found)]


def _unplaced(node: Node, path: str) -> list[Cause]:
    if not node.format:
        return []
    detail = f"Checked value must be of type {node.type} with format {node.format} in {path}"
    return [invalid(NOWHERE, "", detail)]


def _format_problem(node: Node, value: Any, path: str) -> list[Cause]:
    if isinstance(value, str):
        known = FORMATS.get(node.format)
        return [] if known is None or known(value) else [_wrong_type(path, node.format, value)]
    if node.type == "integer" and node.format in ("int32", "int64"):
        bits = 31 if node.format == "int32" else 63
        return [] if -(1 << bits) <= value < 1 << bits else _unplaced(node, path)
    return []


def _limit_problems(node: Node, value: Any, path: str) -> Iterator[Cause]:
    limits = node.limits
    if isinstance(value, str):
        if len(value) > limits.get("maxLength", len(value)):
            yield too_long(path, limits["maxLength"])
        if len(value) < limits.get("minLength", 0):
            yield invalid(path, value, f"{path} in body should be at least {limits['minLength']} chars long")
        if node.pattern is not None and not node.pattern(value):
            yield invalid(path, value, f"{path} in body should match its pattern")
    elif isinstance(value, list):
        if len(value) > limits.get("maxItems", len(value)):
            yield too_many(path, len(value), limits["maxItems"])
        if len(value) < limits.get("minItems", 0):
            yield invalid(path, len(value), f"{path} in body should have at least {limits['minItems']} items")
    elif isinstance(value, dict):
        if len(value) > limits.get("maxProperties", len(value)):
            yield too_many(path, len(value), limits["maxProperties"])
        if len(value) < limits.get("minProperties", 0):
            yield invalid(path, len(value), f"{path} in body should have at least {limits['minProperties']} properties")
    elif not isinstance(value, bool):
        yield from _number_problems(limits, value, path)


def _number_problems(limits: Schema, value: float, path: str) -> Iterator[Cause]:
    low, high, step = limits.get("minimum"), limits.get("maximum"), limits.get("multipleOf")
    strictly_low, strictly_high = bool(limits.get("exclusiveMinimum")), bool(limits.get("exclusiveMaximum"))
    if low is not None and (value < low or (strictly_low and value == low)):
        bound = "greater than" if strictly_low else "greater than or equal to"
        yield invalid(path, value, f"{path} in body should be {bound} {low}")
    if high is not None and (value > high or (strictly_high and value == high)):
        bound = "less than" if strictly_high else "less than or equal to"
        yield invalid(path, value, f"{path} in body should be {bound} {high}")
    if step and value % step:
        yield invalid(path, value, f"{path} in body should be a multiple of {step}")


def _combined_problems(node: Node, value: Any, path: str) -> Iterator[Cause]:
    for part in node.all_of:
        yield from schema_problems(part, value, path)
    if node.any_of and not any(_fits(part, value) for part in node.any_of):
        yield invalid(path, "", f"{path} in body must validate at least one schema (anyOf)")
    if node.one_of and sum(_fits(part, value) for part in node.one_of) != 1:
        yield invalid(path, "", f"{path} in body must validate one and only one schema (oneOf)")
    if node.negated is not None and _fits(node.negated, value):
        yield invalid(path, "", f"{path} in body must not validate the schema (not)")


def _fits(node: Node, value: Any) -> bool:
    return next(schema_problems(node, value, ""), None) is None


def _object_problems(node: Node, value: dict[str, Any], path: str, old: Any) -> Iterator[Cause]:
    for name in node.required:
        if name not in value:
            yield required(f"{path}.{name}" if path else name)
    before = old if isinstance(old, dict) else {}
    for name, item in value.items():
        child = node.properties.get(name) or node.values
        if child is not None:
            yield from schema_problems(child, item, f"{path}.{name}" if path else name, before.get(name, ABSENT))


def _array_problems(node: Node, value: list[Any], path: str, old: Any) -> Iterator[Cause]:
    before = {}
    if node.list_keys and isinstance(old, list):
        before = {_identity(node, item): item for item in old}
    seen: set[str] = set()
    for index, item in enumerate(value):
        here, identity = f"{path}[{index}]", ABSENT
        if node.list_keys or node.is_set or node.limits.get("uniqueItems"):
            identity = _identity(node, item)
            if identity in seen:
                yield duplicate(here, _shown_identity(node, item))
            seen.add(identity)
        if node.values is not None:
            yield from schema_problems(node.values, item, here, before.get(identity, ABSENT))


def _identity(node: Node, item: Any) -> str:
    return json.dumps(_shown_identity(node, item), sort_keys=True)


def _shown_identity(node: Node, item: Any) -> Any:
    if not node.list_keys or not isinstance(item, dict):
        return item
    keys = {key: item.get(key, node.key_defaults.get(key)) for key in node.list_keys}
    return {key: value for key, value in keys.items() if value is not None}
