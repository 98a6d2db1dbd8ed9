"""Rules in CEL put to objects and to changes, as a table: schema and values to problems."""

from __future__ import annotations

from typing import Any

import pytest

from jobset.cluster.model.kinds.cel_rules import Rules

pytest.importorskip("cel_expr_python")


def schema(spec: dict[str, Any], *rules: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": spec}, **({"x-kubernetes-validations": list(rules)})}


def problems(spec: dict[str, Any], new: Any, old: Any = None) -> list[tuple[str, str]]:
    """(path, message) of each problem of an object with this spec."""
    before = None if old is None else {"spec": old}
    return [(cause.field, cause.message) for cause in Rules(schema(spec)).problems({"spec": new}, before)]


def with_rule(type_: dict[str, Any], rule: str, **more: Any) -> dict[str, Any]:
    return {**type_, "x-kubernetes-validations": [{"rule": rule, **more}]}


TEXT: dict[str, Any] = {"type": "string"}
WHOLE: dict[str, Any] = {"type": "integer"}


@pytest.mark.parametrize(
    ("rule", "value", "holds"),
    [
        ("self == 'a'", "a", True),
        ("self.matches('^a+$')", "aab", False),
        ("self.find('[0-9]+') == '12'", "a12b3", True),
        ("self.findAll('[0-9]+') == ['12', '3']", "a12b3", True),
        ("self.findAll('[0-9]', 1) == ['1']", "a12b3", True),
        ("self.split(',').isSorted()", "a,b,c", True),
        ("self.split(',').isSorted()", "b,a", False),
        ("self.split(',').indexOf('b') == 1 && self.split(',').lastIndexOf('b') == 2", "a,b,b", True),
        ("self.indexOf('b') == 2", "a,b", True),
        ("quantity(self).isGreaterThan(quantity('1Gi'))", "1025Mi", True),
        ("quantity(self) == quantity('1000m')", "1", True),
        ("quantity(self).add(quantity('500m')).sub(1).compareTo(quantity('0.5')) == 0", "1", True),
        ("isQuantity(self) && quantity(self).isInteger() && quantity(self).asInteger() == 2", "2", True),
        ("isQuantity(self)", "2 G", False),
        ("quantity(self).sign() == -1", "-1", True),
        ("isIP(self) && ip(self).family() == 6 && ip(self).isLoopback()", "::1", True),
        ("ip.isCanonical(self)", "::0001", False),
        ("ip(self).isGlobalUnicast()", "8.8.8.8", True),
        ("ip(self).isLinkLocalUnicast() && !ip(self).isGlobalUnicast()", "169.254.1.1", True),
        ("cidr(self).containsIP('10.1.2.3') && cidr(self).prefixLength() == 8", "10.0.0.0/8", True),
        ("cidr('10.0.0.0/8').containsCIDR(cidr(self))", "10.1.0.0/16", True),
        ("cidr('10.0.0.0/8').containsCIDR(self)", "11.1.0.0/16", False),
        ("cidr(self).masked() == cidr('10.0.0.0/8') && string(cidr(self).ip()) == '10.1.0.0'", "10.1.0.0/8", True),
        ("isCIDR(self)", "10.0.0.0", False),
        ("isURL(self) && url(self).getHostname() == 'e.com' && url(self).getPort() == '80'", "http://e.com:80/a", True),
        ("url(self).getQuery()['b'] == ['c', 'd e'] && url(self).getEscapedPath() == '/a'", "https://e/a?b=c&b=d+e",
         True),
        ("url(self).getScheme() == '' && url(self).getHost() == ''", "/only/path", True),
        ("isURL(self)", "no url", False),
        ("isSemver(self) && semver(self).major() == 1 && semver(self).isLessThan(semver('1.2.0'))", "1.2.0-rc.1", True),
        ("semver(self, true).compareTo(semver('1.2.0')) == 0", "v1.2", True),
        ("isSemver(self)", "v1.2", False),
        ("sets.contains(['a', 'b'], [self]) && sets.intersects(['a'], [self])", "a", True),
        ("sets.equivalent(['a', 'a'], [self])", "a", True),
        ("math.greatest(size(self), 3) == 3 && cel.bind(x, self, x == 'a')", "a", True),
        ("base64.encode(bytes(self)) == 'YQ=='", "a", True),
        ("optional.of(self).orValue('') == 'a'", "a", True),
        ("'%s!'.format([self]) == 'a!'", "a", True),
    ],
)  # fmt: skip
def test_functions(rule: str, value: str, holds: bool) -> None:
    expected = [] if holds else [("spec", f'Invalid value: "{value}": failed rule: {rule}')]
    assert problems(with_rule(TEXT, rule), value) == expected


NUMBERS = {"type": "array", "items": WHOLE}


@pytest.mark.parametrize(
    ("rule", "value"),
    [("self.sum() == 6", [1, 2, 3]), ("self.min() == 1 && self.max() == 3", [3, 1, 2]), ("self.all(x, x > 0)", [])],
)
def test_lists(rule: str, value: list[int]) -> None:
    assert problems(with_rule(NUMBERS, rule), value) == []


def test_reasons_paths_and_messages() -> None:
    fields = {"a-b": TEXT, "namespace": TEXT, "labels": {"type": "object", "additionalProperties": TEXT}}
    spec = {
        "type": "object",
        "properties": fields,
        "x-kubernetes-validations": [
            {"rule": "self.a__dash__b == 'x'", "message": " not x ", "reason": "FieldValueForbidden",
             "fieldPath": "['a-b']"},
            {"rule": "self.__namespace__ == 'x'", "reason": "FieldValueRequired", "fieldPath": ".namespace"},
            {"rule": "'k' in self.labels", "messageExpression": "'labels: ' + string(size(self.labels))"},
            {"rule": "self.labels.k == 'x'", "message": "k is x", "fieldPath": ".labels.k"},
        ],
    }  # fmt: skip
    assert problems(spec, {"a-b": "y", "namespace": "y", "labels": {}}) == [
        ("spec.a-b", "Forbidden: not x"),
        ("spec.namespace", "Required value: failed rule: self.__namespace__ == 'x'"),
        ("spec", "Invalid value: labels: 0"),
        ("spec", "Invalid value: no such key: k evaluating rule: k is x"),
    ]


def test_map_values_and_list_items_have_their_own_paths() -> None:
    each = with_rule(TEXT, "self != 'bad'", message="bad")
    assert problems({"type": "object", "additionalProperties": each}, {"x/y": "bad"}) == [
        ("spec[x/y]", 'Invalid value: "bad": bad')
    ]
    assert problems({"type": "array", "items": each}, ["ok", "bad"]) == [("spec[1]", 'Invalid value: "bad": bad')]


def test_rules_about_a_change_need_an_older_value() -> None:
    spec = {"type": "object", "properties": {"fixed": with_rule(TEXT, "self == oldSelf", message="fixed")}}
    assert problems(spec, {"fixed": "a"}) == []
    assert problems(spec, {"fixed": "a"}, {}) == []
    assert problems(spec, {"fixed": "a"}, {"fixed": "b"}) == [("spec.fixed", 'Invalid value: "a": fixed')]


def test_items_with_keys_are_compared_with_their_older_selves_and_others_never() -> None:
    item = with_rule(
        {"type": "object", "properties": {"name": TEXT, "n": WHOLE}}, "self.n >= oldSelf.n", message="grows only"
    )
    keyed = {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    old = [{"name": "a", "n": 5}, {"name": "b", "n": 1}]
    new = [{"name": "b", "n": 2}, {"name": "a", "n": 4}, {"name": "c", "n": 0}]
    assert problems(keyed, new, old) == [("spec[1]", "Invalid value: grows only")]
    assert problems({"type": "array", "items": item}, new, old) == []


def test_what_did_not_change_is_not_judged_again() -> None:
    item = with_rule({"type": "object", "properties": {"n": WHOLE}}, "self.n < 3", message="small")
    spec = {"type": "object", "properties": {"items": {"type": "array", "items": item}, "other": TEXT}}
    bad = {"items": [{"n": 9}], "other": "a"}
    assert problems(spec, bad) == [("spec.items[0]", "Invalid value: small")]
    assert problems(spec, {**bad, "other": "b"}, bad) == []
    assert problems(spec, {**bad, "items": [{"n": 9}, {"n": 1}]}, bad) == [("spec.items[0]", "Invalid value: small")]


def test_an_optional_old_self_is_there_on_create_too() -> None:
    rule = "!oldSelf.hasValue() || oldSelf.value() == self"
    spec = with_rule(TEXT, rule, message="fixed", optionalOldSelf=True)
    assert problems(spec, "a") == []
    assert problems(spec, "a", "a") == []
    assert problems(spec, "b", "a") == [("spec", 'Invalid value: "b": fixed')]
    assert problems(with_rule(TEXT, "oldSelf.hasValue()", optionalOldSelf=True), "a") != []


def test_numbers_bytes_and_times_have_the_types_of_their_schema() -> None:
    assert problems(with_rule({"type": "number"}, "self > 1.5"), 2) == []
    assert problems(with_rule({"type": "string", "format": "byte"}, "size(self) == 1"), "YQ==") == []
    moment = {"type": "string", "format": "date-time"}
    assert problems(with_rule(moment, "self > timestamp('2020-01-01T00:00:00Z')"), "2021-01-01T00:00:00Z") == []
    assert problems(with_rule({"type": "string", "format": "duration"}, "self < duration('2h')"), "1h30m") == []
    inside = {"type": "object", "properties": {"at": moment}}
    assert (
        problems(with_rule(inside, "self.at > timestamp('2020-01-01T00:00:00Z')"), {"at": "2021-01-01T00:00:00Z"}) == []
    )


def test_rules_in_all_of_count() -> None:
    spec = {
        "type": "object",
        "properties": {"n": WHOLE},
        "allOf": [{"x-kubernetes-validations": [{"rule": "self.n > 1"}]}],
    }
    assert problems(spec, {"n": 1}) == [("spec", "Invalid value: failed rule: self.n > 1")]


def test_the_whole_object_shows_its_name() -> None:
    rules = Rules({"type": "object", "x-kubernetes-validations": [{"rule": "self.metadata.name.startsWith('x')"}]})
    assert rules.problems({"kind": "K", "metadata": {"name": "xa"}}, None) == []
    assert [cause.field for cause in rules.problems({"kind": "K", "metadata": {"name": "a"}}, None)] == [""]


def test_loops_in_loops_over_much_are_refused() -> None:
    rule = "self.all(a, self.all(b, self.all(c, a + b + c > 0)))"
    found = problems(with_rule(NUMBERS, rule), list(range(1, 1000)))
    assert found == [("spec", f"Invalid value: call cost exceeds limit evaluating rule: {rule}")]
