"""Checks of single fields that several kinds share, each giving its problems one after the other. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from jobset.api.errors import Cause
from jobset.api.field_errors import forbidden, invalid, not_supported, required
from jobset.api.meta import Object
from jobset.api.name_rules import label_value_problems, qualified_name_problems

_NEEDS_VALUES = "must be specified when `operator` is 'In' or 'NotIn'"
_NO_VALUES = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"


def invalid_each(path: str, value: Any, details: Iterable[str]) -> Iterator[Cause]:
    """One problem for each thing wrong with the same value."""
    for detail in details:
        yield invalid(path, value, detail)


def one_of(path: str, value: str | None, supported: Sequence[str]) -> Iterator[Cause]:
    """A choice that must be made: required when empty."""
    if not value:
        yield required(path)
    elif value not in supported:
        yield not_supported(path, value, supported)


def optional_one_of(path: str, value: str | None, supported: Sequence[str]) -> Iterator[Cause]:
    if value is not None and value not in supported:
        yield not_supported(path, value, supported)


def not_negative(path: str, value: int | None) -> Iterator[Cause]:
    if value is not None and value < 0:
        yield invalid(path, value, "must be greater than or equal to 0")


def immutable(path: str, new: Any, old: Any) -> Iterator[Cause]:
    if new != old:
        yield invalid(path, new, "field is immutable")


def labels(path: str, values: Mapping[str, str] | None) -> Iterator[Cause]:
    """Label keys and values; problems of either stand at the whole map."""
    for key, value in (values or {}).items():
        yield from invalid_each(path, key, qualified_name_problems(key))
        yield from invalid_each(path, value, label_value_problems(value or ""))


def label_selector(path: str, selector: Object | None) -> Iterator[Cause]:
    """A metav1.LabelSelector."""
    if selector is None:
        return
    yield from labels(f"{path}.matchLabels", selector.get("matchLabels"))
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        yield from _label_requirement(f"{path}.matchExpressions[{index}]", expression)


def _label_requirement(path: str, requirement: Object) -> Iterator[Cause]:
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            yield required(f"{path}.values", _NEEDS_VALUES)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield forbidden(f"{path}.values", _NO_VALUES)
    else:
        yield invalid(f"{path}.operator", operator, "not a valid selector operator")
    yield from invalid_each(
        f"{path}.key", requirement.get("key", ""), qualified_name_problems(requirement.get("key", ""))
    )
    for index, value in enumerate(values):
        yield from invalid_each(f"{path}.values[{index}]", value, label_value_problems(value))
