"""Custom resources: what a definition makes of them, and what is wrong with a definition itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jobset.api.meta import Object
from jobset.api.schema import Schema
from jobset.cluster.model.kinds.custom import kind_from_definition, rules_of_schema
from jobset.cluster.model.kinds.definitions import CUSTOM_RESOURCE_DEFINITION
from jobset.cluster.model.kinds.kind import Column, Kind, ScalePaths

CASES = Path(__file__).parents[2] / "conformance" / "cases"
NAME = "widgets.example.com"


def definition(spec_schema: Schema, *, name: str = NAME, **version: Any) -> Object:
    schema = {"type": "object", "properties": {"spec": spec_schema, "status": {"type": "object"}}}
    only = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **version}
    names = {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [only]}
    kind = CUSTOM_RESOURCE_DEFINITION
    return kind.prepare_create(kind.default({"metadata": {"name": name, "uid": "u"}, "spec": spec}))


def problems_of(schema: Schema) -> list[tuple[str, str]]:
    causes = CUSTOM_RESOURCE_DEFINITION.validate(definition(schema))
    prefix = "spec.validation.openAPIV3Schema.properties[spec]."
    return [(cause.field.removeprefix(prefix), cause.reason) for cause in causes]


SPEC_CASES: list[tuple[Schema, Any, list[tuple[str, str]]]] = [
    ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, 1, [("", "FieldValueInvalid")]),
    ({"type": "integer", "multipleOf": 5}, 7, [("", "FieldValueInvalid")]),
    ({"type": "integer", "format": "int32"}, 2**31, [("<nil>", "FieldValueInvalid")]),
    ({"type": "integer"}, True, [("", "FieldValueTypeInvalid")]),
    ({"type": "string"}, None, [("", "FieldValueTypeInvalid")]),
    ({"type": "string", "nullable": True}, None, []),
    ({"type": "string", "pattern": "^[a-z]+$"}, "A", [("", "FieldValueInvalid")]),
    ({"type": "string", "pattern": "b"}, "abc", []),
    ({"type": "string", "maxLength": 1}, "ab", [("", "FieldValueTooLong")]),
    ({"type": "string", "enum": ["a"]}, "b", [("", "FieldValueNotSupported")]),
    ({"type": "string", "format": "date-time"}, "2026-01-31T12:00:00Z", []),
    ({"type": "string", "format": "date-time"}, "yesterday", [("", "FieldValueTypeInvalid")]),
    ({"type": "string", "format": "ipv4"}, "1.2.3", [("", "FieldValueTypeInvalid")]),
    ({"type": "string", "format": "of-my-own"}, "anything", []),
    ({"type": "string", "format": "uri"}, "https://example.com/a", []),
    ({"type": "string", "format": "uri"}, "not a uri", [("", "FieldValueTypeInvalid")]),
    ({"type": "array", "items": {"type": "string"}, "minItems": 1}, [], [("", "FieldValueInvalid")]),
    (
        {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}},
        {},
        [(".a", "FieldValueRequired")],
    ),
    (
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"a": 1, "b": "x"},
        [(".b", "FieldValueTypeInvalid")],
    ),
    ({"type": "integer", "not": {"enum": [3]}}, 3, [("", "FieldValueInvalid")]),
    ({"type": "integer", "anyOf": [{"minimum": 5}, {"maximum": 1}]}, 3, [("", "FieldValueInvalid")]),
    ({"type": "integer", "oneOf": [{"minimum": 5}, {"minimum": 1}]}, 3, []),
    ({"type": "integer", "oneOf": [{"minimum": 5}, {"minimum": 1}]}, 7, [("", "FieldValueInvalid")]),
    ({"type": "integer", "allOf": [{"minimum": 5}, {"maximum": 1}]}, 3, [("", "FieldValueInvalid")] * 2),
    ({"x-kubernetes-int-or-string": True}, 1.5, [("", "FieldValueTypeInvalid")]),
]


@pytest.mark.parametrize(("schema", "value", "expected"), SPEC_CASES)
def test_values(schema: Schema, value: Any, expected: list[tuple[str, str]]) -> None:
    rules = rules_of_schema({"type": "object", "properties": {"spec": schema}})
    causes = rules.validate(rules.default({"spec": value}))
    assert [(cause.field.removeprefix("spec"), cause.reason) for cause in causes] == expected


def test_pruning_keeps_what_the_schema_lets_through() -> None:
    schema = {
        "type": "object",
        "properties": {
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "pod": {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "properties": {"spec": {"type": "object"}},
            },
        },
    }
    rules = rules_of_schema({"type": "object", "properties": {"spec": schema}})
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"x": 1}}
    sent = {
        "apiVersion": "a/v1",
        "kind": "W",
        "metadata": {"name": "w"},
        "spec": {"free": {"a": 1}, "pod": pod, "b": 2},
    }
    assert rules.unknown_fields(sent) == ["spec.pod.spec.x", "spec.b"]
    kept = rules.default(sent)
    assert kept["spec"] == {"free": {"a": 1}, "pod": {**pod, "spec": {}}}
    assert kept["metadata"] == {"name": "w"}


def test_what_did_not_change_is_not_checked_again() -> None:
    item = {"type": "object", "properties": {"name": {"type": "string"}, "size": {"type": "integer", "maximum": 5}}}
    jobs = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": item}
    rules = rules_of_schema({"type": "object", "properties": {"jobs": jobs}})
    old = {"jobs": [{"name": "a", "size": 9}, {"name": "b", "size": 9}]}
    reordered = {"jobs": [{"name": "b", "size": 8}, {"name": "a", "size": 9}]}
    assert [cause.field for cause in rules.validate(old)] == ["jobs[0].size", "jobs[1].size"]
    assert [cause.field for cause in rules.validate_update(reordered, old)] == ["jobs[0].size"]


def widget_kind(**version: Any) -> Kind:
    return kind_from_definition(definition({"type": "object"}, **version), "v1")


def test_the_kind_of_a_definition() -> None:
    kind = widget_kind(
        subresources={"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
        additionalPrinterColumns=[{"name": "N", "type": "integer", "jsonPath": ".spec.n"}],
        selectableFields=[{"jsonPath": ".spec.mode"}],
    )
    assert (str(kind.resource), kind.resource.api_version) == (NAME, "example.com/v1")
    assert (kind.short_names, kind.categories, kind.field_selectors) == (("wd",), ("all",), ("spec.mode",))
    assert kind.columns == (Column("N", "integer", ".spec.n"),)
    assert kind.scale == ScalePaths(".spec.n", ".status.n")


def test_status_has_a_door_of_its_own() -> None:
    kind = widget_kind(subresources={"status": {}})
    obj = {"metadata": {"name": "w"}, "spec": {}, "status": {}}
    assert "status" not in kind.prepare_create(obj)
    merged = kind.subresources["status"].merge({**obj, "spec": {"a": 1}, "metadata": {"labels": {"x": "y"}}}, obj)
    assert merged == obj
    assert widget_kind().subresources == {}
    assert widget_kind().prepare_create(obj) is obj


DEFINITION_CASES: list[tuple[Schema, list[tuple[str, str]]]] = [
    ({"type": "object", "properties": {"a": {}}}, [("properties[a].type", "FieldValueRequired")]),
    ({"type": "array"}, [("items", "FieldValueRequired")]),
    ({"type": "array", "items": {}}, [("items.type", "FieldValueRequired")]),
    ({"type": "text"}, [("type", "FieldValueNotSupported")]),
    ({"type": "string", "pattern": "(?=a)"}, [("pattern", "FieldValueInvalid")]),
    ({"type": "integer", "default": "x"}, [("default", "FieldValueTypeInvalid")]),
    ({"type": "integer", "anyOf": [{"type": "integer"}]}, [("anyOf[0].type", "FieldValueForbidden")]),
    (
        {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"},
        [("x-kubernetes-list-map-keys", "FieldValueRequired")],
    ),
    (
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "properties": {"name": {"type": "string"}}},
        },
        [("items.properties[name].default", "FieldValueRequired")],
    ),
]


@pytest.mark.parametrize(("schema", "expected"), DEFINITION_CASES)
def test_definitions(schema: Schema, expected: list[tuple[str, str]]) -> None:
    assert problems_of(schema) == expected


def test_a_new_definition_is_about_to_store_its_storage_version() -> None:
    made = definition({"type": "object"})
    assert made["status"]["storedVersions"] == ["v1"]
    assert made["spec"]["names"]["listKind"] == "WidgetList"


def test_a_recorded_custom_resource_is_defaulted_as_recorded() -> None:
    line = (CASES / "jobset-like.jsonl").read_text().splitlines()[0].replace("${ns}", "cf-x")
    made, create, *_ = [step for step in json.loads(line)["steps"] if step.get("method") == "POST"]
    crd = CUSTOM_RESOURCE_DEFINITION.default(made["body"])
    kind = kind_from_definition(crd, "v1")
    got = kind.prepare_create(kind.default(create["body"]))
    assert kind.validate(got) == []
    assert got["spec"] == create["expect"]["body"]["spec"]
