"""Events live for an hour after their last change, as in Kubernetes: nobody deletes them, and they are many."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime, timedelta

from jobset.api.meta import Object
from jobset.api.resources import CORE_EVENTS
from jobset.cluster.apiserver.commits import Commits
from jobset.cluster.store.port import Store

LIFETIME = timedelta(hours=1)


class EventExpiry:
    """Follows the events through `commits`; each write of one takes the expired ones away, oldest first."""

    def __init__(self, store: Store, commits: Commits, now: Callable[[], datetime]) -> None:
        self._store = store
        self._now = now
        self._changed_at: OrderedDict[tuple[str, str], datetime] = OrderedDict()
        for event in store.list(str(CORE_EVENTS)):
            self._changed_at[_key(event)] = now()
        commits.follow(str(CORE_EVENTS), self._changed)

    def _changed(self, event: Object, gone: bool) -> None:
        if gone:
            self._changed_at.pop(_key(event), None)
            return
        now = self._now()
        self._changed_at[_key(event)] = now
        self._changed_at.move_to_end(_key(event))
        while now - next(iter(self._changed_at.values())) >= LIFETIME:
            key, _ = self._changed_at.popitem(last=False)
            expired = self._store.get(str(CORE_EVENTS), *key)
            if expired is not None:
                self._store.remove(str(CORE_EVENTS), expired)


def _key(event: Object) -> tuple[str, str]:
    metadata = event["metadata"]
    return metadata["namespace"], metadata["name"]
