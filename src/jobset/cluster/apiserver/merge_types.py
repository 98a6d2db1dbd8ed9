"""How values of a kind merge: which maps and lists are granular, which are one value, what identifies list items. Pure.

A `MergeType` is compiled from a schema (a Kubernetes definition, or the schema of a CustomResourceDefinition) by the
words x-kubernetes-list-type, -list-map-keys and -map-type; children are compiled on first use. Maps are granular unless
they say otherwise, lists are atomic unless they say otherwise. Where a schema leaves a value open, maps are granular
and lists are atomic.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from jobset.api.schema import Schema, definition
from jobset.cluster.apiserver.field_sets import key_element, value_element

Shape: TypeAlias = Literal["leaf", "map", "list", "open"]
"""`open`: a map is granular, everything else a leaf."""

_OBJECT_META: Schema = {"$ref": "#io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
_TYPE_META: Schema = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": _OBJECT_META}
_KEY_DEFAULTS = {"protocol": "TCP"}
"""Keys of Kubernetes' own lists (ports) that may be left out; the vendored schemas have no defaults."""


class NoPathElement(ValueError):
    """A list item does not say which it is."""


class MergeType(Struct, eq=False):
    shape: Shape
    fields: dict[str, Schema | MergeType] = field(default_factory=dict)
    values: Schema | MergeType | None = None
    """Of a map: fields that are not declared; of a list: its items."""
    keys: tuple[str, ...] = ()
    """Of a list whose items have keys; a list without is a set of scalars."""
    key_defaults: dict[str, Any] = field(default_factory=dict)

    def declares(self, name: str) -> bool:
        return name in self.fields

    def child(self, name: str) -> MergeType | None:
        """The type of a field; None when the schema has no such field."""
        found = self.fields.get(name)
        if found is None:
            return self if self.shape == "open" else self.each()
        if isinstance(found, dict):
            found = self.fields[name] = merge_type_of(found)
        return found

    def each(self) -> MergeType | None:
        if isinstance(self.values, dict):
            self.values = merge_type_of(self.values)
        return self.values

    def item(self) -> MergeType:
        """The type of a list's items."""
        return self.each() or LEAF

    def is_map(self, value: Any) -> bool:
        """Whether `value` merges field by field."""
        return isinstance(value, dict) and (self.shape == "map" or self.shape == "open")

    def is_list(self, value: Any) -> bool:
        """Whether `value` merges item by item."""
        return isinstance(value, list) and self.shape == "list"

    def element(self, item: Any) -> str:
        """The path element of a list item. NoPathElement."""
        if not self.keys:
            if item is None or isinstance(item, dict | list):
                raise NoPathElement("a set has an item that is no scalar")
            return value_element(item)
        if not isinstance(item, dict):
            raise NoPathElement("associative list with keys may not have non-map elements")
        keys = {}
        for key in self.keys:
            keys[key] = item.get(key, self.key_defaults.get(key))
            if keys[key] is None:
                raise NoPathElement(
                    f'associative list with keys has an element that omits key field "{key}" '
                    "(and doesn't have default value)"
                )
        return key_element(keys)


LEAF = MergeType("leaf")
OPEN = MergeType("open")


def merge_type_of(schema: Schema) -> MergeType:
    reference = schema.get("$ref")
    return merge_type_of_definition(reference[1:]) if reference else _compiled(schema)


@cache
def merge_type_of_definition(name: str) -> MergeType:
    """The type of a Kubernetes definition by its full name."""
    return _compiled(definition(name))


def merge_type_of_custom(schema: Schema) -> MergeType:
    """The type of a custom resource with this schema."""
    return _compiled({**schema, "properties": {**(schema.get("properties") or {}), **_TYPE_META}})


def _compiled(schema: Schema) -> MergeType:
    if schema.get("x-kubernetes-embedded-resource"):
        schema = {**schema, "properties": {**_TYPE_META, **(schema.get("properties") or {})}}
    types = schema.get("type") or ()
    types = (types,) if isinstance(types, str) else types
    if "array" in types:
        return _list_type(schema)
    free = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or schema.get("additionalProperties") is True
    if "object" not in types and not schema.get("properties"):
        return OPEN if free else LEAF
    if schema.get("x-kubernetes-map-type") == "atomic":
        return LEAF
    values, properties = schema.get("additionalProperties"), schema.get("properties") or {}
    if isinstance(values, dict):
        return MergeType("map", dict(properties), values)
    if not properties:
        return OPEN
    return MergeType("map", dict(properties), OPEN if free else None)


def _list_type(schema: Schema) -> MergeType:
    list_type = schema.get("x-kubernetes-list-type")
    keys: tuple[str, ...] = ()
    if list_type == "map":
        keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
    elif list_type is None and "merge" in schema.get("x-kubernetes-patch-strategy", "").split(","):
        merge_key = schema.get("x-kubernetes-patch-merge-key")
        keys = (merge_key,) if merge_key else ()
    elif list_type != "set":
        return LEAF
    items = schema.get("items") or {}
    if not isinstance(items, dict):
        return LEAF
    return MergeType("list", {}, items, keys, _key_defaults(items, keys))


def _key_defaults(items: Schema, keys: tuple[str, ...]) -> dict[str, Any]:
    if "$ref" in items:
        return {key: _KEY_DEFAULTS[key] for key in keys if key in _KEY_DEFAULTS}
    properties = items.get("properties") or {}
    return {key: properties[key]["default"] for key in keys if "default" in properties.get(key, {})}
