"""What every store keeps in memory: nested maps, a bounded history a resource, and subscriptions fed at each write.

Reads and watches are answered from here; the stores (memory.py, sqlite.py) decide when a write counts, and hand it in.
Objects are shared with every reader and are never changed once stored; `paranoid=True` (for tests) keeps an encoded
copy of each and raises `ChangedInPlace` when somebody broke that rule.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from jobset.api.errors import Gone
from jobset.api.meta import Object
from jobset.cluster.store.port import Change, Matches

HISTORY = 4096
"""Changes remembered a resource, for watches that start in the past."""
BUFFER = 100_000
"""Changes a subscriber may leave unread before it has to list again."""


class ChangedInPlace(AssertionError):
    """Somebody changed an object that the store shares with others."""


class TableSubscription:
    """Filled by the store's writes, emptied by one reader; holds references only, and a bounded number of them."""

    def __init__(self, table: _Table, namespace: str, matches: Matches | None, buffer: int) -> None:
        self._table = table
        self._namespace = namespace
        self._matches = matches
        self._buffer = buffer
        self._changes: list[Change] = []
        self._overrun = False
        self._waiter: asyncio.Future[None] | None = None

    def offer(self, change: Change) -> None:
        seen = change if self._matches is None else _transition(change, self._matches)
        if seen is None or self._overrun:
            return
        if len(self._changes) >= self._buffer:
            self._overrun = True
            self._changes.clear()
        else:
            self._changes.append(seen)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def batch(self) -> list[Change]:
        while not self._changes and not self._overrun:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self._overrun:
            raise Gone("too old resource version: the watch did not keep up with the changes")
        changes, self._changes = self._changes, []
        return changes

    def close(self) -> None:
        self._table.unsubscribe(self._namespace, self)


def _transition(change: Change, matches: Matches) -> Change | None:
    """What a watcher sees of a change whose selectors match some versions of the object only."""
    before = change.previous is not None and matches(change.previous)
    if change.type == "DELETED":
        return change if before else None
    after = matches(change.object)
    if after and before:
        return change
    if after:
        return change if change.type == "ADDED" else Change("ADDED", change.object, None, change.revision)
    if before and change.previous is not None:
        return Change("DELETED", versioned(change.previous, change.revision), change.previous, change.revision)
    return None


def versioned(obj: Object, revision: int) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}


def key_of(obj: Object) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


class _Table:
    """One resource: objects by namespace and name, history, subscribers by the namespace they asked for."""

    def __init__(self, history: int, forgotten: int) -> None:
        self.namespaces: dict[str, dict[str, Object]] = {}
        self.history: deque[Change] = deque(maxlen=history)
        self.forgotten = forgotten  # the last revision that is not, or no longer, in the history
        self._subscribers: dict[str, dict[TableSubscription, None]] = {}

    def get(self, namespace: str, name: str) -> Object | None:
        objects = self.namespaces.get(namespace)
        return objects.get(name) if objects is not None else None

    def ordered(self, namespace: str) -> Iterator[Object]:
        chosen = [namespace] if namespace else sorted(self.namespaces)
        for space in chosen:
            objects = self.namespaces.get(space, {})
            for name in sorted(objects):
                yield objects[name]

    def record(self, change: Change) -> None:
        history = self.history
        if len(history) == history.maxlen:
            self.forgotten = history[0].revision
        history.append(change)
        subscribers = self._subscribers
        for subscription in subscribers.get("", ()):
            subscription.offer(change)
        namespace = change.object["metadata"].get("namespace")
        if namespace and namespace in subscribers:
            for subscription in subscribers[namespace]:
                subscription.offer(change)

    def since(self, revision: int) -> list[Change]:
        """The changes after `revision`, newest first."""
        if revision < self.forgotten:
            raise Gone(f"too old resource version: {revision} ({self.forgotten})")
        found = []
        for change in reversed(self.history):
            if change.revision <= revision:
                break
            found.append(change)
        return found

    def subscribe(self, namespace: str, subscription: TableSubscription) -> None:
        self._subscribers.setdefault(namespace, {})[subscription] = None

    def unsubscribe(self, namespace: str, subscription: TableSubscription) -> None:
        subscribers = self._subscribers.get(namespace, {})
        subscribers.pop(subscription, None)
        if not subscribers:
            self._subscribers.pop(namespace, None)


