"""Get, list and watch: what a reader sees of the store."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType

import msgspec
from msgspec import Struct

from jobset.api.errors import BadRequest, Cause, Invalid, Timeout
from jobset.api.field_errors import forbidden
from jobset.api.meta import Object
from jobset.api.resources import Resource
from jobset.client.port import WatchEvent
from jobset.cluster.apiserver.metadata import not_found
from jobset.cluster.apiserver.options import ListOptions, WatchOptions
from jobset.cluster.apiserver.registry import Registry, Served
from jobset.cluster.apiserver.selection import selection
from jobset.cluster.store.port import Store, Subscription

BOOKMARK_AFTER_S = 60.0


class Page(Struct, frozen=True):
    """What a list answers. `remaining` counts what follows, where that is known."""

    items: Sequence[Object]
    resource_version: str
    continue_token: str = ""
    remaining: int | None = None


class _Continue(msgspec.Struct):
    """Where the next page begins: after (namespace, name), in the state at `revision`."""

    revision: int
    namespace: str
    name: str


class Watching:
    """An open watch: an async context manager that gives batches of events until it is left or fails with Gone.

    With `bookmarks`, a quiet watch tells now and then up to which version nothing was missed.
    """

    def __init__(
        self,
        served: Served,
        initial: Sequence[WatchEvent[Object]],
        subscription: Subscription,
        revision: Callable[[], int],
        *,
        bookmarks: bool,
    ) -> None:
        self._served = served
        self._initial = initial
        self._subscription = subscription
        self._revision = revision
        self._bookmark_after_s = BOOKMARK_AFTER_S if bookmarks else None

    async def __aenter__(self) -> AsyncIterator[Sequence[WatchEvent[Object]]]:
        return self._batches()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._subscription.close()

    async def _batches(self) -> AsyncIterator[Sequence[WatchEvent[Object]]]:
        outward = self._served.outward
        if self._initial:
            yield self._initial
        while True:
            try:
                async with asyncio.timeout(self._bookmark_after_s):
                    changes = await self._subscription.batch()
            except TimeoutError:
                yield [_bookmark(self._served.resource, self._revision())]
            else:
                yield [WatchEvent(change.type, outward(change.object), str(change.revision)) for change in changes]


class Reading:
    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry

    def get(self, resource: Resource, namespace: str, name: str) -> Object:
        served = self._registry.of(resource)
        found = self._store.get(served.storage, namespace, name)
        if found is None:
            raise not_found(resource, name)
        return served.outward(found)

    def list(self, resource: Resource, namespace: str, options: ListOptions) -> Page:
        served = self._registry.of(resource)
        matches = selection(served, options.label_selector, options.field_selector)
        start = _start(options)
        at = start.revision if start else self._revision(options)
        items = self._store.list(served.storage, namespace, at)
        if matches is not None:
            items = [item for item in items if matches(item)]
        if start is not None:
            after = (start.namespace, start.name)
            items = [item for item in items if _key(item) > after]
        revision = self._store.revision if at is None else at
        page, token, remaining = items, "", None
        if options.limit and len(items) > options.limit:
            page = items[: options.limit]
            token = _token(_Continue(revision, *_key(page[-1])))
            remaining = None if matches is not None else len(items) - options.limit
        if served.outward is not served.inward:
            page = [served.outward(item) for item in page]
        return Page(page, str(revision), token, remaining)

    def watch(self, resource: Resource, namespace: str, options: WatchOptions) -> Watching:
        served = self._registry.of(resource)
        matches = selection(served, options.label_selector, options.field_selector)
        _check_initial_events(options)
        since = _version(options.resource_version)
        initial: list[WatchEvent[Object]] = []
        wanted = options.send_initial_events
        if wanted or (wanted is None and not since):
            since = self._store.revision
            initial = [
                WatchEvent("ADDED", served.outward(item), item["metadata"]["resourceVersion"])
                for item in self._store.list(served.storage, namespace)
                if matches is None or matches(item)
            ]
            if wanted and options.bookmarks:
                initial.append(_bookmark(resource, since, {"k8s.io/initial-events-end": "true"}))
        elif not since:
            since = self._store.revision
        if since > self._store.revision:
            raise Timeout(f"Too large resource version: {since}, current: {self._store.revision}")
        subscription = self._store.watch(served.storage, since, namespace=namespace, matches=matches)
        return Watching(served, initial, subscription, lambda: self._store.revision, bookmarks=options.bookmarks)

    def _revision(self, options: ListOptions) -> int | None:
        """The revision whose state is asked for; None for the newest."""
        _check_version_match(options)
        version = _version(options.resource_version)
        if version > self._store.revision:
            raise Timeout(f"Too large resource version: {version}, current: {self._store.revision}")
        return version if options.version_match == "Exact" else None


def _key(obj: Object) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _version(text: str) -> int:
    try:
        return int(text or 0)
    except ValueError as error:
        raise BadRequest(f"resourceVersion: Invalid value: {text!r}: must be a whole number") from error


def _token(start: _Continue) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(start)).decode().rstrip("=")


def _start(options: ListOptions) -> _Continue | None:
    token = options.continue_token
    if not token:
        return None
    if options.resource_version:
        raise BadRequest("specifying resource version is not allowed when using continue")
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)), type=_Continue)
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise BadRequest(f"invalid continue token: continue key is not valid: {error}") from error


def _check_version_match(options: ListOptions) -> None:
    match, field = options.version_match, "resourceVersionMatch"
    if not match:
        return
    if not options.resource_version:
        raise _bad_options([forbidden(field, "resourceVersionMatch is forbidden unless resourceVersion is provided")])
    if match not in ("Exact", "NotOlderThan"):
        detail = f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""'
        raise _bad_options([Cause("FieldValueNotSupported", detail, field)])
    if match == "Exact" and options.resource_version == "0":
        raise _bad_options([forbidden(field, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')])


def _check_initial_events(options: WatchOptions) -> None:
    if options.send_initial_events is not None and options.version_match != "NotOlderThan":
        detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise _bad_options([forbidden("resourceVersionMatch", detail)])


def _bad_options(causes: list[Cause]) -> Invalid:
    text = "; ".join(f"{cause.field}: {cause.message}" for cause in causes)
    return Invalid(
        f'ListOptions.meta.k8s.io "" is invalid: {text}', causes=causes, group="meta.k8s.io", kind="ListOptions"
    )


def _bookmark(resource: Resource, revision: int, annotations: Object | None = None) -> WatchEvent[Object]:
    metadata: Object = {"resourceVersion": str(revision)}
    if annotations:
        metadata["annotations"] = annotations
    bookmark: Object = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    return WatchEvent("BOOKMARK", bookmark, str(revision))
