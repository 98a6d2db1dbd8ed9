"""Whether a rule in CEL fits the schema it stands in: fields that there are, operators between types that fit. Pure.

The interpreter knows `self` as a value of any type; here the types that the schema gives are followed through the
syntax tree as far as they are known. What is not known is not complained about.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobset.api.schema import Schema
from jobset.cluster.model.kinds.cel_syntax import Call, Collection, Comprehension, Constant, Name, Node, Select, Syntax
from jobset.cluster.model.kinds.cel_values import declared, time_type

_ARITHMETIC = frozenset(("_+_", "_-_", "_*_", "_/_", "_%_"))
_EQUALITY = frozenset(("_==_", "_!=_"))
_ORDER = frozenset(("_<_", "_<=_", "_>_", "_>=_"))
_LOGIC = frozenset(("_&&_", "_||_", "!_"))
_NUMBERS = frozenset(("int", "uint", "double"))
_TIMES = frozenset(("timestamp", "duration"))
_BOOL: Schema = {"type": "boolean"}
_CONSTANTS: dict[str, Schema] = {
    "bool": _BOOL,
    "int": {"type": "integer"},
    "double": {"type": "number"},
    "string": {"type": "string"},
}
_SCALARS = {"boolean": "bool", "integer": "int", "number": "double"}


def type_name(schema: Schema | None) -> str:
    """The CEL type of values of a schema; empty when it may be more than one."""
    if schema is None or schema.get("nullable") or schema.get("x-kubernetes-int-or-string"):
        return ""
    type_ = schema.get("type") or ""
    if type_ == "string":
        return "bytes" if schema.get("format") == "byte" else time_type(schema) or "string"
    if type_ == "array":
        return "list"
    if type_ == "object":
        return "map" if isinstance(schema.get("additionalProperties"), dict) else "object"
    return _SCALARS.get(type_, "")


class TypeCheck:
    """One expression with the schemas of its variables. `problems` are (offset in the text, what is wrong)."""

    def __init__(self, syntax: Syntax, variables: Mapping[str, Schema]) -> None:
        self.problems: list[tuple[int, str]] = []
        self._syntax = syntax
        self.result = type_name(self._type(syntax.root, dict(variables)))
        """The type of the whole expression as far as the schema tells."""

    def _problem(self, node: Node, text: str) -> None:
        self.problems.append((self._syntax.offsets.get(node.id, 0), text))

    def _type(self, node: Node, scope: dict[str, Schema]) -> Schema | None:
        match node:
            case Constant():
                return _CONSTANTS.get(node.type)
            case Name():
                return scope.get(node.name)
            case Select():
                return self._select(node, node.field, self._type(node.operand, scope), tests=node.tests)
            case Call():
                return self._call(node, scope)
            case Comprehension():
                return self._loop(node, scope)
            case Collection():
                for part in node.parts:
                    self._type(part, scope)
        return None

    def _select(self, node: Node, field: str, operand: Schema | None, *, tests: bool = False) -> Schema | None:
        found: Schema | None = None
        kind = type_name(operand)
        if operand is not None and kind == "map":
            found = operand["additionalProperties"]
        elif operand is not None and kind == "object":
            found = declared(operand).get(field)
            if found is None:
                self._problem(node, f"undefined field '{field}'")
        elif kind:
            self._problem(node, f"type '{kind}' does not support field selection")
        return _BOOL if tests else found

    def _call(self, node: Call, scope: dict[str, Schema]) -> Schema | None:
        types = [self._type(argument, scope) for argument in node.arguments]
        function = node.function
        if function == "_[_]" and types[0] is not None:
            return _values(types[0])
        if function == "_?_:_":
            return types[1] if type_name(types[1]) == type_name(types[2]) else None
        if function == "_?._" and isinstance(node.arguments[1], Constant):
            self._select(node, node.arguments[1].text, types[0])
            return None
        names = [type_name(type_) for type_ in types]
        if not _fit(function, names):
            applied = ", ".join(names)
            self._problem(node, f"found no matching overload for '{function}' applied to '({applied})'")
        if function in _EQUALITY | _ORDER | _LOGIC:
            return _BOOL
        return types[0] if function in _ARITHMETIC and not _TIMES & set(names) else None

    def _loop(self, node: Comprehension, scope: dict[str, Schema]) -> Schema | None:
        range_, start = self._type(node.range, scope), self._type(node.start, scope)
        inner = {name: schema for name, schema in scope.items() if name not in (node.variable, node.accumulator)}
        if range_ is not None and type_name(range_) == "list" and (items := _values(range_)) is not None:
            inner[node.variable] = items
        if node.binds and start is not None:
            inner[node.accumulator] = start
        result = None
        for part in node.parts:
            result = self._type(part, inner)
        return result if node.binds else None


def _values(schema: Schema) -> Schema | None:
    kind = type_name(schema)
    found: Any = schema.get("items") if kind == "list" else schema.get("additionalProperties")
    return found if isinstance(found, dict) else None


def _fit(function: str, names: list[str]) -> bool:
    if function in _LOGIC:
        return all(name in ("", "bool") for name in names)
    if len(names) != 2 or not all(names) or _TIMES & set(names):
        return True
    left, right = names
    if function in _ARITHMETIC:
        return left == right and left not in ("bool", "map", "object")
    if function in _ORDER:
        return (left == right and left not in ("list", "map", "object")) or {left, right} <= _NUMBERS
    if function in _EQUALITY:
        return left == right or {left, right} <= {"map", "object"}
    return True
