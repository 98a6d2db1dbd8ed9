"""The garbage collector: watches every resource, indexes dependents by their owners' UIDs, and carries out the plans.

Each resource has a queue of its own; a change of one object wakes at most its dependents and its owners. What is to be
done is decided in model/garbage.py. Definitions of custom resources are watched too: their objects are collected from
when they are served.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import cast

from jobset.api import resources as known
from jobset.api.errors import NotFound
from jobset.api.meta import Object
from jobset.api.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from jobset.client.port import Client
from jobset.cluster.model.definitions import resource_of
from jobset.cluster.model.garbage import (
    Located,
    Owner,
    holds_for_dependents,
    is_going,
    owner_state,
    owner_uids,
    plan_dependent,
    plan_owner,
)
from jobset.core.actions import Plan
from jobset.reconcile.apply import Applier
from jobset.reconcile.events import EventRecorder
from jobset.reconcile.informer import Cache, Informer, Key, SharedInformers, key_of
from jobset.reconcile.worker import Controller, Outcome

COLLECTED: tuple[Resource, ...] = (
    known.NAMESPACES,
    known.NODES,
    known.PODS,
    known.SERVICES,
    known.ENDPOINTS,
    known.ENDPOINT_SLICES,
    known.CONFIG_MAPS,
    known.SECRETS,
    known.SERVICE_ACCOUNTS,
    known.PERSISTENT_VOLUMES,
    known.PERSISTENT_VOLUME_CLAIMS,
    known.LEASES,
    known.JOBS,
    known.PRIORITY_CLASSES,
    known.ROLES,
    known.ROLE_BINDINGS,
    known.CLUSTER_ROLES,
    known.CLUSTER_ROLE_BINDINGS,
    known.CUSTOM_RESOURCE_DEFINITIONS,
)
"""Everything but events."""
BY_OWNER = "owner-uid"


class GarbageCollector:
    def __init__(self, client: Client, informers: SharedInformers, now: Callable[[], datetime]) -> None:
        self._client = client
        self._informers = informers
        self._recorder = EventRecorder(client, "garbage-collector-controller", now)
        self._caches: dict[Resource, Cache[Object]] = {}
        self._controllers: dict[Resource, Controller] = {}
        self._resources: dict[tuple[str, str], Resource] = {}
        for resource in COLLECTED:
            self._follow(resource, informers.get(resource))
        self._served_changes: asyncio.Queue[tuple[Resource, bool]] = asyncio.Queue()
        informers.get(CUSTOM_RESOURCE_DEFINITIONS).add_handler(self._definition_changed)

    async def run(self) -> None:
        await self._informers.wait_synced()
        self._look_at_all()
        async with asyncio.TaskGroup() as group:
            for controller in self._controllers.values():
                group.create_task(controller.run(), name=controller.name)
            custom: dict[Resource, asyncio.Task[None]] = {}
            while True:
                resource, served = await self._served_changes.get()
                if served and resource not in self._caches:
                    custom[resource] = group.create_task(self._collect_custom(resource), name=f"collect {resource}")
                elif not served and resource in custom:
                    custom.pop(resource).cancel()

    # What is watched.

    def _follow(self, resource: Resource, informer: Informer[Object]) -> Controller:
        informer.add_index(BY_OWNER, owner_uids)
        informer.add_handler(partial(self._changed, resource))
        self._caches[resource] = informer.cache
        self._resources[(resource.api_version, resource.kind)] = resource
        controller = Controller(f"garbage {resource}", partial(self._pass, resource), {resource: informer.cache})
        self._controllers[resource] = controller
        return controller

    async def _collect_custom(self, resource: Resource) -> None:
        informer = Informer(self._client, resource, cast("type[Object]", dict))
        controller = self._follow(resource, informer)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(informer.run())
                group.create_task(controller.run())
        finally:
            del self._caches[resource], self._controllers[resource]
            del self._resources[(resource.api_version, resource.kind)]

    def _definition_changed(self, old: Object | None, new: Object | None) -> None:
        before = resource_of(old) if old is not None else None
        after = resource_of(new) if new is not None else None
        if before is not None and before != after:
            self._served_changes.put_nowait((before, False))
        if after is not None and after != before:
            self._served_changes.put_nowait((after, True))

    def _look_at_all(self) -> None:
        """Once everything is listed: owners that went while nobody watched."""
        for resource, cache in self._caches.items():
            for obj in cache.all():
                if self._concerns_us(obj):
                    self._controllers[resource].queue.add(key_of(obj))

    def _changed(self, resource: Resource, old: Object | None, new: Object | None) -> None:
        if new is not None and self._concerns_us(new):
            self._controllers[resource].queue.add(key_of(new))
        if old is None:
            return
        replaced = new is None or new["metadata"]["uid"] != old["metadata"]["uid"]
        owners = old["metadata"].get("ownerReferences") or ()
        if replaced:
            self._wake_dependents(old)
        if replaced or (new is not None and new["metadata"].get("ownerReferences") is not owners):
            for owner in owners:
                self._wake_waiting_owner(owner, old)

    def _concerns_us(self, obj: Object) -> bool:
        if holds_for_dependents(obj):
            return True
        owners = obj["metadata"].get("ownerReferences")
        if not owners or is_going(obj):
            return False
        return any(owner_state(self._cached(owner, obj), owner["uid"]) != "alive" for owner in owners)

    def _wake_dependents(self, owner: Object) -> None:
        for resource, dependent in self._dependents(owner["metadata"]["uid"]):
            self._controllers[resource].queue.add(key_of(dependent))

    def _wake_waiting_owner(self, reference: Object, dependent: Object) -> None:
        owner = self._cached(reference, dependent)
        if owner is not None and holds_for_dependents(owner):
            resource = self._resources[(reference["apiVersion"], reference["kind"])]
            self._controllers[resource].queue.add(key_of(owner))

    # One pass.

    async def _pass(self, resource: Resource, key: Key) -> Outcome:
        obj = self._caches[resource].get(*key)
        if obj is None:
            return Outcome()
        plan = await self._planned(resource, obj)
        if not plan.actions:
            return Outcome()
        applier = Applier(self._client, resource, self._recorder)
        return Outcome(await applier.apply(obj, plan))

    async def _planned(self, resource: Resource, obj: Object) -> Plan:
        dependents = self._dependents(obj["metadata"]["uid"])
        if holds_for_dependents(obj):
            for found, dependent in dependents:
                if not is_going(dependent):
                    self._controllers[found].queue.add(key_of(dependent))
            return plan_owner(resource, obj, dependents)
        if is_going(obj):
            return Plan()
        owners = [await self._owner(reference, obj) for reference in obj["metadata"].get("ownerReferences") or ()]
        return plan_dependent(resource, obj, owners, has_dependents=bool(dependents))

    async def _owner(self, reference: Object, dependent: Object) -> Owner:
        """The state of an owner; one that the caches do not show is asked for, as they may be behind."""
        uid = reference["uid"]
        resource = self._resources.get((reference["apiVersion"], reference["kind"]))
        if resource is None:
            return Owner(uid, "alive")  # of a kind we do not know: not ours to judge
        owner = self._cached(reference, dependent)
        if owner is None or owner["metadata"]["uid"] != uid:
            owner = await self._asked(resource, reference, dependent)
        return Owner(uid, owner_state(owner, uid))

    async def _asked(self, resource: Resource, reference: Object, dependent: Object) -> Object | None:
        namespace = dependent["metadata"].get("namespace", "") if resource.namespaced else ""
        try:
            return await self._client.get(resource, namespace, reference["name"], cast("type[Object]", dict))
        except NotFound:
            return None

    def _cached(self, reference: Object, dependent: Object) -> Object | None:
        resource = self._resources.get((reference.get("apiVersion", ""), reference.get("kind", "")))
        if resource is None:
            return None
        namespace = dependent["metadata"].get("namespace", "") if resource.namespaced else ""
        return self._caches[resource].get(namespace, reference["name"])

    def _dependents(self, uid: str) -> list[Located]:
        return [
            (resource, dependent)
            for resource, cache in self._caches.items()
            for dependent in cache.by_index(BY_OWNER, uid)
        ]
