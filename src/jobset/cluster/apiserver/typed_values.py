"""What server-side apply does with values of a merge type: their fields, comparison, merging, taking fields out. Pure.

All of them walk values along a `MergeType`: maps field by field, keyed lists and sets item by item, everything else as
one value. Nothing is changed in place; what stays the same stays shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from jobset.api.meta import Object
from jobset.cluster.apiserver.field_sets import MEMBER, FieldSet, field_element, leaf, shown_element, union
from jobset.cluster.apiserver.merge_types import LEAF, MergeType, NoPathElement

_ABSENT: Any = object()


class Untypable(ValueError):
    """A value is not what its schema declares; says where."""


class Comparison(Struct, frozen=True):
    """The fields in which two values differ, containers that came or went included."""

    added: FieldSet
    modified: FieldSet
    removed: FieldSet

    @property
    def changed(self) -> FieldSet:
        """What the newer value has otherwise than the older one."""
        return union(self.added, self.modified)


def fields_of(value: Any, type_: MergeType, path: str = "") -> FieldSet:
    """The fields that a configuration speaks of: its leaves, list items, and maps that are empty. Untypable."""
    if type_.is_map(value):
        return _fields_of_map(value, type_, path)
    if type_.shape == "list" and value is not None:
        if not isinstance(value, list):
            raise Untypable(f"{path}: expected list, got {value!r}")
        return _fields_of_list(value, type_, path)
    if type_.shape == "map" and value is not None:
        raise Untypable(f"{path}: expected map, got {value!r}")
    return leaf()


def _fields_of_map(value: Object, type_: MergeType, path: str) -> FieldSet:
    result: FieldSet = {}
    for name, item in value.items():
        child = type_.child(name)
        if child is None:
            raise Untypable(f"{path}.{name}: field not declared in schema")
        below = fields_of(item, child, f"{path}.{name}")
        if item is None or item == {} or not type_.declares(name):
            below = union(below, leaf())
        if below:
            result[field_element(name)] = below
    return result


def _fields_of_list(items: list[Any], type_: MergeType, path: str) -> FieldSet:
    result: FieldSet = {}
    for index, item in enumerate(items):
        try:
            element = type_.element(item)
        except NoPathElement as error:
            raise Untypable(f"{path}: element {index}: {error}") from error
        if element in result:
            raise Untypable(f"{path}: duplicate entries for key {shown_element(element)}")
        result[element] = union(fields_of(item, type_.item(), path + shown_element(element)), leaf())
    return result


def every_field(value: Any, type_: MergeType) -> FieldSet:
    """All fields of a value, and all containers on the way to them."""
    result: FieldSet = {MEMBER: {}}
    if type_.is_map(value):
        for name, item in value.items():
            result[field_element(name)] = every_field(item, type_.child(name) or LEAF)
    elif type_.is_list(value):
        for element, item in _indexed(value, type_).items():
            result[element] = every_field(item, type_.item())
    return result


def compared(old: Any, new: Any, type_: MergeType) -> Comparison:
    """What changed from `old` to `new`, which are objects."""
    added: FieldSet = {}
    modified: FieldSet = {}
    removed: FieldSet = {}
    _compare_map(old, new, type_, added, modified, removed)
    return Comparison(added, modified, removed)


def _compare(
    old: Any, new: Any, type_: MergeType, added: FieldSet, modified: FieldSet, removed: FieldSet, element: str
) -> None:
    """Enter under `element` what differs."""
    if old is new:
        return
    if old is _ABSENT:
        added[element] = every_field(new, type_)
    elif new is _ABSENT:
        removed[element] = every_field(old, type_)
    elif (type_.is_map(old) and type_.is_map(new)) or (type_.is_list(old) and type_.is_list(new)):
        below: tuple[FieldSet, FieldSet, FieldSet] = ({}, {}, {})
        if isinstance(old, dict):
            _compare_map(old, new, type_, *below)
        else:
            _compare_map(_indexed(old, type_), _indexed(new, type_), type_, *below, items=type_.item())
        for whole, part in zip((added, modified, removed), below, strict=True):
            if part:
                whole[element] = part
    elif type(old) is not type(new) or old != new:
        modified[element] = leaf()


def _compare_map(
    old: Object,
    new: Object,
    type_: MergeType,
    added: FieldSet,
    modified: FieldSet,
    removed: FieldSet,
    items: MergeType | None = None,
) -> None:
    """Compare the fields of two maps, or with `items` the items of two lists by their path elements."""
    for name, item in new.items():
        before = old.get(name, _ABSENT)
        if before is not item:
            child = items or type_.child(name) or LEAF
            _compare(before, item, child, added, modified, removed, name if items else field_element(name))
    for name, item in old.items():
        if name not in new:
            child = items or type_.child(name) or LEAF
            removed[name if items else field_element(name)] = every_field(item, child)


def _indexed(items: list[Any], type_: MergeType) -> dict[str, Any]:
    """List items by path element; the first of those that share one, none that have none."""
    indexed: dict[str, Any] = {}
    for item in items:
        try:
            indexed.setdefault(type_.element(item), item)
        except NoPathElement:
            continue
    return indexed


def merged(live: Any, applied: Any, type_: MergeType) -> Any:
    """`live` with what `applied` says; `live` itself when that changes nothing."""
    if live is applied:
        return live
    if type_.is_map(live) and (applied is None or type_.is_map(applied)) and (live or applied):
        return _merged_map(live, applied or {}, type_)
    if type_.is_list(live) and (applied is None or type_.is_list(applied)) and (live or applied):
        return _merged_list(live, applied or [], type_)
    return live if type(live) is type(applied) and live == applied else applied


def _merged_map(live: Object, applied: Object, type_: MergeType) -> Object:
    changes = {}
    for name, item in applied.items():
        before = live.get(name, _ABSENT)
        after = item if before is _ABSENT else merged(before, item, type_.child(name) or LEAF)
        if after is not before:
            changes[name] = after
    return {**live, **changes} if changes else live


def _merged_list(live: list[Any], applied: list[Any], type_: MergeType) -> list[Any]:
    before, wanted = _indexed(live, type_), _indexed(applied, type_)
    items = []
    for element in _merged_order(list(before), list(wanted)):
        if element not in wanted:
            items.append(before[element])
        elif element not in before:
            items.append(wanted[element])
        else:
            items.append(merged(before[element], wanted[element], type_.item()))
    same = len(items) == len(live) and all(new is old for new, old in zip(items, live, strict=True))
    return live if same else items


def _merged_order(live: Sequence[str], applied: Sequence[str]) -> list[str]:
    """The applied items in their order; those only in `live` stay before the item that they stood before."""
    wanted = set(applied)
    order: list[str] = []
    position = 0
    places = {element: place for place, element in enumerate(live)}
    for element in applied:
        if element in places:
            while position < places[element]:
                if live[position] not in wanted:
                    order.append(live[position])
                position += 1
            position = max(position, places[element] + 1)
        else:
            position = _take_others(live, position, wanted, order)
        order.append(element)
    order.extend(element for element in live[position:] if element not in wanted)
    return order


def _take_others(live: Sequence[str], position: int, wanted: set[str], order: list[str]) -> int:
    """Items of others that come next in `live` go before an item that is new."""
    while position < len(live) and live[position] not in wanted:
        order.append(live[position])
        position += 1
    return position


def without_fields(value: Any, fields: FieldSet, type_: MergeType) -> Any:
    """`value` without the members of `fields`."""
    if type_.is_map(value):
        kept = {}
        for name, item in value.items():
            below = fields.get(field_element(name))
            if below is None:
                kept[name] = item
            elif MEMBER not in below:
                kept[name] = without_fields(item, below, type_.child(name) or LEAF)
        return kept
    if type_.is_list(value):
        return _without_items(value, fields, type_)
    return value


def _without_items(items: list[Any], fields: FieldSet, type_: MergeType) -> list[Any]:
    kept = []
    for item in items:
        try:
            below = fields.get(type_.element(item))
        except NoPathElement:
            below = None
        if below is None:
            kept.append(item)
        elif MEMBER not in below:
            kept.append(without_fields(item, below, type_.item()))
    return kept


def with_containers(fields: FieldSet, type_: MergeType) -> FieldSet:
    """`fields` and, as members, all declared fields on the way to them."""
    result: FieldSet = {}
    for element, below in fields.items():
        if element == MEMBER:
            result[element] = below
            continue
        name = element[2:]
        is_field = element.startswith("f:")
        child = (type_.child(name) if is_field else type_.item()) or LEAF
        inner = with_containers(below, child)
        result[element] = union(inner, leaf()) if is_field and type_.declares(name) else inner
    return result
