"""Objects as a Table: what kubectl prints, computed here so that every client shows the same. Pure.

Built-in kinds have columns of their own (columns.py, pod_column.py); custom resources those of their definition.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Literal, TypeAlias, get_args

from jobset.api.errors import BadRequest
from jobset.api.meta import Object
from jobset.cluster.apiserver.http.columns import PRINTERS, Heading, Printer, Row
from jobset.cluster.apiserver.http.durations import age
from jobset.cluster.apiserver.http.jsonpath import find_first
from jobset.cluster.model.kinds.kind import Column, Kind

IncludeObject: TypeAlias = Literal["", "Metadata", "Object", "None"]

_NAME = Heading("Name", format="name")
_AGE = Heading("Age", "date")


def checked_include(value: str) -> IncludeObject:
    """What rows are to hold of their objects; empty means metadata. BadRequest."""
    for known in get_args(IncludeObject):
        if value == known:
            return known  # type: ignore[no-any-return]
    raise BadRequest(
        f'Unable to convert to Table as requested: includeObject: Invalid value: "{value}": '
        "must be 'Metadata', 'Object', 'None', or empty"
    )


def partial_metadata(obj: Object, api_version: str) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": obj["metadata"]}


def table(
    kind: Kind,
    items: Iterable[Object],
    metadata: Object,
    api_version: str,
    include: IncludeObject,
    now: datetime,
    *,
    headings: bool = True,
) -> Object:
    """`headings` are left out of all but the first table of a watch."""
    printer = printer_of(kind)
    return {
        "kind": "Table",
        "apiVersion": api_version,
        "metadata": metadata,
        "columnDefinitions": [heading.to_dict() for heading in printer.headings] if headings else None,
        "rows": [_row(printer, item, api_version, include, now) for item in items],
    }


def _row(printer: Printer, obj: Object, api_version: str, include: IncludeObject, now: datetime) -> Object:
    row = printer.row(obj, now)
    shown: Object = {"cells": row.cells}
    if row.conditions:
        shown["conditions"] = list(row.conditions)
    if include == "None":
        shown["object"] = None
    else:
        shown["object"] = obj if include == "Object" else partial_metadata(obj, api_version)
    return shown


def printer_of(kind: Kind) -> Printer:
    found = PRINTERS.get(kind.resource)
    return found if found is not None else _custom_printer(kind.columns)


def _custom_printer(columns: tuple[Column, ...]) -> Printer:
    if not columns:
        return Printer((_NAME, _AGE), lambda obj, now: Row([_name(obj), age(_created(obj), now)]))
    headings = [
        Heading(
            column.name,
            column.type,
            column.priority,
            column.format,
            column.description or f"Custom resource definition column (in JSONPath format): {column.json_path}",
        )
        for column in columns
    ]

    def row(obj: Object, now: datetime) -> Row:
        return Row([_name(obj), *(_cell(column.type, find_first(obj, column.json_path), now) for column in columns)])

    return Printer((_NAME, *headings), row)


def _name(obj: Object) -> str:
    return str(obj["metadata"].get("name", ""))


def _created(obj: Object) -> str:
    return str(obj["metadata"].get("creationTimestamp") or "")


def _cell(type_: str, value: Any, now: datetime) -> Any:
    """A value as a cell of its column's type; None when it is not of that type."""
    if value is None:
        return None
    convert = _CELLS.get(type_)
    return None if convert is None else convert(value, now)


def _text(value: Any, _: datetime) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":")) if isinstance(value, dict | list) else str(value).lower()


def _number(value: Any, _: datetime) -> int | float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _integer(value: Any, now: datetime) -> int | None:
    number = _number(value, now)
    return None if number is None else int(number)


_CELLS: dict[str, Callable[[Any, datetime], Any]] = {
    "string": _text,
    "integer": _integer,
    "number": _number,
    "boolean": lambda value, _: value if isinstance(value, bool) else None,
    "date": lambda value, now: age(value, now) if isinstance(value, str) else None,
}
