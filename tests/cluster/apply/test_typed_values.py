"""Values along their merge types: order of merged lists, comparison, what a configuration speaks of."""

from __future__ import annotations

from typing import Any

import pytest

from jobset.cluster.apiserver.field_sets import encoded, paths
from jobset.cluster.apiserver.merge_types import merge_type_of_custom, merge_type_of_definition
from jobset.cluster.apiserver.typed_values import Untypable, compared, fields_of, merged, without_fields

POD = merge_type_of_definition("io.k8s.api.core.v1.Pod")
TEXT = {"type": "string"}
WIDGET = merge_type_of_custom(
    {
        "type": "object",
        "properties": {
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
            "atomic": {"type": "array", "items": TEXT},
            "frozen": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": TEXT},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "embedded": {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": TEXT}},
            "either": {"x-kubernetes-int-or-string": True},
        },
    }
)


@pytest.mark.parametrize(
    ("live", "applied", "result"),
    [
        ("ab", "c", "abc"),
        ("ab", "ca", "cab"),
        ("abc", "ca", "bca"),
        ("abc", "cx", "abcx"),
        ("cba", "ac", "bac"),
        ("ab", "bxa", "bxa"),
        ("aob", "ab", "aob"),
        ("", "ab", "ab"),
        ("ab", "", "ab"),
    ],
)
def test_order_of_merged_lists(live: str, applied: str, result: str) -> None:
    assert merged({"set": list(live)}, {"set": list(applied)}, WIDGET) == {"set": list(result)}


def test_merging_shares_what_stays() -> None:
    live = {"set": ["a"], "free": {"x": {"y": 1}}, "frozen": {"a": "1"}}
    assert merged(live, {"set": ["a"], "free": {"x": {"y": 1}}}, WIDGET) is live
    new = merged(live, {"free": {"x": {"z": 2}}, "frozen": {"b": "2"}}, WIDGET)
    assert new == {"set": ["a"], "free": {"x": {"y": 1, "z": 2}}, "frozen": {"b": "2"}}
    assert new["set"] is live["set"]


def test_a_comparison_names_what_came_with_its_containers() -> None:
    old = {"free": {"a": 1, "b": [1]}, "set": ["x"], "either": 1}
    new = {"free": {"a": 2, "b": [1]}, "set": ["y"], "either": "1", "embedded": {"metadata": {"labels": {"l": "1"}}}}
    comparison = compared(old, new, WIDGET)
    assert list(paths(comparison.modified)) == [".either", ".free.a"]
    assert list(paths(comparison.removed)) == ['.set[="x"]']
    assert list(paths(comparison.added)) == [
        ".embedded", ".embedded.metadata", ".embedded.metadata.labels", ".embedded.metadata.labels.l", '.set[="y"]',
    ]  # fmt: skip


def test_items_with_keys_are_the_same_wherever_they_stand() -> None:
    first, second = {"name": "a", "image": "x"}, {"name": "b", "image": "y"}
    old = {"spec": {"containers": [first, second]}}
    new = {"spec": {"containers": [second, {**first, "image": "z"}]}}
    assert list(paths(compared(old, new, POD).changed)) == ['.spec.containers[name="a"].image']


def test_what_a_configuration_speaks_of() -> None:
    config = {"atomic": ["a"], "set": ["s"], "frozen": {"a": "1"}, "free": {"a": {"b": 1}, "c": []}, "either": None}
    assert encoded(fields_of(config, WIDGET)) == {
        "f:atomic": {},
        "f:set": {'v:"s"': {}},
        "f:frozen": {},
        "f:free": {"f:a": {".": {}, "f:b": {}}, "f:c": {}},
        "f:either": {},
    }


def test_a_key_with_a_default_may_be_left_out() -> None:
    config = {"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}}
    assert '.spec.containers[name="c"].ports[containerPort=80,protocol="TCP"]' in paths(fields_of(config, POD))


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"nope": 1}, ".nope: field not declared in schema"),
        ({"set": ["a", "a"]}, '.set: duplicate entries for key [="a"]'),
        ({"set": [{}]}, "a set has an item that is no scalar"),
        ({"set": "a"}, ".set: expected list"),
        ({"metadata": {"ownerReferences": [{"name": "x"}]}}, 'omits key field "uid"'),
        ({"metadata": {"labels": "x"}}, ".metadata.labels: expected map"),
    ],
)
def test_configurations_that_do_not_fit(config: dict[str, Any], says: str) -> None:
    with pytest.raises(Untypable) as caught:
        fields_of(config, WIDGET)
    assert says in str(caught.value)


def test_fields_are_taken_out_and_the_rest_stays() -> None:
    value = {"set": ["a", "b"], "free": {"a": 1, "b": 2}}
    gone = compared({}, {"set": ["a"], "free": {"a": 1}}, WIDGET).added
    for name in gone.values():
        name.pop(".")
    assert without_fields(value, gone, WIDGET) == {"set": ["b"], "free": {"b": 2}}
