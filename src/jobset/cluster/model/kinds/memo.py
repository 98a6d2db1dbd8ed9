"""Remember what a pure function answered for an object, by the object's identity. Pure in effect.

Safe because raw objects never change once made (the rule of api/meta.py), and because an entry keeps its object alive:
as long as it is remembered, no other object can have its id. Bounded: a full memory is emptied and begins anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar

from jobset.api.meta import Object

A = TypeVar("A")
R = TypeVar("R")
Key: TypeAlias = tuple[object, ...]

_SCALARS = (str, int, bool, type(None), float)


def parts_key(obj: Object, leave_out: frozenset[str]) -> Key:
    """Equal for objects that share their parts: scalars by value, everything else by identity."""
    return tuple(
        [
            (key, value.__class__, value) if value.__class__ in _SCALARS else (key, id(value))
            for key, value in obj.items()
            if key not in leave_out
        ]
    )


class IdentityMemo(Generic[A, R]):
    """Answers of one function of one object."""

    __slots__ = ("_answers", "_limit")

    def __init__(self, limit: int = 4096) -> None:
        self._answers: dict[int, tuple[A, R]] = {}
        self._limit = limit

    def get(self, obj: A, compute: Callable[[A], R]) -> R:
        """The remembered answer for this very object, or `compute(obj)`, remembered from now on."""
        known = self._answers.get(id(obj))
        if known is not None:
            return known[1]
        answer = compute(obj)
        if len(self._answers) >= self._limit:
            self._answers.clear()
        self._answers[id(obj)] = (obj, answer)
        return answer


class PartsMemo(Generic[R]):
    """Answers for objects that share their parts, under their `parts_key`."""

    __slots__ = ("_answers", "_limit")

    def __init__(self, limit: int = 4096) -> None:
        self._answers: dict[Key, tuple[Any, R]] = {}
        self._limit = limit

    def get(self, key: Key) -> R | None:
        known = self._answers.get(key)
        return None if known is None else known[1]

    def put(self, key: Key, alive: Any, answer: R) -> None:
        """Remember `answer`; `alive` holds the objects whose ids are in `key`."""
        if len(self._answers) >= self._limit:
            self._answers.clear()
        self._answers[key] = (alive, answer)
