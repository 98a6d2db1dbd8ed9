"""The store port: versioned objects with watches, as the API service needs them. Adapters: memory, SQLite.

A store knows neither kinds nor rules. It counts one revision over everything, writes it into each object it takes
(`metadata.resourceVersion`), and tells subscribers of every change in order. Resources are named `plural.group` here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from jobset.api.meta import Object

Matches: TypeAlias = Callable[[Object], bool]


class Change(Struct, frozen=True):
    """One step of one object. `previous` is None when it was added; a deleted object shows its last state."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: Object
    previous: Object | None
    revision: int


class Subscription(Protocol):
    """The changes one watcher asked for, in order."""

    async def batch(self) -> list[Change]:
        """What has arrived; waits for at least one change. Gone when the reader was too slow to be kept up to date."""
        ...

    def close(self) -> None: ...


class Store(Protocol):
    """All calls are synchronous: what they return is the truth at that moment."""

    @property
    def revision(self) -> int:
        """The revision of the last write of any resource."""
        ...

    def get(self, resource: str, namespace: str, name: str) -> Object | None: ...

    def list(self, resource: str, namespace: str = "", at: int | None = None) -> list[Object]:
        """Ordered by namespace and name. `at` asks for the state at an earlier revision (Gone when forgotten)."""
        ...

    def put(self, resource: str, obj: Object) -> Object:
        """Write a new version; returns the object as stored, with its resourceVersion."""
        ...

    def remove(self, resource: str, obj: Object) -> Object:
        """Remove the object; `obj` is its last state, returned with the revision of the removal."""
        ...

    def watch(self, resource: str, since: int, *, namespace: str = "", matches: Matches | None = None) -> Subscription:
        """The changes after revision `since`. Gone when it is older than what is remembered.

        An object that stops matching arrives as DELETED, one that starts matching as ADDED.
        """
        ...
