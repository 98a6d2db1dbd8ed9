"""Where writes reach the store: one place for dry runs, for no-op writes, and for those who must know at once.

A follower is called with every new version of a resource (None: removed), before the request is answered. It is for
what the service itself must keep in step, such as serving the resources of a definition; controllers use watches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from jobset.api.meta import Object
from jobset.cluster.apiserver.registry import Served
from jobset.cluster.store.port import Store

Follower: TypeAlias = Callable[[Object, bool], None]
"""(last version, whether it is gone)"""


class Commits:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._followers: dict[str, Follower] = {}

    def follow(self, storage: str, follower: Follower) -> None:
        self._followers[storage] = follower

    def put(self, served: Served, obj: Object, *, dry_run: bool = False) -> Object:
        """Store a new version as the resource shows it; gives it back the same way."""
        if dry_run:
            return obj
        stored = self._store.put(served.storage, served.inward(obj))
        if (follower := self._followers.get(served.storage)) is not None:
            follower(stored, False)
        return served.outward(stored)

    def remove(self, served: Served, obj: Object, *, dry_run: bool = False) -> Object:
        if dry_run:
            return obj
        removed = self._store.remove(served.storage, served.inward(obj))
        if (follower := self._followers.get(served.storage)) is not None:
            follower(removed, True)
        return served.outward(removed)
