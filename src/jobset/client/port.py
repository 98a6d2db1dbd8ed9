"""The client port: how everything here talks to a Kubernetes API. Two adapters: HTTP, and in process.

`observe` gets a Reader, `apply` gets a Writer, informers get a Watcher; mypy then stops a write while observing.
Every method raises the errors of `jobset.api.errors`. `as_` chooses the shape of what is read: `dict` gives raw objects
(shared: never change them in place), a `View` subclass gives that view and decodes only what it names.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, Literal, Protocol, TypeVar

from msgspec import Struct

from jobset.api.meta import Object
from jobset.api.resources import Resource

T = TypeVar("T")

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
Propagation = Literal["Foreground", "Background", "Orphan"]
PatchType = Literal["merge", "strategic", "json", "apply"]


class ObjectList(Struct, Generic[T], frozen=True):
    items: Sequence[T]
    resource_version: str
    continue_token: str = ""


class WatchEvent(Struct, Generic[T], frozen=True):
    """One change. For a BOOKMARK `object` is None and only `resource_version` tells."""

    type: EventType
    object: T | None
    resource_version: str


class Reader(Protocol):
    async def get(self, resource: Resource, namespace: str, name: str, as_: type[T]) -> T:
        """One object. `namespace` is empty for cluster-scoped resources. NotFound."""
        ...

    async def list(
        self,
        resource: Resource,
        as_: type[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> ObjectList[T]:
        """All objects of a namespace (empty: of all namespaces) that the selectors match."""
        ...


class Watcher(Protocol):
    def watch(
        self,
        resource: Resource,
        as_: type[T],
        *,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> AbstractAsyncContextManager[AsyncIterator[Sequence[WatchEvent[T]]]]:
        """Changes after `resource_version`, in order, in batches of what has arrived. Gone when it is too old.

        The iterator ends when the server ends the stream: watch again from the last version seen.
        """
        ...


class Writer(Protocol):
    async def create(self, resource: Resource, body: Object, *, dry_run: bool = False) -> Object:
        """Create in the namespace that `body.metadata.namespace` names. AlreadyExists, Invalid, Forbidden."""
        ...

    async def update(self, resource: Resource, body: Object, *, subresource: str = "", dry_run: bool = False) -> Object:
        """Replace the whole object. Conflict when `metadata.resourceVersion` is given and no longer current."""
        ...

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Any,
        *,
        patch_type: PatchType = "merge",
        subresource: str = "",
        field_manager: str = "jobset",
        force: bool = False,
        dry_run: bool = False,
    ) -> Object: ...

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        propagation: Propagation | None = None,
        grace_period_s: int | None = None,
        dry_run: bool = False,
    ) -> Object:
        """Ask for deletion of exactly this object. NotFound; Conflict when `uid` no longer holds."""
        ...

    async def create_subresource(
        self, resource: Resource, namespace: str, name: str, subresource: str, body: Object
    ) -> Object:
        """POST to a subresource: pods/binding, pods/eviction, serviceaccounts/token."""
        ...


class Client(Reader, Watcher, Writer, Protocol):
    """All three together, for those who compose; everybody else takes the narrowest one that serves."""
