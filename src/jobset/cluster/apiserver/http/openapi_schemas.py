"""Schemas as OpenAPI wants them, from our definitions (JSON Schema) and from those of custom resources. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jobset.api.resources import Resource
from jobset.api.schema import Schema

OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_GVK = "x-kubernetes-group-version-kind"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_SCHEMA_MAPS = ("properties",)
_SCHEMAS = ("items", "additionalProperties", "not")
_SCHEMA_LISTS = ("allOf", "anyOf", "oneOf")
_NOT_IN_SWAGGER = ("nullable", "anyOf", "oneOf", "not")


def references(schema: Any) -> Iterator[str]:
    """The names of the definitions that a schema refers to."""
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].removeprefix("#")
        for value in schema.values():
            yield from references(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from references(item)


class Rewriter:
    """Writes schemas for one version of OpenAPI. `prefix`: where it keeps definitions."""

    def __init__(self, prefix: str, *, swagger: bool) -> None:
        self._prefix = prefix
        self._swagger = swagger

    def rewrite(self, schema: Schema) -> Schema:
        result: Schema = {}
        for key, value in schema.items():
            if self._swagger and key in _NOT_IN_SWAGGER:
                continue
            if key == "$ref":
                result[key] = self._prefix + value.removeprefix("#")
            elif key in _SCHEMA_MAPS:
                result[key] = {name: self.rewrite(child) for name, child in value.items()}
            elif key in _SCHEMAS and isinstance(value, dict):
                result[key] = self.rewrite(value)
            elif key in _SCHEMA_LISTS:
                result[key] = [self.rewrite(child) for child in value]
            elif key == "type":
                result[key] = _one_type(value)
            else:
                result[key] = value
        if _GVK in schema:
            _forget_choices(result)
        if self._swagger and "oneOf" in schema and "type" not in schema:
            result["type"] = "string"  # quantities, and numbers that may be text
            if _takes_integers(schema):
                result["format"] = "int-or-string"
        return result


def _one_type(value: str | list[str]) -> str:
    """Every field may be null on the wire; OpenAPI does not say so."""
    return value if isinstance(value, str) else next(name for name in value if name != "null")


def _forget_choices(schema: Schema) -> None:
    """What a kind is called is told by its group, version and kind."""
    properties = schema.get("properties", {})
    for name in ("apiVersion", "kind"):
        if name in properties:
            properties[name] = {"type": "string"}


def _takes_integers(schema: Schema) -> bool:
    return any(_one_type(choice["type"]) == "integer" for choice in schema["oneOf"])


def custom_schema(resource: Resource, schema: Schema) -> Schema:
    """The schema of a custom resource from that in its definition."""
    common: Schema = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"$ref": f"#{OBJECT_META}"},
    }
    return {
        "type": "object",
        **schema,
        "properties": {**(schema.get("properties") or {}), **common},
        _GVK: [{"group": resource.group, "version": resource.version, "kind": resource.kind}],
    }


def list_schema(resource: Resource, name: str) -> Schema:
    """The schema of a list of the definition `name`."""
    text: Schema = {"type": "string"}
    metadata: Schema = {
        "type": "object",
        "properties": {
            "resourceVersion": text,
            "continue": text,
            "remainingItemCount": {"type": "integer", "format": "int64"},
        },
    }
    return {
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": text,
            "kind": text,
            "metadata": metadata,
            "items": {"type": "array", "items": {"$ref": f"#{name}"}},
        },
        _GVK: [{"group": resource.group, "version": resource.version, "kind": f"{resource.kind}List"}],
    }
