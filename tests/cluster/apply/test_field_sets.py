"""Sets of fields: FieldsV1 and back, and the laws of sets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobset.cluster.apiserver.field_sets import (
    MEMBER,
    FieldSet,
    decoded,
    difference,
    encoded,
    intersection,
    key_element,
    of_paths,
    outside,
    paths,
    union,
    value_element,
)

FIELDS_V1: dict[str, Any] = {
    "f:data": {".": {}, "f:a": {}},
    "f:spec": {
        "f:containers": {'k:{"name":"c"}': {".": {}, "f:image": {}, "f:name": {}}},
        "f:finalizers": {'v:"x"': {}},
        "f:items": {"i:0": {}},
    },
}


def test_fields_v1_and_back() -> None:
    assert encoded(decoded(FIELDS_V1)) == FIELDS_V1


def test_paths_as_conflicts_show_them() -> None:
    assert list(paths(decoded(FIELDS_V1))) == [
        ".data",
        ".data.a",
        '.spec.containers[name="c"]',
        '.spec.containers[name="c"].image',
        '.spec.containers[name="c"].name',
        '.spec.finalizers[="x"]',
        ".spec.items[0]",
    ]


def test_elements_are_written_in_one_way() -> None:
    assert key_element({"protocol": "TCP", "containerPort": 80}) == 'k:{"containerPort":80,"protocol":"TCP"}'
    assert value_element("ä") == 'v:"ä"'


@pytest.mark.parametrize("fields", [[], {"x:a": {}}, {"k:{": {}}, {"k:1": {}}, {"v:{": {}}, {"i:a": {}}, {"f:a": [1]}])
def test_what_is_no_fields_v1(fields: Any) -> None:
    with pytest.raises(ValueError):
        decoded(fields)


def test_what_is_below_a_member_is_outside_only_of_other_members() -> None:
    every = decoded({"f:status": {".": {}, "f:phase": {}}, "f:spec": {"f:a": {}}})
    assert outside(every, of_paths(("status",))) == decoded({"f:spec": {"f:a": {}}})
    assert difference(every, of_paths(("status",))) == decoded({"f:status": {"f:phase": {}}, "f:spec": {"f:a": {}}})


def sets() -> st.SearchStrategy[FieldSet]:
    """Sets of up to six paths, three fields deep."""
    path = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(tuple)
    return st.lists(path, max_size=6).map(lambda chosen: of_paths(*chosen))


def members(fields: FieldSet, path: str = "") -> set[str]:
    found = {path} if MEMBER in fields else set()
    return found.union(*(members(below, path + name) for name, below in fields.items() if name != MEMBER))


@given(sets(), sets())
def test_they_are_sets(left: FieldSet, right: FieldSet) -> None:
    ours, theirs = members(left), members(right)
    assert members(union(left, right)) == ours | theirs
    assert members(intersection(left, right)) == ours & theirs
    assert members(difference(left, right)) == ours - theirs
    assert members(outside(left, right)) == {one for one in ours if not any(one.startswith(two) for two in theirs)}
    assert decoded(encoded(left)) == left
