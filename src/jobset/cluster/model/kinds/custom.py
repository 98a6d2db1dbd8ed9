"""Custom resources: from a CustomResourceDefinition to the Kind that the API service serves. Pure.

A write is pruned of what the schema does not know, given the schema's defaults, and checked; then, if its structure is
in order, the schema's rules in CEL are put to it (cel_rules.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobset.api.errors import Cause
from jobset.api.field_errors import invalid
from jobset.api.meta import Object
from jobset.api.resources import Resource
from jobset.api.schema import Schema
from jobset.api.structure import Structure, structure_of
from jobset.cluster.model.kinds.copy_on_write import change_in, put, without
from jobset.cluster.model.kinds.custom_schema import ABSENT, NOWHERE, Node, compile_schema, schema_problems
from jobset.cluster.model.kinds.kind import Column, Kind, ScalePaths, Subresource, keep_new, unchanged

if TYPE_CHECKING:
    from jobset.cluster.model.kinds.cel_rules import Rules

_ANYTHING: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_TYPE_META: Schema = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": _ANYTHING}
_BLOCKING = frozenset(
    ("FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid")
)
"""Problems after which rules are not put any more."""
_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


@dataclass(frozen=True, slots=True)
class CustomRules:
    """What a definition's schema makes of objects."""

    node: Node
    structure: Structure
    rules: Rules | None

    def unknown_fields(self, obj: Object) -> list[str]:
        return [cause.field for cause in self.structure.unknown(obj, "")]

    def default(self, obj: Object) -> Object:
        pruned: Object = self.structure.pruned(obj)
        defaulted: Object = self.structure.defaulted(
            _whole_numbers(self.node, _drop_null_defaults(self.structure, pruned))
        )
        return defaulted

    def validate(self, obj: Object) -> list[Cause]:
        return self._problems(obj, ABSENT)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return self._problems(new, old)

    def _problems(self, obj: Object, old: Any) -> list[Cause]:
        causes = list(schema_problems(self.node, obj, "", old))
        if self.rules is None:
            return causes
        if any(cause.reason in _BLOCKING for cause in causes):
            return [*causes, invalid(NOWHERE, None, _UNCHECKED)]
        return causes + self.rules.problems(obj, None if old is ABSENT else old)


def kind_from_definition(definition: Object, version: str) -> Kind:
    """How to serve one version that a CustomResourceDefinition defines. KeyError if it does not define it."""
    spec = definition["spec"]
    served = {one["name"]: one for one in spec["versions"]}[version]
    names = spec["names"]
    resource = Resource(
        spec["group"], version, names["plural"], names["kind"], namespaced=spec["scope"] == "Namespaced"
    )
    schema = (served.get("schema") or {}).get("openAPIV3Schema") or _ANYTHING
    rules = rules_of_schema(schema)
    subresources = served.get("subresources") or {}
    with_status = subresources.get("status") is not None
    return Kind(
        resource=resource,
        schema=schema,
        default=rules.default,
        unknown_fields=rules.unknown_fields,
        prepare_create=_without_status if with_status else unchanged,
        prepare_update=_keep_status if with_status else keep_new,
        validate=rules.validate,
        validate_update=rules.validate_update,
        subresources={"status": _status_of(rules)} if with_status else {},
        field_selectors=tuple(one["jsonPath"].removeprefix(".") for one in served.get("selectableFields") or ()),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        columns=tuple(_column(one) for one in served.get("additionalPrinterColumns") or ()),
        scale=_scale_paths(subresources.get("scale")),
    )


def rules_of_schema(schema: Schema) -> CustomRules:
    """Compile a structural schema. ValueError if it has a pattern that is no regular expression."""
    whole = _with_type_meta(schema)
    return CustomRules(compile_schema(whole), structure_of(_embedded(whole)), _rules_of(schema))


def _with_type_meta(schema: Schema) -> Schema:
    """apiVersion, kind and metadata belong to every object; the API service checks them."""
    return {**schema, "properties": {**(schema.get("properties") or {}), **_TYPE_META}}


def _embedded(schema: Schema) -> Schema:
    """The schema with what embedded objects may always have."""
    if schema.get("x-kubernetes-embedded-resource"):
        schema = {**schema, "properties": {**_TYPE_META, **(schema.get("properties") or {})}}
    schema = change_in(schema, "properties", lambda all_: {name: _embedded(one) for name, one in all_.items()})
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            schema = put(schema, key, _embedded(schema[key]))
    return schema


def _rules_of(schema: Schema) -> Rules | None:
    """What knows CEL is loaded with the first schema that needs it."""
    if not has_rules(schema):
        return None
    from jobset.cluster.model.kinds.cel_rules import Rules

    return Rules(schema)


def has_rules(schema: Any) -> bool:
    """Whether there are rules in CEL in a schema."""
    if isinstance(schema, dict):
        return bool(schema.get("x-kubernetes-validations")) or any(has_rules(one) for one in schema.values())
    return isinstance(schema, list) and any(has_rules(one) for one in schema)


def _drop_null_defaults(structure: Structure, value: Any) -> Any:
    """A null where null is not allowed and a default exists gives way to the default."""
    if isinstance(value, list):
        each = structure.each()
        return [_drop_null_defaults(each, item) for item in value] if each is not None else value
    if not isinstance(value, dict):
        return value
    defaults, each = structure.schema.get("defaults", {}), structure.each()
    kept = {}
    for name, item in value.items():
        child = structure.child(name) or each
        if item is None and name in defaults and child is not None and not child.nullable:
            continue
        kept[name] = item if child is None else _drop_null_defaults(child, item)
    return kept


def _whole_numbers(node: Node, value: Any) -> Any:
    """3.0 is the integer 3."""
    if isinstance(value, dict):
        children = ((name, item, node.properties.get(name) or node.values) for name, item in value.items())
        return {name: item if child is None else _whole_numbers(child, item) for name, item, child in children}
    if isinstance(value, list):
        return value if node.values is None else [_whole_numbers(node.values, item) for item in value]
    if isinstance(value, float) and node.type == "integer" and value.is_integer():
        return int(value)
    return value


def _without_status(obj: Object) -> Object:
    return without(obj, "status")


def _keep_status(new: Object, old: Object) -> Object:
    return put(new, "status", old["status"]) if "status" in old else without(new, "status")


def _status_of(rules: CustomRules) -> Subresource:
    def merge(new: Object, old: Object) -> Object:
        """Only the status, as the schema has it; labels and the rest stay as they are."""
        if "status" not in new:
            return without(old, "status")
        return rules.default(put(old, "status", new["status"]))

    return Subresource(merge, rules.validate_update)


def _column(column: Object) -> Column:
    return Column(
        column["name"],
        column["type"],
        column["jsonPath"],
        format=column.get("format", ""),
        description=column.get("description", ""),
        priority=column.get("priority", 0),
    )


def _scale_paths(scale: Object | None) -> ScalePaths | None:
    if scale is None:
        return None
    return ScalePaths(
        scale["specReplicasPath"], scale["statusReplicasPath"], selector=scale.get("labelSelectorPath", "")
    )
