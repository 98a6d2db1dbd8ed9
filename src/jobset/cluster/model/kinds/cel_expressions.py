"""Expressions in CEL, compiled and evaluated by the optional package cel-expr-python. Pure.

The package is imported with the first rule, not before: it is large, and most clusters have no rules but JobSet's own,
which are plain code (core/admission). Nobody may compile unless it is `available`.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from typing import Any

from jobset.api.schema import Schema
from jobset.cluster.model.kinds.cel_syntax import Comprehension, Name, loops, nodes_of, syntax_of
from jobset.cluster.model.kinds.cel_types import TypeCheck
from jobset.cluster.model.kinds.cel_values import time_type

STEPS_LIMIT = 10_000_000
"""Of one evaluation: items of the value, to the power of how deeply the expression's loops are nested."""

_TWO_VARIABLES = re.compile(
    r"\.(all|exists|existsOne|exists_one|transformList|transformMap|transformMapEntry)\(\s*\w+\s*,\s*\w+\s*,"
)
_BOUND_OLD_SELF = "cel.bind(oldSelf, previous[?0],\n{})"


@cache
def available() -> bool:
    """Whether the package is installed."""
    return find_spec("cel_expr_python") is not None


class NotCompiled(ValueError):
    """What is wrong with the text of an expression."""


class NotSupported(NotCompiled):
    """Valid, but beyond what the package can do."""


class NotEvaluated(ValueError):
    """Why an expression has no value for this object."""


class Expression:
    """One compiled expression about values of a schema. NotCompiled.

    With `optional_old_self`, `oldSelf` is an optional that is empty when there is no older value.
    """

    def __init__(self, text: str, schema: Schema, *, optional_old_self: bool = False) -> None:
        if _TWO_VARIABLES.search(text):
            raise NotSupported("macros with two variables are not supported")
        self._optional = optional_old_self
        source = _BOUND_OLD_SELF.format(text) if optional_old_self else text
        environment = _environment(time_type(schema) or "dyn")
        try:
            self._compiled = environment.compile(source)
        except RuntimeError as error:
            raise NotCompiled(_bare(str(error))) from None
        syntax = syntax_of(self._compiled.serialize())
        root = syntax.root
        body = root.parts[-1] if optional_old_self and isinstance(root, Comprehension) else root
        names = {node.name for node in nodes_of(body) if isinstance(node, Name)}
        self.uses_old_self = "oldSelf" in names
        self._loops = loops(root)
        check = TypeCheck(syntax, {"self": schema} if optional_old_self else {"self": schema, "oldSelf": schema})
        if check.problems:
            shift = _BOUND_OLD_SELF.index("{") if optional_old_self else 0
            raise NotCompiled("\n".join(_at(text, offset - shift, problem) for offset, problem in check.problems))
        self.result = check.result or self._compiled.return_type().name().lower()
        """The type of its value: bool, string, ..., or dyn."""

    def value(self, self_: Any, old: Any, *, has_old: bool, size: int) -> Any:
        """`size` counts the items in `self_`. NotEvaluated."""
        if self._loops > 1 and size**self._loops > STEPS_LIMIT:
            raise NotEvaluated("call cost exceeds limit")
        data = {"self": self_}
        if self._optional:
            data["previous"] = [old] if has_old else []
        elif has_old:
            data["oldSelf"] = old
        value = self._compiled.eval(data=data)
        if value.type() == _error_type():
            raise NotEvaluated(_runtime_text(str(value.value())))
        return value.plain_value()


def _at(text: str, offset: int, problem: str) -> str:
    """A problem as CEL shows it: line and column, the line itself, and a mark under the place."""
    before = text[: max(offset, 0)].split("\n")
    line, column = len(before), len(before[-1])
    return f"ERROR: <input>:{line}:{column + 1}: {problem}\n | {text.splitlines()[line - 1]}\n | {'.' * column}^"


def _bare(text: str) -> str:
    return text.removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")


_KEY_NOT_FOUND = re.compile(r"Key not found in map : \"?(.*?)\"?$")


def _runtime_text(text: str) -> str:
    """An error of the interpreter in the words of Kubernetes'."""
    _, _, detail = text.partition(": ")
    if found := _KEY_NOT_FOUND.search(detail):
        return f"no such key: {found.group(1)}"
    if "No matching overloads" in detail:
        return f"no such overload: {detail}"
    return detail or text


@cache
def _error_type() -> Any:
    from cel_expr_python import cel

    return cel.Type.ERROR


@cache
def _environment(self_type: str) -> Any:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_bindings, ext_encoders, ext_math, ext_optional, ext_strings

    from jobset.cluster.model.kinds.cel_functions import FUNCTIONS

    types = {
        "bool": cel.Type.BOOL, "int": cel.Type.INT, "double": cel.Type.DOUBLE, "string": cel.Type.STRING,
        "list": cel.Type.LIST, "map": cel.Type.MAP, "dyn": cel.Type.DYN, "timestamp": cel.Type.TIMESTAMP,
        "duration": cel.Type.DURATION,
    }  # fmt: skip
    declarations: dict[str, list[Any]] = {}
    for function in FUNCTIONS:
        overload = cel.Overload(
            function.id,
            return_type=types[function.result],
            parameters=[types[name] for name in function.parameters],
            is_member=function.is_method,
            impl=function.implementation,
        )
        declarations.setdefault(function.name, []).append(overload)
    ours = cel.CelExtension("kubernetes", [cel.FunctionDecl(name, each) for name, each in declarations.items()])
    return cel.NewEnv(
        variables={"self": types[self_type], "oldSelf": types[self_type], "previous": cel.Type.LIST},
        extensions=[
            ext_strings.ExtStrings(), ext_optional.ExtOptional(), ext_bindings.ExtBindings(), ext_math.ExtMath(),
            ext_encoders.ExtEncoders(), ours,
        ],
    )  # fmt: skip
