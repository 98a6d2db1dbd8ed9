"""Remember what a pure function answered for an object, by the object's identity. Pure in effect.

Safe because raw objects never change once made (the rule of api/meta.py), and because an entry keeps its object alive:
as long as it is remembered, no other object can have its id. Bounded: a full memory is emptied and begins anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from jobset.api.meta import Object

R = TypeVar("R")


class IdentityMemo(Generic[R]):
    """Answers of one function of one object."""

    __slots__ = ("_answers", "_limit")

    def __init__(self, limit: int = 4096) -> None:
        self._answers: dict[int, tuple[Any, R]] = {}
        self._limit = limit

    def get(self, obj: Object, compute: Callable[[Object], R]) -> R:
        """The remembered answer for this very object, or `compute(obj)`, remembered from now on."""
        known = self._answers.get(id(obj))
        if known is not None:
            return known[1]
        answer = compute(obj)
        if len(self._answers) >= self._limit:
            self._answers.clear()
        self._answers[id(obj)] = (obj, answer)
        return answer


class IdentitySet:
    """Groups of objects, and plain values beside them, that were looked at once and found good."""

    __slots__ = ("_known", "_limit")

    def __init__(self, limit: int = 4096) -> None:
        self._known: dict[tuple[object, ...], tuple[Any, ...]] = {}
        self._limit = limit

    def __contains__(self, key: tuple[object, ...]) -> bool:
        return key in self._known

    def add(self, key: tuple[object, ...], *alive: Any) -> None:
        """Remember `key`, made of the ids of the objects in `alive` and of values."""
        if len(self._known) >= self._limit:
            self._known.clear()
        self._known[key] = alive
