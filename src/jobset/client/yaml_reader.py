"""YAML and JSON text into plain values, with the line of every field, reading scalars as Kubernetes does.

Kubernetes reads YAML 1.1 the way Go's yaml library does: `yes`, `on` and `y` are booleans, `0644` is octal, dates and
`12:30` stay text, `2.0` is the whole number 2. Beyond that, what hides mistakes or exhausts memory is refused: a key
that stands twice, more than `MAX_VALUES` values (after unfolding aliases), nesting deeper than `MAX_DEPTH`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NoReturn

import yaml
from msgspec import Struct, field

MAX_DEPTH = 100
MAX_VALUES = 300_000
"""Of a whole text, and of one document with its aliases unfolded."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_TRUE = frozenset({"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})
_FALSE = frozenset({"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_INTEGER = re.compile(r"([-+]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_HALF_PAIR = "text with half of a surrogate pair is not Unicode"
_SURROGATE = re.compile("[\ud800-\udfff]")


class NotReadable(ValueError):
    """The text is no YAML or JSON that can be used; `line` and `column` count from 1, 0 when not known."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column


class Parsed(Struct, frozen=True):
    """One document: its value, and for each field path the line it stands on."""

    value: Any
    line: int
    lines: dict[str, int]


class _Open(Struct):
    """A mapping or list being read."""

    value: Any
    path: str
    line: int
    anchor: str
    size: int = 0
    """How many scalars and empty collections it holds, aliases unfolded."""
    key: str | None = None
    """Of a mapping: the key whose value comes next."""
    merged: list[dict[str, Any]] = field(default_factory=list)
    """Of a mapping: what `<<` brought."""
    is_merge: bool = False


def read_documents(text: str) -> list[Parsed]:
    """All documents of a text that hold something. Raises NotReadable."""
    try:
        return [document for document in _Reader(text).documents() if document.value is not None]
    except NotReadable as problem:
        if text.lstrip()[:1] not in ("{", "["):
            raise
        return [_read_json(text, problem)]


def read_value(text: str) -> Any:
    """One value, such as the right-hand side of --set. Raises NotReadable."""
    documents = read_documents(text)
    return documents[0].value if documents else None


def _read_json(text: str, otherwise: NotReadable) -> Parsed:
    """For JSON that is no YAML (tabs between tokens). Raises `otherwise` when it is not JSON either."""
    try:
        value = json.loads(text, object_pairs_hook=_pairs, parse_constant=_refuse_constant)
    except (json.JSONDecodeError, RecursionError):
        raise otherwise from None
    if _depth(value) > MAX_DEPTH:
        raise NotReadable(f"nested deeper than {MAX_DEPTH} levels")
    if _SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        raise NotReadable(_HALF_PAIR)
    return Parsed(value, 1, {})


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for key, item in pairs:
        if key in value:
            raise NotReadable(f"the key {key!r} stands twice in one mapping")
        value[key] = item
    return value


def _refuse_constant(text: str) -> NoReturn:
    raise NotReadable(f"{text} is not a number that JSON knows")


def _depth(value: Any) -> int:
    deepest, stack = 0, [(value, 1)]
    while stack:
        item, depth = stack.pop()
        deepest = max(deepest, depth)
        children = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        stack.extend((child, depth + 1) for child in children)
    return deepest


class _Reader:
    """Builds values from YAML events, without recursion, so that no input can exhaust the stack."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._lines: dict[str, int] = {}
        self._values = 0
        self._result: Any = None

    def documents(self) -> Iterator[Parsed]:
        line = 1
        try:
            events: Iterator[Any] = yaml.parse(self._text, Loader=_LOADER)
            for event in events:
                if isinstance(event, yaml.DocumentStartEvent):
                    self._anchors, self._lines, self._result = {}, {}, None
                    line = 0
                elif isinstance(event, yaml.DocumentEndEvent):
                    yield Parsed(self._result, line or 1, self._lines)
                elif isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
                    mark: Any = event.start_mark
                    line = line or mark.line + 1
                    self._take(event)
        except yaml.MarkedYAMLError as error:
            raise _syntax_problem(error, self._text) from None
        except yaml.YAMLError as error:
            raise NotReadable(f"is not YAML: {error}".splitlines()[0]) from None

    def _take(self, event: Any) -> None:
        mark = event.start_mark
        if isinstance(event, yaml.ScalarEvent):
            top = self._stack[-1] if self._stack else None
            if top is not None and isinstance(top.value, dict) and top.key is None and not top.is_merge:
                self._take_key(top, event)
            else:
                self._finish(_scalar(event), 1, event.anchor or "", mark, mark.line + 1)
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                self._fail(f"alias *{event.anchor} names no anchor that was completed before it", mark)
            self._require_key(mark)
            self._finish(*self._anchors[event.anchor], "", mark, mark.line + 1)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._require_key(mark)
            if len(self._stack) >= MAX_DEPTH:
                self._fail(f"nested deeper than {MAX_DEPTH} levels", mark)
            _refuse_tag(event.tag, ("map", "seq"), mark)
            value: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
            path = self._path()
            self._stack.append(_Open(value, path, mark.line + 1, event.anchor or ""))
        else:
            done = self._stack.pop()
            for merged in done.merged:
                for key, item in merged.items():
                    done.value.setdefault(key, item)
            self._finish(done.value, max(done.size, 1), done.anchor, mark, done.line)

    def _require_key(self, mark: Any) -> None:
        top = self._stack[-1] if self._stack else None
        if top is not None and isinstance(top.value, dict) and top.key is None and not top.is_merge:
            self._fail("a key must be plain text; is a quote or brace missing?", mark)

    def _take_key(self, top: _Open, event: Any) -> None:
        mark = event.start_mark
        if event.value == "<<" and not event.style:
            top.is_merge = True
            return
        key = _scalar(event)
        if key is None:
            self._fail("a key must not be empty", mark)
        if not isinstance(key, str):
            key = str(key).lower() if isinstance(key, bool) else str(key)
        path = f"{top.path}.{key}" if top.path else key
        if key in top.value:
            self._fail(f"the key {key!r} stands twice in one mapping, first on line {self._lines.get(path, '?')}", mark)
        top.key = key
        self._lines[path] = mark.line + 1

    def _path(self) -> str:
        if not self._stack:
            return ""
        top = self._stack[-1]
        if isinstance(top.value, list):
            return f"{top.path}[{len(top.value)}]"
        return f"{top.path}.{top.key}" if top.path else top.key or ""

    def _finish(self, value: Any, size: int, anchor: str, mark: Any, line: int) -> None:
        """A value is complete: remember it under its anchor and put it where it belongs."""
        self._values += 1
        if self._values > MAX_VALUES:
            self._fail(f"holds more than {MAX_VALUES} values, too many for a manifest", mark)
        if anchor:
            self._anchors[anchor] = (value, size)
        if not self._stack:
            self._result = value
            return
        top = self._stack[-1]
        top.size += size
        if top.size > MAX_VALUES:
            self._fail(f"unfolds to more than {MAX_VALUES} values; are aliases nested?", mark)
        if isinstance(top.value, list):
            self._lines[self._path()] = line
            top.value.append(value)
        elif top.is_merge:
            top.is_merge = False
            sources = value if isinstance(value, list) else [value]
            if not all(isinstance(source, dict) for source in sources):
                self._fail("<< takes a mapping or a list of mappings", mark)
            top.merged.extend(sources)
        else:
            top.value[top.key] = value
            top.key = None

    def _fail(self, message: str, mark: Any) -> NoReturn:
        raise NotReadable(message, mark.line + 1, mark.column + 1)


def _syntax_problem(error: yaml.MarkedYAMLError, text: str) -> NotReadable:
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return NotReadable(f"is not YAML: {error.problem}")
    problem = " ".join(part for part in (error.problem, error.context) if part)
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    if "\t" in line[: mark.column + 1]:
        problem = "a tab stands where only spaces may: YAML is indented with spaces"
    return NotReadable(f"is not YAML: {problem}", mark.line + 1, mark.column + 1)


def _refuse_tag(tag: str | None, allowed: tuple[str, ...], mark: Any) -> None:
    if tag is not None and tag != "!" and tag.removeprefix(_TAG) not in allowed:
        raise NotReadable(f"the tag {tag.replace(_TAG, '!!')} is not supported here", mark.line + 1, mark.column + 1)


def _scalar(event: Any) -> Any:
    text, tag, mark = event.value, event.tag, event.start_mark
    _refuse_tag(tag, ("str", "int", "float", "bool", "null"), mark)
    if _SURROGATE.search(text):
        raise NotReadable(_HALF_PAIR, mark.line + 1, mark.column + 1)
    if tag in ("!", f"{_TAG}str") or (tag is None and not event.implicit[0]):
        return text
    try:
        value = plain_scalar(text)
    except ValueError as error:
        raise NotReadable(str(error), mark.line + 1, mark.column + 1) from None
    return value


def plain_scalar(text: str) -> Any:
    """What text without quotes stands for. Raises ValueError for a number that JSON cannot carry."""
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if text[0] not in "+-.0123456789":
        return text
    if _NOT_FINITE.fullmatch(text):
        raise ValueError(f"{text} is not a number that JSON knows")
    number = text.replace("_", "")
    if match := _INTEGER.fullmatch(number):
        return _integer(*match.groups())
    if not _FLOAT.fullmatch(number):
        return text
    value = float(number)
    if math.isinf(value):
        raise ValueError(f"{text} is too large for a number")
    return int(value) if value.is_integer() and abs(value) < 2**63 else value


def _integer(sign: str, digits: str) -> int | float:
    if len(digits) > 64:
        raise ValueError(f"the number has {len(digits)} digits, which is too many")
    prefix = digits[:2].lower()
    base = {"0x": 16, "0b": 2, "0o": 8}.get(prefix, 8 if digits.startswith("0") else 10)
    value = int(digits[2:] if prefix in ("0x", "0b", "0o") else digits, base)
    return -value if sign == "-" else value
