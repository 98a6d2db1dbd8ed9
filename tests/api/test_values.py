"""Quantities, selectors, merge patches: tables."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobset.api.merge_patch import apply_merge_patch, diff_merge_patch
from jobset.api.quantity import parse_bytes, parse_milli, parse_quantity, same_quantity
from jobset.api.selectors import label_selector_of, parse_field_selector, parse_label_selector


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1), ("0.5", Decimal("0.5")), ("100m", Decimal("0.1")), ("1n", Decimal("1e-9")), ("1u", Decimal("1e-6")),
        ("1Ki", 1024), ("1.5Gi", 1610612736), ("2M", 2_000_000), ("12E2", 1200), ("1e3", 1000), ("1E", 10**18),
        (".5", Decimal("0.5")), ("5.", 5), ("-1", -1), ("+3k", 3000), (2, 2),
    ],
)  # fmt: skip
def test_quantity(text: str | int, value: Decimal | int) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize("text", ["", "1 Gi", "1.5e3Mi", "Gi", "1gi", "1KI", "0x10", "1e", "--1", "1e999", "٣"])
def test_not_a_quantity(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a quantity|out of range"):
        parse_quantity(text)


def test_quantities_round_up_and_compare_by_value() -> None:
    assert parse_bytes("1.1") == 2
    assert parse_milli("0.1234") == 124
    assert same_quantity("1", "1000m")
    assert not same_quantity("1", "1001m")
    assert same_quantity("odd", "odd")


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        ("", {}, True),
        ("a=b", {"a": "b"}, True),
        ("a==b", {"a": "c"}, False),
        ("a!=b", {}, True),
        ("a!=b", {"a": "b"}, False),
        ("a in (b, c),d", {"a": "c", "d": ""}, True),
        ("a in (b, c),d", {"a": "c"}, False),
        ("a notin (b,c)", {"a": "d"}, True),
        ("a notin (b,c)", {}, True),
        ("!a", {"a": "1"}, False),
        ("x.io/a", {"x.io/a": "1"}, True),
        ("a>3", {"a": "10"}, True),
        ("a<3", {"a": "10"}, False),
        ("a>3", {"a": "ten"}, False),
    ],
)
def test_label_selector(selector: str, labels: dict[str, str], matches: bool) -> None:
    assert parse_label_selector(selector).matches(labels) is matches


@pytest.mark.parametrize("selector", ["a in b", "a=b=c", ",", "a in (b", "=b", "a=-x", "a b"])
def test_bad_label_selector(selector: str) -> None:
    with pytest.raises(ValueError, match="label selector"):
        parse_label_selector(selector)


def test_label_selector_object() -> None:
    assert label_selector_of(None) is None
    everything = label_selector_of({})
    assert everything is not None
    assert everything.matches({"any": "thing"})
    both = label_selector_of({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]})
    assert both is not None
    assert both.matches({"a": "b", "c": ""})
    assert not both.matches({"a": "b"})


def test_field_selector() -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "hostNetwork": True}}
    assert parse_field_selector("metadata.name=p,spec.nodeName!=m").matches(pod)
    assert parse_field_selector("status.phase=").matches(pod)
    assert parse_field_selector("spec.hostNetwork=true").matches(pod)
    assert not parse_field_selector("spec.nodeName!=n").matches(pod)


json_objects: st.SearchStrategy[Any] = st.recursive(
    st.integers(0, 3) | st.text("ab", max_size=2) | st.lists(st.integers(0, 2), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("abc"), json_objects, max_size=3)


@given(objects, objects)
def test_the_difference_of_two_objects_leads_from_one_to_the_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    patch = diff_merge_patch(old, new)
    assert (patch == {}) == (old == new)
    assert apply_merge_patch(old, patch) == new


def test_what_a_patch_leaves_alone_stays_shared() -> None:
    old = {"spec": {"big": [1, 2]}, "status": {"a": 1, "b": 2}}
    new = apply_merge_patch(old, {"status": {"a": None, "c": 3}})
    assert new == {"spec": {"big": [1, 2]}, "status": {"b": 2, "c": 3}}
    assert new["spec"] is old["spec"]
    assert old["status"] == {"a": 1, "b": 2}
    assert apply_merge_patch(old, {"status": {"a": 1}}) is old
