"""Sets of fields of an object, as managed fields hold them: a tree of path elements. Pure.

A `FieldSet` maps path elements to what is below them; the element "." marks that the path up to here is itself in the
set. Path elements are written as in FieldsV1: `f:NAME` a field, `k:{...}` the list item with these keys, `v:VALUE` the
item of a set, `i:N` an index. FieldsV1 itself differs only in its leaves: there `{}` stands for a member with nothing
below it (`decoded`, `encoded`). No set is ever changed; results share what they can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import DecodeError, json

FieldSet: TypeAlias = dict[str, Any]

MEMBER = "."
_LEAF: FieldSet = {MEMBER: {}}
_PREFIXES = ("f:", "k:", "v:", "i:")


def leaf() -> FieldSet:
    """A path that is in the set, with nothing below it."""
    return _LEAF


def field_element(name: str) -> str:
    return f"f:{name}"


def value_element(value: Any) -> str:
    return "v:" + json.encode(value).decode()


def key_element(keys: Mapping[str, Any]) -> str:
    return "k:" + json.encode(keys, order="sorted").decode()


def of_paths(*paths: tuple[str, ...]) -> FieldSet:
    """The set of these fields, each a path of names."""
    result: FieldSet = {}
    for path in paths:
        node: FieldSet = _LEAF
        for name in reversed(path):
            node = {field_element(name): node}
        result = union(result, node)
    return result


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    if not left or left is right:
        return right
    if not right:
        return left
    result = dict(left)
    for element, below in right.items():
        known = result.get(element)
        result[element] = below if known is None or element == MEMBER else union(known, below)
    return result


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    result: FieldSet = {}
    for element, below in left.items():
        other = right.get(element)
        if other is None:
            continue
        if element == MEMBER:
            result[element] = below
        elif common := intersection(below, other):
            result[element] = common
    return result


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """The members of `left` that are not members of `right`; fields below a member of `right` stay."""
    if not right:
        return left
    result: FieldSet = {}
    for element, below in left.items():
        other = right.get(element)
        if other is None:
            result[element] = below
        elif element != MEMBER and (rest := difference(below, other)):
            result[element] = rest
    return result


def outside(left: FieldSet, right: FieldSet) -> FieldSet:
    """The members of `left` that are neither members of `right` nor below one."""
    if not right:
        return left
    result: FieldSet = {}
    for element, below in left.items():
        other = right.get(element)
        if other is None:
            result[element] = below
        elif element != MEMBER and MEMBER not in other and (rest := outside(below, other)):
            result[element] = rest
    return result


def paths(fields: FieldSet, prefix: str = "") -> Iterator[str]:
    """The members as texts such as .spec.containers[name="a"].image, in order."""
    for element in sorted(fields):
        if element != MEMBER:
            path = prefix + shown_element(element)
            if MEMBER in fields[element]:
                yield path
            yield from paths(fields[element], path)


def shown_element(element: str) -> str:
    prefix, text = element[:2], element[2:]
    if prefix == "k:":
        keys = json.decode(text)
        return "[" + ",".join(f"{name}={_shown(keys[name])}" for name in sorted(keys)) + "]"
    if prefix == "v:":
        return f"[={_shown(json.decode(text))}]"
    return f"[{text}]" if prefix == "i:" else f".{text}"


def _shown(value: Any) -> str:
    return json.encode(value).decode()


def encoded(fields: FieldSet) -> dict[str, Any]:
    """As FieldsV1."""
    result: dict[str, Any] = {}
    for element in sorted(fields):
        below = fields[element]
        result[element] = {} if element == MEMBER or (len(below) == 1 and MEMBER in below) else encoded(below)
    return result


def decoded(fields: Any) -> FieldSet:
    """From FieldsV1. ValueError when it is none."""
    if not isinstance(fields, dict):
        raise ValueError("fields must be an object")
    result: FieldSet = {}
    for element, below in fields.items():
        if element == MEMBER:
            result[element] = {}
            continue
        _check_element(element)
        result[element] = decoded(below) if below else _LEAF
    return result


def _check_element(element: str) -> None:
    prefix, text = element[:2], element[2:]
    if prefix not in _PREFIXES:
        raise ValueError(f"unknown path element {element!r}")
    if prefix == "i:":
        int(text)
    elif prefix != "f:":
        try:
            found = json.decode(text)
        except DecodeError as error:
            raise ValueError(f"path element {element!r}: {error}") from error
        if prefix == "k:" and not isinstance(found, dict):
            raise ValueError(f"the keys of a list item must be an object: {element!r}")
