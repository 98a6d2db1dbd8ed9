"""A cache of one resource kept current by list and watch, with indexes and change handlers.

Stands between the client port and the workers: `Informer.run` is the only writer of a `Cache`; everybody else reads.
It must not decide anything. Objects in a cache are shared: never change them in place.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, cast

from jobset.api.errors import ApiError, Gone
from jobset.api.meta import Object
from jobset.api.resources import Resource
from jobset.client.port import Reader, Watcher, WatchEvent

T = TypeVar("T")
Key: TypeAlias = tuple[str, str]
"""(namespace, name); the namespace of cluster-scoped objects is empty."""

IndexFunction: TypeAlias = Callable[[T], Iterable[str]]
Handler: TypeAlias = Callable[[T | None, T | None], None]
"""Called as handler(old, new) after the cache changed: old is None when added, new is None when deleted."""

log = logging.getLogger(__name__)


class ReadsAndWatches(Reader, Watcher, Protocol):
    """What an informer needs of a client."""


def key_of(obj: Any) -> Key:
    """(namespace, name) of a raw object or of a view with `metadata`."""
    if isinstance(obj, dict):
        metadata = obj["metadata"]
        return metadata.get("namespace", ""), metadata["name"]
    return obj.metadata.namespace, obj.metadata.name


def resource_version_of(obj: Any) -> int:
    text = obj["metadata"].get("resourceVersion") if isinstance(obj, dict) else obj.metadata.resource_version
    return int(text or 0)


class Cache(Generic[T]):
    """What the informer has seen: by key and by index. `revision` is the last version it knows everything up to."""

    def __init__(self, indexes: Mapping[str, IndexFunction[T]] | None = None) -> None:
        self.revision = 0
        self._objects: dict[Key, T] = {}
        self._index_functions = dict(indexes or {})
        self._indexes: dict[str, dict[str, dict[Key, T]]] = {name: {} for name in self._index_functions}

    def get(self, namespace: str, name: str) -> T | None:
        return self._objects.get((namespace, name))

    def all(self) -> list[T]:
        return list(self._objects.values())

    def by_index(self, index: str, value: str) -> list[T]:
        """The objects whose index function gave `value`, oldest insertion first."""
        return list(self._indexes[index].get(value, {}).values())

    def __len__(self) -> int:
        return len(self._objects)

    def _replace(self, key: Key, new: T | None) -> T | None:
        old = self._objects.pop(key, None) if new is None else self._objects.get(key)
        if new is not None:
            self._objects[key] = new
        for name, function in self._index_functions.items():
            index = self._indexes[name]
            before = set(function(old)) if old is not None else set()
            after = list(function(new)) if new is not None else []
            for value in before.difference(after):
                bucket = index[value]
                bucket.pop(key, None)
                if not bucket:
                    del index[value]
            if new is not None:
                for value in after:
                    index.setdefault(value, {})[key] = new
        return old


class Informer(Generic[T]):
    """Lists, then watches, for as long as `run` runs; lists again when the server forgot our version."""

    def __init__(
        self,
        client: ReadsAndWatches,
        resource: Resource,
        as_: type[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        indexes: Mapping[str, IndexFunction[T]] | None = None,
    ) -> None:
        self.resource = resource
        self.cache: Cache[T] = Cache(indexes)
        self._client = client
        self._as = as_
        self._scope = {"namespace": namespace, "label_selector": label_selector, "field_selector": field_selector}
        self._handlers: list[Handler[T]] = []
        self._synced = asyncio.Event()

    def add_handler(self, handler: Handler[T]) -> None:
        """To be called before `run`; a handler must be quick and must not raise."""
        self._handlers.append(handler)

    def add_index(self, name: str, function: IndexFunction[T]) -> None:
        """Add an index before `run`, or over what is already cached. The same name twice must mean the same."""
        cache = self.cache
        if name in cache._index_functions:
            return
        cache._index_functions[name] = function
        index = cache._indexes[name] = {}
        for key, obj in cache._objects.items():
            for value in function(obj):
                index.setdefault(value, {})[key] = obj

    async def wait_synced(self) -> None:
        await self._synced.wait()

    async def run(self) -> None:
        delay_s = 0.0
        resource_version = ""
        while True:
            try:
                if not resource_version:
                    resource_version = await self._list()
                    delay_s = 0.0
                resource_version = await self._watch(resource_version)
                delay_s = 0.0
            except Gone:
                resource_version = ""
            except ApiError as error:
                if resource_version:
                    resource_version = str(self.cache.revision)  # the watch may have got further before it failed
                delay_s = min(max(delay_s * 2, 0.1), 30.0)
                log.warning("watching %s: %s; trying again in %.1f s", self.resource, error, delay_s)
                await asyncio.sleep(delay_s * random.uniform(0.5, 1.5))

    async def _list(self) -> str:
        found: dict[Key, T] = {}
        token = ""
        while True:
            page = await self._client.list(self.resource, self._as, limit=500, continue_token=token, **self._scope)
            found.update((key_of(item), item) for item in page.items)
            token = page.continue_token
            if not token:
                break
        for key in [key for key in self.cache._objects if key not in found]:
            self._change(key, None)
        for key, item in found.items():
            old = self.cache._objects.get(key)
            if old is None or resource_version_of(old) != resource_version_of(item):
                self._change(key, item)
        self.cache.revision = int(page.resource_version or 0)
        self._synced.set()
        return page.resource_version

    async def _watch(self, resource_version: str) -> str:
        watch = self._client.watch(self.resource, self._as, resource_version=resource_version, **self._scope)
        async with watch as batches:
            async for batch in batches:
                for event in batch:
                    self._receive(event)
                    resource_version = event.resource_version
        return resource_version

    def _receive(self, event: WatchEvent[T]) -> None:
        if event.object is not None:
            self._change(key_of(event.object), None if event.type == "DELETED" else event.object)
        self.cache.revision = int(event.resource_version)

    def _change(self, key: Key, new: T | None) -> None:
        old = self.cache._replace(key, new)
        if old is None and new is None:
            return
        for handler in self._handlers:
            handler(old, new)


class SharedInformers:
    """One informer of raw objects a resource, shared by all who ask: a change is received once.

    `field_selectors` say which objects of a resource are wanted, where it is not all of them.
    """

    def __init__(self, client: ReadsAndWatches, field_selectors: Mapping[Resource, str] | None = None) -> None:
        self._client = client
        self._field_selectors = field_selectors or {}
        self._informers: dict[Resource, Informer[Object]] = {}

    def get(self, resource: Resource) -> Informer[Object]:
        """To be called before `run`."""
        if resource not in self._informers:
            selector = self._field_selectors.get(resource, "")
            self._informers[resource] = Informer(
                self._client, resource, cast("type[Object]", dict), field_selector=selector
            )
        return self._informers[resource]

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for informer in self._informers.values():
                group.create_task(informer.run(), name=f"informer {informer.resource}")

    async def wait_synced(self) -> None:
        for informer in self._informers.values():
            await informer.wait_synced()
