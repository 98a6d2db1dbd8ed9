"""The structural checker: every kind of problem, all at once, with Kubernetes' paths; sharing of the unchanged."""

from typing import Any

import pytest

from jobset.api.schema import definitions
from jobset.api.structure import (
    check_structure,
    check_types,
    drop_nulls,
    fill_defaults,
    prune,
    structure_of,
    unknown_fields,
)

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["name", "mode"],
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 5},
        "mode": {"type": "string", "enum": ["On", "Off"], "default": "On"},
        "count": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 9},
        "ratio": {"type": "number"},
        "port": {"x-kubernetes-int-or-string": True},
        "size": {"$ref": "#io.k8s.apimachinery.pkg.api.resource.Quantity"},
        "when": {"type": "string", "format": "date-time"},
        "data": {"type": "object", "additionalProperties": {"type": "string", "format": "byte"}},
        "tags": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 2},
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set", "maxItems": 3},
        "keyed": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "n": {"type": "integer", "default": 1}},
            },
        },
        "any": {"x-kubernetes-preserve-unknown-fields": True},
        "open": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"a": {"type": "string"}},
        },
        "closed": {"type": "object"},
        "maybe": {"type": "string", "nullable": True},
    },
}
GOOD: dict[str, Any] = {
    "name": "n",
    "mode": "Off",
    "count": 9,
    "ratio": 1,
    "port": "http",
    "size": "1.5Gi",
    "when": "2026-01-31T12:00:00Z",
    "data": {"k": "aGk="},
    "tags": {"a": "b"},
    "set": ["a", "b"],
    "keyed": [{"name": "a", "n": 2}, {"name": "b", "n": 1}],
    "any": {"what": ["ever", None]},
    "open": {"a": "x", "b": 1},
}


def test_good_value_has_no_problems_and_passes_unchanged() -> None:
    assert check_structure(GOOD, SCHEMA) == []
    assert unknown_fields(GOOD, SCHEMA) == []
    assert prune(GOOD, SCHEMA) is GOOD
    assert drop_nulls(GOOD, SCHEMA) is GOOD
    assert fill_defaults(GOOD, SCHEMA) is GOOD


@pytest.mark.parametrize(
    ("change", "field", "reason"),
    [
        ({"name": 1}, "x.name", "FieldValueTypeInvalid"),
        ({"name": ""}, "x.name", "FieldValueInvalid"),
        ({"name": "abcdef"}, "x.name", "FieldValueTooLong"),
        ({"name": None}, "x.name", "FieldValueRequired"),
        ({"mode": "on"}, "x.mode", "FieldValueNotSupported"),
        ({"count": True}, "x.count", "FieldValueTypeInvalid"),
        ({"count": 1.0}, "x.count", "FieldValueTypeInvalid"),
        ({"count": 2**31}, "x.count", "FieldValueTypeInvalid"),
        ({"count": -1}, "x.count", "FieldValueInvalid"),
        ({"count": 10}, "x.count", "FieldValueInvalid"),
        ({"ratio": "1"}, "x.ratio", "FieldValueTypeInvalid"),
        ({"port": 1.5}, "x.port", "FieldValueTypeInvalid"),
        ({"port": True}, "x.port", "FieldValueTypeInvalid"),
        ({"size": "1 Gi"}, "x.size", "FieldValueTypeInvalid"),
        ({"size": True}, "x.size", "FieldValueTypeInvalid"),
        ({"when": "yesterday"}, "x.when", "FieldValueTypeInvalid"),
        ({"when": "2026-01-31T12:00:00"}, "x.when", "FieldValueTypeInvalid"),
        ({"data": {"k": "?"}}, "x.data.k", "FieldValueTypeInvalid"),
        ({"data": {"k": "é"}}, "x.data.k", "FieldValueTypeInvalid"),
        ({"tags": {"a": 1}}, "x.tags.a", "FieldValueTypeInvalid"),
        ({"tags": {"a": "", "b": "", "c": ""}}, "x.tags", "FieldValueTooMany"),
        ({"set": ["a", "a"]}, "x.set[1]", "FieldValueDuplicate"),
        ({"set": ["a", "b", "c", "d"]}, "x.set", "FieldValueTooMany"),
        ({"set": ["a", None]}, "x.set[1]", "FieldValueTypeInvalid"),
        ({"set": {"a": "b"}}, "x.set", "FieldValueTypeInvalid"),
        ({"keyed": [{"name": "a"}, {"name": "a"}]}, "x.keyed[1]", "FieldValueDuplicate"),
        ({"keyed": ["a"]}, "x.keyed[0]", "FieldValueTypeInvalid"),
        ({"closed": 3}, "x.closed", "FieldValueTypeInvalid"),
    ],
)
def test_one_problem(change: dict[str, Any], field: str, reason: str) -> None:
    causes = check_structure({**GOOD, **change}, SCHEMA, "x")
    assert [(cause.field, cause.reason) for cause in causes] == [(field, reason)]
    only_types = [reason] if reason == "FieldValueTypeInvalid" else []
    assert [cause.reason for cause in check_types({**GOOD, **change}, SCHEMA, "x")] == only_types


