"""The client port in process: calls the API service directly.

`as_=dict` hands out the stored objects themselves. Calls do not wait for anything, so a busy caller would keep the
event loop to itself: every few calls it is made to yield.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

import msgspec

from jobset.api.meta import Object
from jobset.api.resources import Resource
from jobset.client.port import ObjectList, PatchType, Propagation, WatchEvent
from jobset.cluster.apiserver.options import DeleteOptions, ListOptions, WatchOptions, WriteOptions
from jobset.cluster.apiserver.service import ApiService

T = TypeVar("T")

CALLS_BEFORE_YIELD = 16
_WRITE = WriteOptions()
_DRY_RUN = WriteOptions(dry_run=True)


class InProcessClient:
    """`client.port.Client` on an ApiService that runs on the same event loop."""

    def __init__(self, service: ApiService) -> None:
        self._service = service
        self.calls = 0
        """Requests so far."""

    async def _yield_sometimes(self) -> None:
        self.calls += 1
        if self.calls % CALLS_BEFORE_YIELD == 0:
            await asyncio.sleep(0)

    async def get(self, resource: Resource, namespace: str, name: str, as_: type[T]) -> T:
        await self._yield_sometimes()
        return _shaped(self._service.get(resource, namespace, name), as_)

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
        await self._yield_sometimes()
        options = ListOptions(label_selector, field_selector, limit, continue_token)
        found = self._service.list(resource, namespace, options)
        if as_ is dict:
            items = cast("Sequence[T]", found.items)
        else:
            items = [_shaped(item, as_) for item in found.items]
        return ObjectList(items, found.resource_version, found.continue_token)

    @asynccontextmanager
    async def watch(
        self,
        resource: Resource,
        as_: type[T],
        *,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[AsyncIterator[Sequence[WatchEvent[T]]]]:
        options = WatchOptions(label_selector, field_selector, resource_version)
        async with self._service.watch(resource, namespace, options) as batches:
            if as_ is dict:
                yield cast("AsyncIterator[Sequence[WatchEvent[T]]]", batches)
            else:
                yield _shaped_batches(batches, as_)

    async def create(self, resource: Resource, body: Object, *, dry_run: bool = False) -> Object:
        await self._yield_sometimes()
        namespace = body["metadata"].get("namespace", "") if resource.namespaced else ""
        return self._service.create(resource, namespace, body, _DRY_RUN if dry_run else _WRITE)

    async def update(self, resource: Resource, body: Object, *, subresource: str = "", dry_run: bool = False) -> Object:
        await self._yield_sometimes()
        metadata = body["metadata"]
        namespace = metadata.get("namespace", "") if resource.namespaced else ""
        options = _DRY_RUN if dry_run else _WRITE
        return self._service.update(resource, namespace, metadata["name"], body, subresource, options)

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
    ) -> Object:
        await self._yield_sometimes()
        options = _DRY_RUN if dry_run else _WRITE
        if patch_type == "apply":
            options = WriteOptions(dry_run, field_manager=field_manager, force=force)
        return self._service.patch(resource, namespace, name, patch, patch_type, subresource, options)

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
        await self._yield_sometimes()
        options = DeleteOptions(uid, "", propagation, grace_period_s, dry_run)
        return self._service.delete(resource, namespace, name, options)

    async def create_subresource(
        self, resource: Resource, namespace: str, name: str, subresource: str, body: Object
    ) -> Object:
        await self._yield_sometimes()
        return self._service.create_subresource(resource, namespace, name, subresource, body)


def _shaped(obj: Object, as_: type[T]) -> T:
    return cast("T", obj) if as_ is dict else msgspec.convert(obj, as_)


async def _shaped_batches(
    batches: AsyncIterator[Sequence[WatchEvent[Object]]], as_: type[T]
) -> AsyncIterator[Sequence[WatchEvent[T]]]:
    async for batch in batches:
        yield [
            WatchEvent(event.type, None if event.object is None else _shaped(event.object, as_), event.resource_version)
            for event in batch
        ]
