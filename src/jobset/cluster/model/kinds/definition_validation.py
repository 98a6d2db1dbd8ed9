"""Rules of CustomResourceDefinitions: names, versions, and schemas that are structural. Pure.

Problems of a schema stand where Kubernetes reports them: under spec.validation when all versions share one schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jobset.api.errors import Cause
from jobset.api.field_errors import duplicate, forbidden, invalid, not_supported, required
from jobset.api.meta import Object
from jobset.api.name_rules import dns_label_1035_problems, dns_subdomain_problems
from jobset.api.resources import JOBSETS
from jobset.api.schema import Schema
from jobset.cluster.model.kinds.custom import has_rules, rules_of_schema
from jobset.cluster.model.kinds.custom_schema import compile_pattern
from jobset.cluster.model.kinds.problems import immutable, invalid_each, one_of

_SCOPES = ("Cluster", "Namespaced")
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_LIST_TYPES = ("atomic", "map", "set")
_MAP_TYPES = ("atomic", "granular")
_JUNCTORS = ("allOf", "anyOf", "oneOf")
_FORBIDDEN = ("definitions", "dependencies", "id", "patternProperties", "additionalItems", "$ref", "deprecated")


def validate_definition(definition: Object) -> list[Cause]:
    return list(_definition_problems(definition))


def _definition_problems(definition: Object) -> Iterator[Cause]:
    spec, name = definition["spec"], definition["metadata"]["name"]
    names, group = spec.get("names") or {}, spec.get("group") or ""
    if name != f"{names.get('plural', '')}.{group}":
        yield invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    if not group:
        yield required("spec.group")
    else:
        yield from invalid_each("spec.group", group, dns_subdomain_problems(group))
        if "." not in group:
            yield invalid("spec.group", group, "should be a domain with at least one dot")
    yield from one_of("spec.scope", spec.get("scope"), _SCOPES)
    yield from _name_problems(names)
    yield from _version_problems(definition)


def _name_problems(names: Object) -> Iterator[Cause]:
    for key in ("plural", "singular", "kind", "listKind"):
        name = names.get(key) or ""
        if not name:
            yield required(f"spec.names.{key}")
        else:
            yield from invalid_each(f"spec.names.{key}", name, dns_label_1035_problems(name.lower()))
    for key in ("shortNames", "categories"):
        for index, name in enumerate(names.get(key) or ()):
            yield from invalid_each(f"spec.names.{key}[{index}]", name, dns_label_1035_problems(name))
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield invalid("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")


def _version_problems(definition: Object) -> Iterator[Cause]:
    versions = definition["spec"].get("versions") or []
    seen: set[str] = set()
    for index, version in enumerate(versions):
        path, name = f"spec.versions[{index}].name", version.get("name") or ""
        yield from invalid_each(path, name, dns_label_1035_problems(name))
        if name in seen:
            yield duplicate(path, name)
        seen.add(name)
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid("spec.versions", versions, "must have exactly one version marked as storage version")
    stored = (definition.get("status") or {}).get("storedVersions")
    if not stored:
        yield invalid("status.storedVersions", stored, "must have at least one stored version")
    for index, name in enumerate(stored or ()):
        if name not in seen:
            yield invalid(f"status.storedVersions[{index}]", name, "must appear in spec.versions")
    schemas = [(version.get("schema") or {}).get("openAPIV3Schema") for version in versions]
    shared = all(schema == schemas[0] for schema in schemas)
    for index, schema in enumerate(schemas[:1] if shared else schemas):
        path = "spec.validation" if shared else f"spec.versions[{index}].schema"
        problems = list(_root_problems(schema, path, f"spec.versions[{index}].schema"))
        yield from problems
        if schema is not None and not problems and _puts_rules(definition, schema):
            from jobset.cluster.model.kinds.cel_definition import rule_problems

            yield from rule_problems(schema, f"{path}.openAPIV3Schema")


def _puts_rules(definition: Object, schema: Schema) -> bool:
    """Whether there are rules in CEL to look at. JobSet's own are plain code here and need no CEL."""
    return definition["spec"].get("group") != JOBSETS.group and has_rules(schema)


def _root_problems(schema: Schema | None, path: str, absent_path: str) -> Iterator[Cause]:
    if schema is None:
        yield required(f"{absent_path}.openAPIV3Schema", "schemas are required")
        return
    path = f"{path}.openAPIV3Schema"
    if not schema.get("type"):
        yield required(f"{path}.type", "must not be empty at the root")
    elif schema["type"] != "object":
        yield invalid(f"{path}.type", schema["type"], "must be object at the root")
    problems = list(_schema_problems(schema, path))
    yield from problems
    if not problems:
        yield from _default_problems(schema, path)


def definition_warnings(definition: Object) -> list[str]:
    """Of rules in CEL that are taken and will not be enforced."""
    warnings: list[str] = []
    for index, version in enumerate(definition["spec"].get("versions") or ()):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema and _puts_rules(definition, schema):
            from jobset.cluster.model.kinds.cel_definition import rule_warnings

            warnings += rule_warnings(schema, f"spec.versions[{index}].schema.openAPIV3Schema")
    return list(dict.fromkeys(warnings))


