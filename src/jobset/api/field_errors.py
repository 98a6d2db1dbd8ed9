"""Problems of single fields, worded as Kubernetes words them: one constructor for each reason. Pure.

Used by every check in this program, so that a user meets one style: what was given, then what to write instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from jobset.api.errors import Cause

TYPE_INVALID = "FieldValueTypeInvalid"
_SHOWN_LENGTH = 200


def shown(value: Any) -> str:
    """A value as compact JSON, cut to a readable length."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN_LENGTH else f"{text[:_SHOWN_LENGTH]}... ({len(text)} characters)"


def suggestion(word: str, known: Iterable[str]) -> str:
    """` (did you mean "x"?)` when a known word is close, else nothing."""
    by_lower = {name.lower(): name for name in known}
    close = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.75)
    return f' (did you mean "{by_lower[close[0]]}"?)' if close else ""


def invalid(field: str, value: Any, detail: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {shown(value)}: {detail}", field)


def wrong_type(field: str, value: Any, detail: str) -> Cause:
    """The value cannot even be decoded: an API server answers 400, not 422."""
    return Cause(TYPE_INVALID, f"Invalid value: {shown(value)}: {detail}", field)


def required(field: str, detail: str = "") -> Cause:
    return Cause("FieldValueRequired", f"Required value: {detail}" if detail else "Required value", field)


def not_supported(field: str, value: Any, supported: Sequence[str]) -> Cause:
    values = ", ".join(f'"{choice}"' for choice in supported)
    close = suggestion(value, supported) if isinstance(value, str) else ""
    return Cause(
        "FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {values}{close}", field
    )


def forbidden(field: str, detail: str) -> Cause:
    return Cause("FieldValueForbidden", f"Forbidden: {detail}", field)


def duplicate(field: str, value: Any) -> Cause:
    return Cause("FieldValueDuplicate", f"Duplicate value: {shown(value)}", field)


def not_found(field: str, value: Any, detail: str = "") -> Cause:
    return Cause("FieldValueNotFound", f"Not found: {shown(value)}" + (f": {detail}" if detail else ""), field)


def too_long(field: str, limit: int) -> Cause:
    return Cause("FieldValueTooLong", f"Too long: may not be more than {limit} bytes", field)


def too_many(field: str, count: int, limit: int) -> Cause:
    items = "item" if limit == 1 else "items"
    return Cause("FieldValueTooMany", f"Too many: {count}: must have at most {limit} {items}", field)


def unknown_field(field: str, known: Iterable[str]) -> Cause:
    """A field that the schema does not have. `field` is its whole path, `known` its would-be siblings."""
    name = field.rsplit(".", 1)[-1]
    return Cause("FieldValueForbidden", f'unknown field "{name}"{suggestion(name, known)}', field)
