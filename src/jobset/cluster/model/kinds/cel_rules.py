"""The rules in CEL of a custom resource's schema, put to an object (x-kubernetes-validations). Pure.

A rule looks at the value its schema describes (`self`); one that names `oldSelf` looks at a change and is put only
where there is an older value to compare with: fields by their name, items of lists that have keys by these, items of
other lists never. A rule that does not look at the change is not put to values that did not change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field

from jobset.api.errors import Cause
from jobset.api.field_errors import duplicate, forbidden, required, shown
from jobset.api.meta import Object
from jobset.api.schema import Schema
from jobset.cluster.model.kinds.cel_expressions import Expression, NotCompiled, NotEvaluated, available
from jobset.cluster.model.kinds.cel_values import cel_value, has_times, identifier, time_value, with_object_fields

EVALUATIONS_LIMIT = 100_000
"""Of the rules of one object."""
_STEP = re.compile(r"\.([^.\[\]]+)|\['((?:[^'\\]|\\.)*)'\]")
_ESCAPED = re.compile(r"\\(.)")
_ABSENT: Any = object()


class Rule(Struct, frozen=True):
    text: str
    expression: Expression
    message: str
    message_expression: Expression | None
    reason: str
    path: str
    on_change: bool
    """Whether it needs an older value."""
    lenient: bool
    """Times are texts below the top of a value: a rule that cannot compare them is not held against the object."""

    @property
    def shown(self) -> str:
        return self.message or self.text


class RuleNode(Struct, frozen=True):
    """A schema with rules in it or below it."""

    schema: Schema
    rules: tuple[Rule, ...]
    properties: dict[str, RuleNode] = field(default_factory=dict)
    values: RuleNode | None = None
    list_keys: tuple[str, ...] = ()
    parts: tuple[RuleNode, ...] = ()
    """What allOf says of the same value."""


class Rules:
    """All rules of a schema. They are compiled when the first object is looked at."""

    def __init__(self, schema: Schema) -> None:
        self._schema = with_object_fields(schema)
        self._root: RuleNode | None = None
        self._compiled = False

    def problems(self, obj: Object, old: Object | None) -> list[Cause]:
        """What the rules say of an object, or of the change from `old` to it."""
        if not available():
            return []
        if not self._compiled:
            self._root, self._compiled = _node(self._schema, self._schema), True
        if self._root is None:
            return []
        previous = _ABSENT if old is None else old
        visit = _Visit()
        return list(visit.node(self._root, _pair(obj, self._schema), _pair(previous, self._schema), ""))


def rule_of(raw: Object, schema: Schema) -> Rule:
    """Compile one entry of x-kubernetes-validations. NotCompiled."""
    optional = bool(raw.get("optionalOldSelf"))
    expression = Expression(raw["rule"], schema, optional_old_self=optional)
    message = raw.get("messageExpression")
    return Rule(
        text=raw["rule"].strip(),
        expression=expression,
        message=(raw.get("message") or "").strip(),
        message_expression=Expression(message, schema, optional_old_self=optional) if message else None,
        reason=raw.get("reason") or "FieldValueInvalid",
        path=normalized_path(raw.get("fieldPath") or "", schema) or "",
        on_change=expression.uses_old_self and not optional,
        lenient=has_times(schema),
    )


def normalized_path(field_path: str, schema: Schema) -> str | None:
    """A path such as .a['b-c'] as problems show it, .a.b-c; None if it does not go along fields of the schema."""
    position, shown_path = 0, ""
    while position < len(field_path):
        step = _STEP.match(field_path, position)
        if step is None:
            return None
        name = step.group(1) or _ESCAPED.sub(r"\1", step.group(2))
        fields, values = schema.get("properties") or {}, schema.get("additionalProperties")
        if name not in fields and not isinstance(values, dict):
            return None
        shown_path += f".{name}" if name in fields else f"[{name}]"
        position, schema = step.end(), fields.get(name) or values or {}
    return shown_path


def _node(schema: Schema, shape: Schema) -> RuleNode | None:
    """The rules in `schema` for values of `shape`: the schema itself, or the one around this part of its allOf.

    Those that the package cannot compile are left out; whoever wrote the definition was warned.
    """
    rules = []
    for raw in schema.get("x-kubernetes-validations") or ():
        try:
            rules.append(rule_of(raw, shape))
        except NotCompiled:
            continue
    properties, fields = {}, shape.get("properties") or {}
    for name, child in (schema.get("properties") or {}).items():
        if name in fields and (node := _node(child, fields[name])) is not None:
            properties[name] = node
    below, around = (
        one.get("items") if shape.get("type") == "array" else one.get("additionalProperties") for one in (schema, shape)
    )
    values = _node(below, around) if isinstance(below, dict) and isinstance(around, dict) else None
    parts = tuple(node for part in schema.get("allOf") or () if (node := _node(part, shape)) is not None)
    keys = tuple(shape.get("x-kubernetes-list-map-keys") or ())
    if not (rules or properties or values or parts):
        return None
    return RuleNode(shape, tuple(rules), properties, values, keys, parts)


class _Pair(Struct, frozen=True):
    """A value as it is, and as CEL sees it."""

    raw: Any
    seen: Any


def _pair(value: Any, schema: Schema) -> _Pair:
    return _Pair(value, _ABSENT if value is _ABSENT else cel_value(value, schema))


_NOTHING = _Pair(_ABSENT, _ABSENT)


class _Visit:
    """One walk through an object."""

    def __init__(self) -> None:
        self._left = EVALUATIONS_LIMIT

    def node(self, node: RuleNode, new: _Pair, old: _Pair, path: str, *, settled: bool = False) -> Iterator[Cause]:
        """`settled`: the value has no older counterpart, but is in a value that did not change."""
        if new.raw is None:
            return
        settled = settled or _same(new.raw, old.raw)
        for rule in node.rules:
            if (rule.on_change and old.raw is _ABSENT) or (settled and not rule.expression.uses_old_self):
                continue
            self._left -= 1
            if self._left < 0:
                yield Cause("FieldValueInvalid", "validation failed due to running out of cost budget", path)
                return
            yield from _rule_problems(rule, node.schema, new, old, path)
        for part in node.parts:
            yield from self.node(part, new, old, path, settled=settled)
        if isinstance(new.raw, dict):
            yield from self._fields(node, new, old, path, settled=settled)
        elif isinstance(new.raw, list) and node.values is not None:
            yield from self._items(node, node.values, new, old, path, settled=settled)

    def _fields(self, node: RuleNode, new: _Pair, old: _Pair, path: str, *, settled: bool) -> Iterator[Cause]:
        declared = node.schema.get("properties") or {}
        for name, value in new.raw.items():
            is_field = name in declared
            child = node.properties.get(name) if is_field else node.values
            if child is None:
                continue
            key = identifier(name) if is_field else name
            before = _NOTHING
            if isinstance(old.raw, dict) and name in old.raw:
                before = _Pair(old.raw[name], old.seen[key])
            here = f"{path}[{name}]" if not is_field else f"{path}.{name}" if path else name
            yield from self.node(child, _Pair(value, new.seen[key]), before, here, settled=settled)

    def _items(
        self, node: RuleNode, each: RuleNode, new: _Pair, old: _Pair, path: str, *, settled: bool
    ) -> Iterator[Cause]:
        before: dict[str, _Pair] = {}
        if node.list_keys and isinstance(old.raw, list):
            for raw, seen in zip(old.raw, old.seen, strict=True):
                before.setdefault(_identity(node, raw), _Pair(raw, seen))
        for index, (raw, seen) in enumerate(zip(new.raw, new.seen, strict=True)):
            match = before.get(_identity(node, raw), _NOTHING) if before else _NOTHING
            yield from self.node(each, _Pair(raw, seen), match, f"{path}[{index}]", settled=settled)


def _same(new: Any, old: Any) -> bool:
    return new is old or (old is not _ABSENT and type(new) is type(old) and bool(new == old))


def _identity(node: RuleNode, item: Any) -> str:
    return repr([item.get(key) for key in node.list_keys]) if isinstance(item, dict) else repr(item)


def _rule_problems(rule: Rule, schema: Schema, new: _Pair, old: _Pair, path: str) -> Iterator[Cause]:
    has_old = old.raw is not _ABSENT
    values = (time_value(new.seen, schema), time_value(old.seen, schema) if has_old else None)
    size = _size(new.raw)
    try:
        if rule.expression.value(*values, has_old=has_old, size=size) is True:
            return
        detail = _message(rule, values, has_old, size)
    except NotEvaluated as error:
        text = str(error)
        if text.startswith("no such overload"):
            if rule.lenient:
                return
            detail = (
                f"'{text}': call arguments did not match a supported operator, function or macro signature for rule: "
                f"{rule.shown}"
            )
        else:
            detail = f"{text} evaluating rule: {rule.shown}"
        yield _invalid(path, new.raw, detail)
        return
    yield _cause(rule.reason, path + rule.path if path else rule.path.removeprefix("."), new.raw, detail)


def _message(rule: Rule, values: tuple[Any, Any], has_old: bool, size: int) -> str:
    if rule.message_expression is not None:
        try:
            text = rule.message_expression.value(*values, has_old=has_old, size=size)
        except NotEvaluated:
            text = ""
        if isinstance(text, str) and text.strip() and "\n" not in text:
            return text.strip()
    return rule.message or f"failed rule: {rule.text}"


def _cause(reason: str, path: str, value: Any, detail: str) -> Cause:
    if reason == "FieldValueForbidden":
        return forbidden(path, detail)
    if reason == "FieldValueRequired":
        return required(path, detail)
    if reason == "FieldValueDuplicate":
        return duplicate(path, value)
    return _invalid(path, value, detail)


def _invalid(path: str, value: Any, detail: str) -> Cause:
    """Objects and lists are not shown."""
    text = detail if isinstance(value, dict | list) else f"{shown(value)}: {detail}"
    return Cause("FieldValueInvalid", f"Invalid value: {text}", path)


def _size(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(map(_size, value.values()))
    return len(value) + sum(map(_size, value)) if isinstance(value, list) else 0
