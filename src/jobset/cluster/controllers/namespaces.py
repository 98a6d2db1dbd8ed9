"""Namespaces: an account named `default` in each, and the emptying of those that are being deleted.

A namespace that is being deleted keeps its finalizer in `spec.finalizers` until nothing is left in it; what is left is
asked for from the API, not from caches, so that nothing is overlooked.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import cast

from jobset.api import resources as known
from jobset.api.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound
from jobset.api.meta import Object
from jobset.api.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, SERVICE_ACCOUNTS, Resource
from jobset.client.port import Client
from jobset.cluster.model.definitions import resource_of
from jobset.cluster.model.garbage import is_going
from jobset.reconcile.apply import PassFailed
from jobset.reconcile.informer import Key, SharedInformers, key_of
from jobset.reconcile.worker import Controller, Outcome

EMPTIED: tuple[Resource, ...] = (
    known.JOBS,
    known.PODS,
    known.SERVICES,
    known.ENDPOINTS,
    known.ENDPOINT_SLICES,
    known.CONFIG_MAPS,
    known.SECRETS,
    known.SERVICE_ACCOUNTS,
    known.PERSISTENT_VOLUME_CLAIMS,
    known.LEASES,
    known.ROLES,
    known.ROLE_BINDINGS,
    known.CORE_EVENTS,
)
LOOK_AGAIN_S = 0.5
"""Between two looks at a namespace in which something still has to end."""


class NamespaceController:
    def __init__(self, client: Client, informers: SharedInformers, now: Callable[[], datetime]) -> None:
        self._client = client
        self._informers = informers
        self._definitions = informers.get(CUSTOM_RESOURCE_DEFINITIONS).cache
        namespaces, accounts = informers.get(NAMESPACES), informers.get(SERVICE_ACCOUNTS)
        self._namespaces, self._accounts = namespaces.cache, accounts.cache
        namespaces.add_handler(self._namespace_changed)
        accounts.add_handler(self._account_changed)
        self._controller = Controller("namespaces", self._pass, {NAMESPACES: namespaces.cache})

    async def run(self) -> None:
        await self._informers.wait_synced()
        await self._controller.run()

    def _namespace_changed(self, _old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._controller.queue.add(key_of(new))

    def _account_changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and new is None:
            self._controller.queue.add(("", old["metadata"]["namespace"]))

    async def _pass(self, key: Key) -> Outcome:
        namespace = self._namespaces.get(*key)
        if namespace is None:
            return Outcome()
        name = namespace["metadata"]["name"]
        if not is_going(namespace):
            await self._ensure_account(name)
            return Outcome()
        if await self._empty(name):
            return Outcome(requeue_after_s=LOOK_AGAIN_S)
        await self._finish(namespace)
        return Outcome()

    async def _ensure_account(self, namespace: str) -> None:
        if self._accounts.get(namespace, "default") is not None:
            return
        with suppress(AlreadyExists, NotFound, Forbidden):  # there already, or the namespace is going
            await self._client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": namespace}})

    async def _empty(self, namespace: str) -> bool:
        """Delete what is in the namespace; whether anything is left."""
        left = False
        errors: list[ApiError] = []
        definitions = [resource_of(definition) for definition in self._definitions.all()]
        custom = [resource for resource in definitions if resource is not None and resource.namespaced]
        for resource in dict.fromkeys((*custom, *EMPTIED)):
            try:
                left = await self._delete_all(resource, namespace) or left
            except ApiError as error:
                errors.append(error)
        if errors:
            raise PassFailed(errors)
        return left

    async def _delete_all(self, resource: Resource, namespace: str) -> bool:
        try:
            found = await self._client.list(resource, cast("type[Object]", dict), namespace=namespace)
        except NotFound:
            return False  # a custom resource that is served no more
        left = False
        for obj in found.items:
            metadata = obj["metadata"]
            if is_going(obj):
                left = True
                continue
            try:
                deleted = await self._client.delete(
                    resource, namespace, metadata["name"], uid=metadata["uid"], propagation="Background"
                )
            except (NotFound, Conflict):
                continue
            held = deleted["metadata"]
            left = left or bool(held.get("finalizers")) or bool(held.get("deletionGracePeriodSeconds"))
        return left

    async def _finish(self, namespace: Object) -> None:
        kept = [name for name in namespace["spec"].get("finalizers") or () if name != "kubernetes"]
        body = {**namespace, "spec": {**namespace["spec"], "finalizers": kept}}
        with suppress(NotFound):
            await self._client.update(NAMESPACES, body, subresource="finalize")
