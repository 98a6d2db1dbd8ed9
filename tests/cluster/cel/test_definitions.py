"""CustomResourceDefinitions with rules: what is refused, what is only warned of."""

from __future__ import annotations

from typing import Any

import pytest

from jobset.cluster.model.kinds import cel_expressions
from jobset.cluster.model.kinds.cel_definition import UNENFORCED, rule_problems, rule_warnings
from jobset.cluster.model.kinds.cel_rules import Rules

pytest.importorskip("cel_expr_python")

TEXT: dict[str, Any] = {"type": "string"}
SPEC = {
    "type": "object",
    "properties": {
        "text": TEXT,
        "number": {"type": "integer"},
        "share": {"type": "number"},
        "flag": {"type": "boolean"},
        "at": {"type": "string", "format": "date-time"},
        "any": {"x-kubernetes-int-or-string": True},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "map": {"type": "object", "additionalProperties": TEXT},
        "list": {"type": "array", "items": {"type": "object", "properties": {"name": TEXT}}},
    },
}


def found(rule: dict[str, Any], spec: dict[str, Any] = SPEC) -> list[tuple[str, str]]:
    """(last part of the path, message) of what is wrong with a rule about the spec."""
    schema = {"type": "object", "properties": {"spec": {**spec, "x-kubernetes-validations": [rule]}}}
    causes = list(rule_problems(schema, "schema"))
    assert all(cause.field.startswith("schema.properties[spec].x-kubernetes-validations[0]") for cause in causes)
    return [(cause.field.rpartition(".")[2], cause.message) for cause in causes]


@pytest.mark.parametrize(
    "rule",
    [
        "self.text == 'a' && self.number > 1 && self.share > 1.0 && self.flag",
        "self.number < self.share",
        "self.any == 1 || self.any == 'a'",
        "self.map['a'] == 'b' && self.map.b == 'c' && self.map.all(k, self.map[k] != '')",
        "self.list.all(one, one.name != '') && self.list[0].name == 'x'",
        "self.list.exists(one, has(one.name)) && self.list.map(one, one.name).size() > 0",
        "has(self.free) && self.?text.orValue('') == ''",
        "cel.bind(first, self.list[0], first.name == 'a')",
        "self.at > timestamp('2020-01-01T00:00:00Z')",
        "self == oldSelf",
        "(has(self.flag) ? self.text : 'b') == 'a'",
    ],
)
def test_rules_that_fit(rule: str) -> None:
    assert found({"rule": rule}) == []


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("self.nope == 1", "1:5: undefined field 'nope'"),
        ("has(self.nope)", "undefined field 'nope'"),
        ("self.?nope.hasValue()", "undefined field 'nope'"),
        ("self.list.all(one, one.nope == '')", "undefined field 'nope'"),
        ("cel.bind(first, self.list[0], first.nope == 'a')", "undefined field 'nope'"),
        ("self.text.more == 1", "type 'string' does not support field selection"),
        ("self.text == 1", "found no matching overload for '_==_' applied to '(string, int)'"),
        ("self.text + 1 > 0", "found no matching overload for '_+_' applied to '(string, int)'"),
        ("self.share == 1", "found no matching overload for '_==_' applied to '(double, int)'"),
        ("self.text && true", "found no matching overload for '_&&_' applied to '(string, bool)'"),
        ("self.number", "must evaluate to a bool"),
        ("'a' + 'b'", "must evaluate to a bool"),
        ("self.text ==", "Syntax error"),
        ("nope(1)", "undeclared reference to 'nope'"),
        ("1 + 'a' == 2", "found no matching overload"),
    ],
)
def test_rules_that_do_not_compile(rule: str, says: str) -> None:
    [(field, message)] = found({"rule": rule})
    assert field == "rule" and says in message


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        ({"rule": " "}, "rule"),
        ({"rule": "true", "message": " "}, "message"),
        ({"rule": "true", "message": "a\nb"}, "message"),
        ({"rule": "true &&\ntrue"}, "message"),
        ({"rule": "true", "messageExpression": " "}, "messageExpression"),
        ({"rule": "true", "messageExpression": "1"}, "messageExpression"),
        ({"rule": "true", "messageExpression": "nope"}, "messageExpression"),
        ({"rule": "true", "reason": "Bad"}, "reason"),
        ({"rule": "true", "fieldPath": ".nope"}, "fieldPath"),
        ({"rule": "true", "fieldPath": "text"}, "fieldPath"),
        ({"rule": "true", "optionalOldSelf": True}, "optionalOldSelf"),
    ],
)
def test_rules_that_are_not_in_order(rule: dict[str, Any], field: str) -> None:
    assert [where for where, _ in found(rule)] == [field]


def test_items_that_have_no_older_selves_cannot_be_compared_with_them() -> None:
    for list_type, refused in (("atomic", True), ("set", True), ("map", False)):
        item = {"type": "object", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}
        schema = {"type": "object", "properties": {"l": {"type": "array", "items": item}}}
        schema["properties"]["l"]["x-kubernetes-list-type"] = list_type
        messages = [cause.message for cause in rule_problems(schema, "schema")]
        assert bool(messages) == refused
        assert all("uncorrelatable portion of the schema within schema.properties[l]" in text for text in messages)


def test_what_the_package_cannot_do_is_warned_of_and_not_enforced() -> None:
    rule = {"rule": "self.list.all(i, one, one.name != '')"}
    schema = {"type": "object", "properties": {"spec": {**SPEC, "x-kubernetes-validations": [rule]}}}
    assert list(rule_problems(schema, "schema")) == []
    [warning] = rule_warnings(schema, "schema")
    assert "not enforced: macros with two variables" in warning
    assert Rules(schema).problems({"spec": {"list": [{"name": ""}]}}, None) == []


def test_without_the_package_rules_are_taken_and_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("cel_definition", "cel_rules"):
        monkeypatch.setattr(f"{cel_expressions.__package__}.{module}.available", lambda: False)
    schema = {"type": "object", "x-kubernetes-validations": [{"rule": "false"}]}
    assert list(rule_problems(schema, "schema")) == []
    assert list(rule_warnings(schema, "schema")) == [UNENFORCED]
    assert Rules(schema).problems({}, None) == []
    assert list(rule_warnings({"type": "object"}, "schema")) == []
