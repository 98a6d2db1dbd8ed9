"""The custom resource definition of JobSet, written from its schema (api/jobset_schema.py). Pure.

For clusters whose API server is a real one, and for whoever wants to know the API. Kubernetes' own types are written
out in the structural form that definitions must have, without their descriptions.
"""

from __future__ import annotations

from jobset.api.jobset import KIND
from jobset.api.jobset_schema import DEFINITIONS, JOBSET
from jobset.api.meta import Object
from jobset.api.resources import CUSTOM_RESOURCE_DEFINITIONS, JOBSETS
from jobset.api.schema import Schema, resolve

_OBJECT_META = "#io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_QUANTITY = "#io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "#io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_FIELDS = "#io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"

_WRITTEN_OUT: dict[str, Schema] = {
    _QUANTITY: {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)"
        r"|(\.[0-9]+))))?$",
        "x-kubernetes-int-or-string": True,
    },
    _INT_OR_STRING: {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
    _FIELDS: {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    _OBJECT_META: {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "namespace": {"type": "string"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
            "finalizers": {"type": "array", "items": {"type": "string"}},
        },
    },
}
"""Embedded metadata holds what a template may have; the rest belongs to the API server."""

_PRINTED = (
    ("TerminalState", "string", ".status.terminalState", "Final state of the JobSet"),
    ("Restarts", "string", ".status.restarts", "Number of restarts of the whole JobSet"),
    ("Completed", "string", '.status.conditions[?(@.type=="Completed")].status', "Whether the JobSet has completed"),
    ("Suspended", "string", ".spec.suspend", "Whether the JobSet is suspended"),
    ("Age", "date", ".metadata.creationTimestamp", "Time since the JobSet was created"),
)
_KEY_DEFAULTS = {"protocol": "TCP"}
_KEPT = (
    "enum", "format", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "default", "required",
    "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type", "x-kubernetes-validations",
    "x-kubernetes-preserve-unknown-fields",
)  # fmt: skip


def custom_resource_definition() -> Object:
    """The object that `kubectl apply` makes JobSet known with."""
    root = DEFINITIONS[JOBSET]["properties"]
    schema = {
        "type": "object",
        "description": "JobSet runs several groups of Jobs as one: started, restarted, failed and finished together.",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": _structural(root["spec"]),
            "status": _structural(root["status"]),
        },
    }
    version = {
        "name": JOBSETS.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": name, "type": type_, "jsonPath": path, "description": text} for name, type_, path, text in _PRINTED
        ],
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": CUSTOM_RESOURCE_DEFINITIONS.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITIONS.kind,
        "metadata": {"name": str(JOBSETS)},
        "spec": {
            "group": JOBSETS.group,
            "names": {"kind": KIND, "listKind": f"{KIND}List", "plural": JOBSETS.plural, "singular": KIND.lower()},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def _structural(schema: Schema) -> Schema:
    """A schema with references written out and one type for each value."""
    reference = schema.get("$ref", "")
    own = {key: schema[key] for key in _KEPT if key in schema}
    if reference in _WRITTEN_OUT:
        return {**_WRITTEN_OUT[reference], **own}
    whole = resolve(schema)
    types = whole.get("type", "object")
    result: Schema = {"type": types if isinstance(types, str) else next(name for name in types if name != "null")}
    result |= {key: whole[key] for key in _KEPT if key in whole}
    if "properties" in whole:
        result["properties"] = {name: _structural(child) for name, child in whole["properties"].items()}
    if "items" in whole:
        result["items"] = _structural(whole["items"])
    if isinstance(whole.get("additionalProperties"), dict):
        result["additionalProperties"] = _structural(whole["additionalProperties"])
    return _with_key_defaults(result | own)


def _with_key_defaults(schema: Schema) -> Schema:
    """In a list kept by keys, each key must be required or have a default (of ports, the protocol)."""
    items = schema.get("items", {})
    optional = [key for key in schema.get("x-kubernetes-list-map-keys", ()) if key not in items.get("required", ())]
    if not optional:
        return schema
    defaults = {key: {**items["properties"][key], "default": _KEY_DEFAULTS.get(key, "")} for key in optional}
    return {**schema, "items": {**items, "properties": {**items["properties"], **defaults}}}
