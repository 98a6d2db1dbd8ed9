"""Label and field selectors: from their text, from LabelSelector objects, and whether they match. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct

from jobset.api.meta import Object

Operator: TypeAlias = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", re.ASCII)
_PREFIX = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*", re.ASCII)
_SET = re.compile(r"(?P<key>[^\s!=(),]+)\s+(?P<op>in|notin)\s*\(\s*(?P<values>[^()]*)\)")
_EQUAL = re.compile(r"(?P<key>[^\s!=(),<>]+)\s*(?P<op>==|=|!=|>|<)\s*(?P<value>[^\s!=(),<>]*)")


def is_label_key(text: str) -> bool:
    """[prefix/]name as Kubernetes allows it for labels, annotations and resources."""
    prefix, slash, name = text.rpartition("/")
    prefix_ok = not slash or (len(prefix) <= 253 and _PREFIX.fullmatch(prefix) is not None)
    return prefix_ok and _NAME.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    return text == "" or _NAME.fullmatch(text) is not None


class Requirement(Struct, frozen=True):
    """One term of a selector. `values` is empty for Exists and DoesNotExist, one whole number for Gt and Lt."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        try:
            found, limit = int(value or ""), int(next(iter(self.values)))
        except ValueError:
            return False
        return found > limit if self.operator == "Gt" else found < limit


class LabelSelector(Struct, frozen=True):
    """All requirements must hold. Without any, everything matches."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        return all(requirement.matches(labels or {}) for requirement in self.requirements)


EVERYTHING = LabelSelector()


@lru_cache(maxsize=1024)
def parse_label_selector(text: str) -> LabelSelector:
    """`a=b,c!=d,e in (f,g),h,!i`. Raises ValueError with a message for the user."""
    requirements = []
    for term in _split(text):
        requirement = _parse_term(term)
        if not is_label_key(requirement.key):
            raise ValueError(f"label selector {text!r}: {requirement.key!r} is not a label key")
        for value in requirement.values:
            if requirement.operator in ("In", "NotIn") and not is_label_value(value):
                raise ValueError(f"label selector {text!r}: {value!r} is not a label value")
        requirements.append(requirement)
    return LabelSelector(tuple(requirements))


def _split(text: str) -> list[str]:
    terms, depth, start = [], 0, 0
    for position, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            terms.append(text[start:position])
            start = position + 1
    terms.append(text[start:])
    return [term.strip() for term in terms] if text.strip() else []


def _parse_term(term: str) -> Requirement:
    if match := _SET.fullmatch(term):
        values = frozenset(value.strip() for value in match["values"].split(","))
        return Requirement(match["key"], "In" if match["op"] == "in" else "NotIn", values)
    if match := _EQUAL.fullmatch(term):
        operators: dict[str, Operator] = {"=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt"}
        return Requirement(match["key"], operators[match["op"]], frozenset((match["value"],)))
    if term.startswith("!"):
        return Requirement(term[1:].strip(), "DoesNotExist")
    if not term or any(char in term for char in " ()=!<>"):
        raise ValueError(
            f"label selector: cannot read {term!r}; write key=value, key!=value, key in (a,b), key or !key"
        )
    return Requirement(term, "Exists")


def label_selector_of(selector: Object | None) -> LabelSelector | None:
    """A metav1.LabelSelector object: None selects nothing (None), an empty one everything. Raises ValueError."""
    if selector is None:
        return None
    requirements = [
        Requirement(key, "In", frozenset((value,))) for key, value in (selector.get("matchLabels") or {}).items()
    ]
    for expression in selector.get("matchExpressions") or ():
        operator = expression.get("operator")
        if operator not in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"):
            raise ValueError(f"{operator!r} is not a label selector operator")
        requirements.append(Requirement(expression.get("key", ""), operator, frozenset(expression.get("values") or ())))
    return LabelSelector(tuple(requirements))


class FieldSelector(Struct, frozen=True):
    """(path, value, wanted equal?) for each term; values are compared as text, absent as empty."""

    terms: tuple[tuple[str, str, bool], ...] = ()

    def matches(self, obj: Object) -> bool:
        return all((field_text(obj, path) == value) is equal for path, value, equal in self.terms)


@lru_cache(maxsize=1024)
def parse_field_selector(text: str) -> FieldSelector:
    """`metadata.name=a,status.phase!=Running`. Which paths a kind supports is the server's to check. ValueError."""
    terms = []
    for term in _split(text):
        match = re.fullmatch(r"([^=!\s]+)\s*(==|=|!=)\s*(.*)", term)
        if match is None:
            raise ValueError(f"invalid selector: {text!r}; can't understand {term!r}")
        terms.append((match[1], match[3].strip(), match[2] != "!="))
    return FieldSelector(tuple(terms))


def field_text(obj: Object, path: str) -> str:
    """The scalar at a dotted path of a raw object as text; empty when absent."""
    value: object = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
