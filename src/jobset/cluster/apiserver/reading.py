"""Get, list and watch: what a reader sees of the store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from types import TracebackType

from jobset.api.errors import BadRequest
from jobset.api.meta import Object
from jobset.api.resources import Resource
from jobset.api.selectors import parse_field_selector, parse_label_selector
from jobset.client.port import ObjectList, WatchEvent
from jobset.cluster.apiserver.metadata import not_found
from jobset.cluster.apiserver.options import ListOptions, WatchOptions
from jobset.cluster.apiserver.registry import Registry
from jobset.cluster.store.port import Matches, Store, Subscription


class Watching:
    """An open watch: an async context manager that gives batches of events until it is left or fails with Gone."""

    def __init__(self, initial: Sequence[WatchEvent[Object]], subscription: Subscription) -> None:
        self._initial = initial
        self._subscription = subscription

    async def __aenter__(self) -> AsyncIterator[Sequence[WatchEvent[Object]]]:
        return self._batches()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._subscription.close()

    async def _batches(self) -> AsyncIterator[Sequence[WatchEvent[Object]]]:
        if self._initial:
            yield self._initial
        while True:
            changes = await self._subscription.batch()
            yield [WatchEvent(change.type, change.object, str(change.revision)) for change in changes]


class Reading:
    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry

    def get(self, resource: Resource, namespace: str, name: str) -> Object:
        served = self._registry.of(resource)
        found = self._store.get(served.storage, namespace, name)
        if found is None:
            raise not_found(resource, name)
        return found

    def list(self, resource: Resource, namespace: str, options: ListOptions) -> ObjectList[Object]:
        served = self._registry.of(resource)
        matches = selection(options.label_selector, options.field_selector)
        items = self._store.list(served.storage, namespace)
        if matches is not None:
            items = [item for item in items if matches(item)]
        return ObjectList(items, str(self._store.revision))

    def watch(self, resource: Resource, namespace: str, options: WatchOptions) -> Watching:
        served = self._registry.of(resource)
        matches = selection(options.label_selector, options.field_selector)
        initial: list[WatchEvent[Object]] = []
        since = int(options.resource_version or 0)
        if not since:
            since = self._store.revision
            initial = [
                WatchEvent("ADDED", item, item["metadata"]["resourceVersion"])
                for item in self._store.list(served.storage, namespace)
                if matches is None or matches(item)
            ]
        return Watching(initial, self._store.watch(served.storage, since, namespace=namespace, matches=matches))


def selection(label_selector: str, field_selector: str) -> Matches | None:
    """Whether an object fits both selectors; None when there is nothing to fit. BadRequest when one is unreadable."""
    try:
        labels = parse_label_selector(label_selector) if label_selector else None
        fields = parse_field_selector(field_selector) if field_selector else None
    except ValueError as error:
        raise BadRequest(str(error)) from error
    if labels is None and fields is None:
        return None

    def matches(obj: Object) -> bool:
        return (labels is None or labels.matches(obj["metadata"].get("labels"))) and (
            fields is None or fields.matches(obj)
        )

    return matches