def test_all_problems_at_once() -> None:
    causes = check_structure({"count": "3", "set": [1, 2], "keyed": [{"n": "x"}]}, SCHEMA)
    assert [cause.field for cause in causes] == ["name", "mode", "count", "set[0]", "set[1]", "keyed[0].n"]
    assert causes[1].message == 'Required value: one of "On", "Off"'


def test_nullable_and_null() -> None:
    assert check_structure({**GOOD, "maybe": None}, SCHEMA) == []
    assert drop_nulls({"name": None, "tags": {"a": None}, "any": {"b": None}}, SCHEMA) == {
        "tags": {"a": ""},
        "any": {"b": None},
    }


def test_unknown_fields_are_found_suggested_and_pruned() -> None:
    value = {**GOOD, "nmae": 1, "keyed": [{"name": "a", "N": 2}], "closed": {"z": 1}}
    causes = unknown_fields(value, SCHEMA, "x")
    assert [cause.field for cause in causes] == ["x.keyed[0].N", "x.nmae", "x.closed.z"]
    assert causes[0].message == 'unknown field "N" (did you mean "n"?)'
    assert causes[2].message == 'unknown field "z"'
    pruned = prune(value, SCHEMA)
    assert pruned == {**GOOD, "keyed": [{"name": "a"}], "closed": {}}
    assert pruned["open"] is GOOD["open"]


def test_defaults_are_filled_in_where_their_parent_is() -> None:
    old = {"name": "n", "keyed": [{"name": "a", "n": 5}, {"name": "b"}]}
    new = fill_defaults(old, SCHEMA)
    assert new == {"name": "n", "mode": "On", "keyed": [{"name": "a", "n": 5}, {"name": "b", "n": 1}]}
    assert new["keyed"][0] is old["keyed"][0]
    assert old == {"name": "n", "keyed": [{"name": "a", "n": 5}, {"name": "b"}]}


def test_definitions_that_refer_to_themselves() -> None:
    name = "#io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
    nested: dict[str, Any] = {"type": 3}
    for _ in range(50):
        nested = {"properties": {"a": nested}}
    assert [cause.field for cause in check_types(nested, {"$ref": name})] == ["properties.a." * 50 + "type"]


@pytest.mark.parametrize("name", sorted(definitions()))
def test_every_definition_compiles(name: str) -> None:
    structure = structure_of({"$ref": f"#{name}"})
    assert structure.type_problems({}, "") == [] or structure.kind != "object"
    assert (
        structure.unknown({"no-such-field": 1}, "") or structure.free or structure.values or structure.kind != "object"
    )