def _schema_problems(schema: Schema, path: str) -> Iterator[Cause]:
    type_, items, additional = schema.get("type"), schema.get("items"), schema.get("additionalProperties")
    if type_ is not None and type_ not in _TYPES:
        yield not_supported(f"{path}.type", type_, _TYPES)
    for key in _FORBIDDEN:
        if schema.get(key):
            yield forbidden(f"{path}.{key}", f"{key} is not supported")
    if schema.get("uniqueItems"):
        yield forbidden(
            f"{path}.uniqueItems", "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        )
    if schema.get("pattern"):
        try:
            compile_pattern(schema["pattern"])
        except ValueError as problem:
            yield invalid(
                f"{path}.pattern", schema["pattern"], f"must be a valid regular expression, but isn't: {problem}"
            )
    if type_ == "array" and not isinstance(items, dict):
        yield required(f"{path}.items", "must be specified")
    if additional is not None and schema.get("properties"):
        yield forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    yield from _list_problems(schema, path)
    for name, child in (schema.get("properties") or {}).items():
        here = f"{path}.properties[{name}]"
        yield from _typed_problems(child, here, "must not be empty for specified object fields")
        yield from _schema_problems(child, here)
    for key, value, detail in (
        ("items", items, "must not be empty for specified array items"),
        ("additionalProperties", additional, "must not be empty for specified object fields"),
    ):
        if isinstance(value, dict):
            yield from _typed_problems(value, f"{path}.{key}", detail)
            yield from _schema_problems(value, f"{path}.{key}")
    for key in _JUNCTORS:
        for index, part in enumerate(schema.get(key) or ()):
            yield from _junctor_problems(part, f"{path}.{key}[{index}]", schema)
            if key != "allOf" and has_rules(part):
                yield forbidden(f"{path}.{key}[{index}].x-kubernetes-validations", "must be empty to be structural")


def _typed_problems(schema: Schema, path: str, detail: str) -> Iterator[Cause]:
    """Structural: the type of every field is known."""
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if not schema.get("type") and not free:
        yield required(f"{path}.type", detail)


def _junctor_problems(part: Schema, path: str, whole: Schema) -> Iterator[Cause]:
    """Inside allOf, anyOf and oneOf only values are restricted; the structure stands outside."""
    for key in ("default", "nullable", "description", "title", "additionalProperties"):
        if part.get(key) is not None:
            yield forbidden(f"{path}.{key}", "must be undefined to be structural")
    if part.get("type") and not whole.get("x-kubernetes-int-or-string"):
        yield forbidden(f"{path}.type", "must be empty to be structural")


def _list_problems(schema: Schema, path: str) -> Iterator[Cause]:
    list_type, map_type = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-map-type")
    keys = schema.get("x-kubernetes-list-map-keys") or []
    items = schema.get("items") if isinstance(schema.get("items"), dict) else {}
    here = f"{path}.x-kubernetes-list-map-keys"
    if list_type is not None:
        if schema.get("type") != "array":
            yield invalid(
                f"{path}.type", schema.get("type", ""), "must be array if x-kubernetes-list-type is specified"
            )
        if list_type not in _LIST_TYPES:
            yield not_supported(f"{path}.x-kubernetes-list-type", list_type, _LIST_TYPES)
    if keys and list_type != "map":
        yield invalid(
            f"{path}.x-kubernetes-list-type", list_type or "", "must be map if x-kubernetes-list-map-keys is non-empty"
        )
    if list_type == "map":
        if not keys:
            yield required(here, "must not be empty if x-kubernetes-list-type is map")
        yield from _key_problems(keys, items or {}, path)
    if map_type is not None and map_type not in _MAP_TYPES:
        yield not_supported(f"{path}.x-kubernetes-map-type", map_type, _MAP_TYPES)


def _key_problems(keys: list[str], items: Schema, path: str) -> Iterator[Cause]:
    properties, needed = items.get("properties") or {}, items.get("required") or ()
    for index, key in enumerate(keys):
        here = f"{path}.x-kubernetes-list-map-keys[{index}]"
        child = properties.get(key)
        if child is None:
            yield invalid(here, key, "entries must all be names of item properties")
        elif child.get("type") in ("array", "object"):
            detail = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid(f"{path}.items.properties[{key}].type", child["type"], detail)
        elif key not in needed and child.get("default") is None:
            detail = (
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            )
            yield required(f"{path}.items.properties[{key}].default", detail)


def _default_problems(schema: Schema, path: str) -> Iterator[Cause]:
    """A default must itself be what the schema asks for."""
    if "default" in schema:
        bare = {key: value for key, value in schema.items() if key != "default"}
        wrapped = rules_of_schema({"type": "object", "properties": {"default": bare}})
        for cause in wrapped.validate(wrapped.default({"default": schema["default"]})):
            if cause.field.startswith("default"):
                yield Cause(cause.reason, cause.message, f"{path}.{cause.field}")
    children: list[tuple[str, Any]] = [
        (f"properties[{name}]", child) for name, child in (schema.get("properties") or {}).items()
    ]
    children += [(key, schema.get(key)) for key in ("items", "additionalProperties")]
    for key, child in children:
        if isinstance(child, dict):
            yield from _default_problems(child, f"{path}.{key}")


def validate_definition_update(new: Object, old: Object) -> list[Cause]:
    causes = [] if new["spec"] == old["spec"] else validate_definition(new)
    spec, before = new["spec"], old["spec"]
    for key in ("group", "scope"):
        causes.extend(immutable(f"spec.{key}", spec.get(key), before.get(key)))
    for key in ("kind", "plural"):
        causes.extend(immutable(f"spec.names.{key}", spec["names"].get(key), before["names"].get(key)))
    return causes
