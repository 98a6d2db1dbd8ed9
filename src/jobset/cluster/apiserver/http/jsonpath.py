"""The JSONPath of printer columns: fields, indexes, all elements, and filters on one field. Pure.

`.status.conditions[?(@.type=="Ready")].status`, `.spec.tags[*]`, `.spec.ports[0]`, `.metadata.labels.a\\.b` or
`['a.b']`. A path that is none of these finds nothing, as definitions may hold any text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

_STEP = re.compile(
    r"""\.?\[\?\(@\.(?P<field>[\w./-]+)\s*(?P<op>==|!=)\s*(?P<quote>["']?)(?P<value>[^"'\]]*)(?P=quote)\)\]
    |\[(?P<index>-?\d+)\]
    |(?P<all>\[\*\]|\.\*)
    |\[(?P<mark>["'])(?P<key>[^"']+)(?P=mark)\]
    |\.(?P<name>(?:[^.\[\]\\]|\\.)+)""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class _Step:
    kind: Literal["key", "index", "all", "filter"]
    key: str = ""
    """Of a filter: the field to look at."""
    index: int = 0
    value: str = ""
    equal: bool = True


def find_first(obj: Any, path: str) -> Any:
    """The first value at the path; None when there is none."""
    return next(_walk(obj, _parsed(path), 0), None)


@lru_cache(maxsize=1024)
def _parsed(path: str) -> tuple[_Step, ...]:
    path = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    if not path.startswith((".", "[")):
        path = f".{path}"
    steps, position = [], 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            return (_Step("key", "\0"),)  # no object has such a field
        steps.append(_step(match))
        position = match.end()
    return tuple(steps)


def _step(match: re.Match[str]) -> _Step:
    if match["field"] is not None:
        return _Step("filter", match["field"], value=match["value"], equal=match["op"] == "==")
    if match["index"] is not None:
        return _Step("index", index=int(match["index"]))
    if match["all"] is not None:
        return _Step("all")
    return _Step("key", match["key"] if match["key"] is not None else re.sub(r"\\(.)", r"\1", match["name"]))


def _walk(value: Any, steps: tuple[_Step, ...], position: int) -> Iterator[Any]:
    if position == len(steps):
        if value is not None:
            yield value
        return
    for child in _children(value, steps[position]):
        yield from _walk(child, steps, position + 1)


def _children(value: Any, step: _Step) -> Iterator[Any]:
    if isinstance(value, dict):
        if step.kind == "key" and step.key in value:
            yield value[step.key]
        elif step.kind == "all":
            yield from value.values()
    elif isinstance(value, list):
        if step.kind == "index" and -len(value) <= step.index < len(value):
            yield value[step.index]
        elif step.kind == "all":
            yield from value
        elif step.kind == "filter":
            yield from (item for item in value if _fits(item, step))


def _fits(item: Any, step: _Step) -> bool:
    found: Any = item
    for key in step.key.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    text = str(found).lower() if isinstance(found, bool) else "" if found is None else str(found)
    return (text == step.value) is step.equal
