"""Strategic merge patch: a merge patch whose lists merge as the schema says (`x-kubernetes-patch-*`). Pure.

Lists of objects with a merge key merge element by element; lists of scalars marked `merge` are united; all others are
replaced. Directives: `$patch: replace|delete|merge` in an object, `$retainKeys`, `$deleteFromPrimitiveList/FIELD`,
`$setElementOrder/FIELD`.
"""

from __future__ import annotations

from typing import Any

from jobset.api.errors import BadRequest, InternalError
from jobset.api.meta import Object
from jobset.api.schema import Schema, resolve

DIRECTIVE = "$patch"
RETAIN_KEYS = "$retainKeys"
DELETE_FROM_LIST = "$deleteFromPrimitiveList/"
ELEMENT_ORDER = "$setElementOrder/"


def apply_strategic_patch(target: Object, patch: Object, schema: Schema) -> Object:
    """`target` with `patch` applied, sharing what did not change; `target` itself when nothing did."""
    return _merge_object(target, patch, resolve(schema))


def _merge_object(target: Object, patch: Object, schema: Schema) -> Object:
    directive = patch.get(DIRECTIVE)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != DIRECTIVE}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise InternalError(f"unable to recognize the value of the directive $patch: {directive!r}")
    merged = dict(target)
    if RETAIN_KEYS in patch:
        merged = {key: value for key, value in merged.items() if key in patch[RETAIN_KEYS]}
    for key, value in patch.items():
        if key.startswith(DELETE_FROM_LIST):
            field = key.removeprefix(DELETE_FROM_LIST)
            merged[field] = [item for item in merged.get(field) or [] if item not in value]
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge_value(merged.get(key), value, _field_schema(schema, key))
    for key, order in patch.items():
        if key.startswith(ELEMENT_ORDER):
            _order_field(merged, target, key.removeprefix(ELEMENT_ORDER), order, schema)
    unchanged = len(merged) == len(target) and all(key in target and target[key] is merged[key] for key in merged)
    return target if unchanged else merged


def _merge_value(old: Any, value: Any, schema: Schema) -> Any:
    if isinstance(value, dict):
        return _merge_object(old if isinstance(old, dict) else {}, value, resolve(schema))
    if isinstance(value, list) and "merge" in schema.get("x-kubernetes-patch-strategy", "").split(","):
        merged = _merge_list(old if isinstance(old, list) else [], value, schema)
        return old if merged == old else merged
    return old if type(old) is type(value) and old == value else value


def _merge_list(old: list[Any], patch: list[Any], schema: Schema) -> list[Any]:
    merge_key = schema.get("x-kubernetes-patch-merge-key", "")
    if not merge_key:
        merged = [*old, *(item for item in patch if item not in old)]
        return _in_order(merged, patch, old, merge_key)
    if any(isinstance(item, dict) and item.get(DIRECTIVE) == "replace" for item in patch):
        return [item for item in patch if DIRECTIVE not in item]
    item_schema = resolve(schema.get("items", {}))
    merged_by_key = {item.get(merge_key): item for item in old}
    for item in patch:
        if not isinstance(item, dict) or merge_key not in item:
            raise BadRequest(f"map: {item} does not contain declared merge key: {merge_key}")
        key = item[merge_key]
        if item.get(DIRECTIVE) == "delete":
            merged_by_key.pop(key, None)
        else:
            merged_by_key[key] = _merge_object(merged_by_key.get(key, {}), item, item_schema)
    return _in_order(list(merged_by_key.values()), patch, old, merge_key)


def _order_field(merged: Object, target: Object, field: str, order: list[Any], schema: Schema) -> None:
    if isinstance(merged.get(field), list):
        merge_key = _field_schema(schema, field).get("x-kubernetes-patch-merge-key", "")
        merged[field] = _in_order(merged[field], order, target.get(field) or [], merge_key)


def _in_order(items: list[Any], order: list[Any], old: list[Any], merge_key: str) -> list[Any]:
    """`items` with those named in `order` in that order, and the others in their old order between them.

    Where the two meet, the old order decides; an item that is new stands before the old ones.
    """

    def identity(item: Any) -> Any:
        return item.get(merge_key) if merge_key and isinstance(item, dict) else item

    rank = {identity(item): place for place, item in enumerate(order)}
    place = {identity(item): position for position, item in enumerate(old)}
    named = sorted((item for item in items if identity(item) in rank), key=lambda item: rank[identity(item)])
    others = [item for item in items if identity(item) not in rank]
    result: list[Any] = []
    for item in named:
        while others and place.get(identity(others[0]), len(old)) < place.get(identity(item), -1):
            result.append(others.pop(0))
        result.append(item)
    return result + others


def _field_schema(schema: Schema, field: str) -> Schema:
    """The schema of a field, with the merge rules that stand beside a reference to another definition."""
    found = schema.get("properties", {}).get(field)
    if found is None:
        values = schema.get("additionalProperties")
        found = values if isinstance(values, dict) else {}
    return found if "x-kubernetes-patch-strategy" in found else resolve(found)
