"""The API service: every verb of a Kubernetes API server on the embedded store, without HTTP.

The verbs are synchronous: when one returns, it happened. Only a watch waits. Objects that come out are the stored
ones, shared with everybody; bodies that go in belong to the service from then on.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime
from typing import Any

from jobset.api import resources
from jobset.api.meta import Object
from jobset.api.resources import Resource
from jobset.client.port import ObjectList, PatchType
from jobset.cluster.apiserver.deletion import Deletion
from jobset.cluster.apiserver.options import DELETE, LIST, WRITE, DeleteOptions, ListOptions, WatchOptions, WriteOptions
from jobset.cluster.apiserver.reading import Reading, Watching
from jobset.cluster.apiserver.registry import Admission, Hook, Registry
from jobset.cluster.apiserver.subresources import Subresources
from jobset.cluster.apiserver.writing import Writing
from jobset.cluster.model.kinds.kind import Kind
from jobset.cluster.model.kinds.registry import KINDS
from jobset.cluster.store.port import Store

DEFAULT_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


class ApiService:
    """`seed` makes uids and generated names repeatable; without one they are random."""

    def __init__(self, store: Store, *, now: Callable[[], datetime], seed: int | None = None) -> None:
        self.store = store
        self.registry = Registry(KINDS.values())
        self._reading = Reading(store, self.registry)
        self._deletion = Deletion(store, self.registry, now)
        self._writing = Writing(store, self.registry, self._deletion, now, random.Random(seed))
        self._subresources = Subresources(store, now)
        for name in DEFAULT_NAMESPACES:
            if store.get("namespaces", "", name) is None:
                self.create(resources.NAMESPACES, "", {"metadata": {"name": name}})

    def register(self, kind: Kind, admission: Admission | None = None) -> None:
        """Serve a custom resource, or replace how a resource is served."""
        self.registry.add(kind, admission)

    def add_admission(self, resource: Resource, hook: Hook) -> None:
        """Call `hook` with every object of this resource that is about to be created, after defaulting."""
        self.registry.of(resource).hooks.append(hook)

    def get(self, resource: Resource, namespace: str, name: str) -> Object:
        return self._reading.get(resource, namespace, name)

    def exists(self, resource: Resource, namespace: str, name: str) -> bool:
        return self.store.get(self.registry.of(resource).storage, namespace, name) is not None

    def list(self, resource: Resource, namespace: str = "", options: ListOptions = LIST) -> ObjectList[Object]:
        return self._reading.list(resource, namespace, options)

    def watch(self, resource: Resource, namespace: str, options: WatchOptions) -> Watching:
        return self._reading.watch(resource, namespace, options)

    def create(self, resource: Resource, namespace: str, body: Object, options: WriteOptions = WRITE) -> Object:
        return self._writing.create(resource, namespace, body, options)

    def update(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: Object,
        subresource: str = "",
        options: WriteOptions = WRITE,
    ) -> Object:
        return self._writing.update(resource, namespace, name, body, subresource, options)

    def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Any,
        patch_type: PatchType = "merge",
        subresource: str = "",
        options: WriteOptions = WRITE,
    ) -> Object:
        return self._writing.patch(resource, namespace, name, patch, patch_type, subresource, options)

    def delete(self, resource: Resource, namespace: str, name: str, options: DeleteOptions = DELETE) -> Object:
        return self._deletion.delete(resource, namespace, name, options)

    def create_subresource(
        self, resource: Resource, namespace: str, name: str, subresource: str, body: Object
    ) -> Object:
        """POST to a subresource: pods/binding, pods/eviction."""
        return self._subresources.create(resource, namespace, name, subresource, body)
