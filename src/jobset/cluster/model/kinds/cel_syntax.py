"""The syntax tree of a compiled CEL expression, read from the bytes that the interpreter serializes it to. Pure.

The interpreter offers no other look inside. The bytes are a cel.expr.CheckedExpr in protocol buffers' encoding; what is
read of it are the expression and where its parts stand in the text. Macros are expanded: `all` is a comprehension,
`has` a select that only tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from msgspec import Struct


class Constant(Struct, frozen=True):
    id: int
    type: str
    text: str = ""
    """Of a string."""


class Name(Struct, frozen=True):
    id: int
    name: str


class Select(Struct, frozen=True):
    id: int
    operand: Node
    field: str
    tests: bool
    """Whether it only asks if the field is there."""


class Call(Struct, frozen=True):
    """A function or operator such as _+_; the target of a method is its first argument."""

    id: int
    function: str
    arguments: tuple[Node, ...]


class Comprehension(Struct, frozen=True):
    id: int
    variable: str
    range: Node
    accumulator: str
    start: Node
    parts: tuple[Node, ...]
    """Condition, step and result: what is evaluated with the variables."""

    @property
    def binds(self) -> bool:
        """Whether it is `cel.bind`, which goes through nothing."""
        return self.variable.startswith("#")


class Collection(Struct, frozen=True):
    """A list or a map."""

    id: int
    type: str
    parts: tuple[Node, ...]


Node: TypeAlias = Constant | Name | Select | Call | Comprehension | Collection


class Syntax(Struct, frozen=True):
    root: Node
    offsets: dict[int, int]
    """Where a node stands in the text, by its id."""


_CONSTANT_TYPES = {1: "null", 2: "bool", 3: "int", 4: "uint", 5: "double", 6: "string", 7: "bytes"}
_LENGTHS = {1: 8, 5: 4}


def syntax_of(serialized: bytes) -> Syntax:
    checked = _message(dict(_fields(serialized))[2])
    offsets: dict[int, int] = {}
    for entry in _message(checked[5][0]).get(4, ()) if 5 in checked else ():
        pair = dict(_fields(entry))
        offsets[pair.get(1, 0)] = pair.get(2, 0)
    return Syntax(_node(checked[4][0]), offsets)


def nodes_of(node: Node) -> Iterator[Node]:
    """The node and all below it."""
    yield node
    for child in _children(node):
        yield from nodes_of(child)


def loops(node: Node) -> int:
    """How deeply comprehensions are nested in each other."""
    deepest = max((loops(child) for child in _children(node)), default=0)
    return deepest + 1 if isinstance(node, Comprehension) and not node.binds else deepest


def _children(node: Node) -> tuple[Node, ...]:
    match node:
        case Select():
            return (node.operand,)
        case Call():
            return node.arguments
        case Comprehension():
            return (node.range, node.start, *node.parts)
        case Collection():
            return node.parts
    return ()


def _node(data: bytes) -> Node:
    message = _message(data)
    id_ = message.get(2, [0])[0]
    for number, read in ((3, _constant), (4, _name), (5, _select), (6, _call), (7, _list), (8, _map), (9, _loop)):
        if number in message:
            return read(id_, message[number][0])
    return Constant(id_, "null")


def _constant(id_: int, data: bytes) -> Node:
    for number, value in _fields(data):
        type_ = _CONSTANT_TYPES.get(number, "")
        return Constant(id_, type_, value.decode() if type_ == "string" else "")
    return Constant(id_, "null")


def _name(id_: int, data: bytes) -> Node:
    return Name(id_, _text(_message(data), 1))


def _select(id_: int, data: bytes) -> Node:
    message = _message(data)
    return Select(id_, _node(message[1][0]), _text(message, 2), bool(message.get(3, [0])[0]))


def _call(id_: int, data: bytes) -> Node:
    message = _message(data)
    arguments = [*message.get(1, ()), *message.get(3, ())]
    return Call(id_, _text(message, 2), tuple(_node(one) for one in arguments))


def _list(id_: int, data: bytes) -> Node:
    return Collection(id_, "list", tuple(_node(one) for one in _message(data).get(1, ())))


def _map(id_: int, data: bytes) -> Node:
    entries = [_message(entry) for entry in _message(data).get(2, ())]
    return Collection(id_, "map", tuple(_node(entry[key][0]) for entry in entries for key in (3, 4) if key in entry))


def _loop(id_: int, data: bytes) -> Node:
    message = _message(data)
    range_, start = _node(message[2][0]), _node(message[4][0])
    parts = tuple(_node(message[key][0]) for key in (5, 6, 7) if key in message)
    return Comprehension(id_, _text(message, 1), range_, _text(message, 3), start, parts)


def _text(message: dict[int, list[Any]], number: int) -> str:
    data: bytes = message.get(number, [b""])[0]
    return data.decode()


def _message(data: bytes) -> dict[int, list[Any]]:
    message: dict[int, list[Any]] = {}
    for number, value in _fields(data):
        message.setdefault(number, []).append(value)
    return message


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message in their order: numbers as int, texts and messages as bytes."""
    position = 0
    while position < len(data):
        tag, position = _number(data, position)
        kind = tag & 7
        if kind == 0:
            value, position = _number(data, position)
            yield tag >> 3, value
            continue
        length = _LENGTHS.get(kind, 0)
        if kind == 2:
            length, position = _number(data, position)
        yield tag >> 3, data[position : position + length]
        position += length


def _number(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position += 1
        shift += 7
        if byte < 0x80:
            return value, position