class Tables:
    """The reading half of the store port (cluster/store/port.py), and how accepted writes come in."""

    def __init__(self, *, history: int = HISTORY, buffer: int = BUFFER, paranoid: bool = False) -> None:
        self.revision = 0
        self._loaded = 0  # changes up to here happened before this process
        self._tables: dict[str, _Table] = {}
        self._history = history
        self._buffer = buffer
        self._copies: dict[tuple[str, str, str], bytes] | None = {} if paranoid else None

    def get(self, resource: str, namespace: str, name: str) -> Object | None:
        table = self._tables.get(resource)
        return table.get(namespace, name) if table is not None else None

    def list(self, resource: str, namespace: str = "", at: int | None = None) -> list[Object]:
        table = self._table(resource)
        undone = table.since(at) if at is not None else ()
        if not undone:
            return list(table.ordered(namespace))
        objects = {key_of(obj): obj for obj in table.ordered(namespace)}
        for change in undone:
            key = key_of(change.object)
            if namespace and key[0] != namespace:
                continue
            if change.previous is None:
                objects.pop(key, None)
            else:
                objects[key] = change.previous
        return [objects[key] for key in sorted(objects)]

    def load(self, objects: Iterable[tuple[str, Object]], revision: int) -> None:
        """Begin with what an earlier process left: (resource, object) each, and the revision it had reached."""
        self.revision = self._loaded = revision
        for resource, obj in objects:
            namespace, name = key_of(obj)
            self._table(resource).namespaces.setdefault(namespace, {})[name] = obj
            self._keep(resource, obj)

    def accept_put(self, resource: str, stored: Object) -> Object:
        """Show everybody a new version; it carries the next revision."""
        self.revision += 1
        table = self._table(resource)
        namespace, name = key_of(stored)
        objects = table.namespaces.setdefault(namespace, {})
        previous = objects.get(name)
        self._check(resource, previous)
        objects[name] = stored
        self._keep(resource, stored)
        type_: Literal["ADDED", "MODIFIED"] = "ADDED" if previous is None else "MODIFIED"
        table.record(Change(type_, stored, previous, self.revision))
        return stored

    def accept_removal(self, resource: str, removed: Object) -> Object:
        """Show everybody that an object is gone; its last state carries the next revision."""
        self.revision += 1
        table = self._table(resource)
        namespace, name = key_of(removed)
        objects = table.namespaces[namespace]
        previous = objects.pop(name)
        self._check(resource, previous)
        if not objects:
            del table.namespaces[namespace]
        if self._copies is not None:
            self._copies.pop((resource, namespace, name), None)
        table.record(Change("DELETED", removed, previous, self.revision))
        return removed

    def watch(
        self, resource: str, since: int, *, namespace: str = "", matches: Matches | None = None
    ) -> TableSubscription:
        table = self._table(resource)
        missed = table.since(since)
        subscription = TableSubscription(table, namespace, matches, self._buffer)
        for change in reversed(missed):
            if not namespace or change.object["metadata"].get("namespace") == namespace:
                subscription.offer(change)
        table.subscribe(namespace, subscription)
        return subscription

    def verify(self) -> None:
        """Raise ChangedInPlace unless every object is as it was stored. Only with `paranoid`."""
        for resource, table in self._tables.items():
            for obj in table.ordered(""):
                self._check(resource, obj)

    def _table(self, resource: str) -> _Table:
        table = self._tables.get(resource)
        if table is None:
            table = self._tables[resource] = _Table(self._history, self._loaded)
        return table

    def _keep(self, resource: str, obj: Object) -> None:
        if self._copies is not None:
            self._copies[(resource, *key_of(obj))] = msgspec.json.encode(obj)

    def _check(self, resource: str, obj: Object | None) -> None:
        if self._copies is None or obj is None:
            return
        copy = self._copies[(resource, *key_of(obj))]
        if msgspec.json.encode(obj) != copy:
            raise ChangedInPlace(f"{resource} {'/'.join(key_of(obj))} was changed in place; it was {copy.decode()}")
