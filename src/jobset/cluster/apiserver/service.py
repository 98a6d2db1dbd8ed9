"""The API service: every verb of a Kubernetes API server on the embedded store, without HTTP.

The verbs are synchronous: when one returns, it happened. Only a watch waits. Objects that come out are the stored
ones, shared with everybody; bodies that go in belong to the service from then on.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime
from typing import Any

from jobset.api.errors import Forbidden
from jobset.api.meta import Object
from jobset.api.resources import NAMESPACES, PODS, PRIORITY_CLASSES, SERVICES, Resource
from jobset.client.port import PatchType
from jobset.cluster.apiserver.commits import Commits
from jobset.cluster.apiserver.definitions import Definitions
from jobset.cluster.apiserver.deletion import Deletion
from jobset.cluster.apiserver.event_expiry import EventExpiry
from jobset.cluster.apiserver.metadata import refusal
from jobset.cluster.apiserver.options import DELETE, LIST, WRITE, DeleteOptions, ListOptions, WatchOptions, WriteOptions
from jobset.cluster.apiserver.reading import Page, Reading, Watching
from jobset.cluster.apiserver.registry import Admission, Hook, Registry
from jobset.cluster.apiserver.service_ips import ServiceAddresses
from jobset.cluster.apiserver.subresources import Answer, Subresources
from jobset.cluster.apiserver.writing import Writing
from jobset.cluster.model.kinds.kind import Kind
from jobset.cluster.model.kinds.pods import admit_priority
from jobset.cluster.model.kinds.registry import KINDS
from jobset.cluster.store.port import Store

DEFAULT_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class ApiService:
    """`seed` makes uids and generated names repeatable; without one they are random."""

    def __init__(self, store: Store, *, now: Callable[[], datetime], seed: int | None = None) -> None:
        self.store = store
        self.registry = Registry(KINDS.values())
        commits = Commits(store)
        self._reading = Reading(store, self.registry)
        self._deletion = Deletion(store, self.registry, commits, now)
        self._writing = Writing(store, self.registry, commits, now, random.Random(seed))
        self._subresources = Subresources(store, self.registry, commits, self._deletion, now)
        self.registry.of(SERVICES).last_steps.append(ServiceAddresses(store).complete)
        self.registry.of(PODS).hooks.append(self._admit_priority)
        EventExpiry(store, commits, now)
        Definitions(store, self.registry, commits, self._deletion, now)
        self._create_what_every_cluster_has()

    def register(self, kind: Kind, admission: Admission | None = None) -> None:
        """Serve a custom resource, or replace how a resource is served."""
        self.registry.add(kind, admission)

    def custom_resources(self) -> tuple[Resource, ...]:
        """What is served besides Kubernetes' own kinds, such as JobSet."""
        return tuple(served.resource for served in self.registry.all() if served.resource not in KINDS)

    def admit(self, resource: Resource, admission: Admission) -> None:
        """Admit a resource's objects by these rules besides its schema's, now or as soon as it is served."""
        self.registry.admit(resource, admission)

    def add_admission(self, resource: Resource, hook: Hook) -> None:
        """Call `hook` with every object of this resource that is about to be created, after defaulting."""
        self.registry.of(resource).hooks.append(hook)

    def add_subresource(self, resource: Resource, subresource: str, answer: Answer) -> None:
        """Have POSTs to a subresource answered by `answer`: serviceaccounts/token."""
        self._subresources.answers[resource, subresource] = answer

    def exists(self, resource: Resource, namespace: str, name: str) -> bool:
        return self.store.get(self.registry.of(resource).storage, namespace, name) is not None

    def get(self, resource: Resource, namespace: str, name: str) -> Object:
        return self._reading.get(resource, namespace, name)

    def list(self, resource: Resource, namespace: str = "", options: ListOptions = LIST) -> Page:
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
        """The object as it was last, or as it is marked when something still holds it."""
        return self._deletion.delete(resource, namespace, name, options)

    def delete_collection(
        self, resource: Resource, namespace: str, chosen: ListOptions = LIST, options: DeleteOptions = DELETE
    ) -> tuple[Object, ...]:
        """Delete all that the selectors match; gives them as they were."""
        items = tuple(self._reading.list(resource, namespace, chosen).items)
        for item in items:
            metadata = item["metadata"]
            self._deletion.delete(resource, metadata.get("namespace", ""), metadata["name"], options)
        return items

    def get_subresource(self, resource: Resource, namespace: str, name: str, subresource: str) -> Object:
        return self._subresources.get(resource, namespace, name, subresource)

    def create_subresource(
        self, resource: Resource, namespace: str, name: str, subresource: str, body: Object
    ) -> Object:
        """POST to a subresource: pods/binding, pods/eviction, and what was added."""
        return self._subresources.create(resource, namespace, name, subresource, body)

    def _admit_priority(self, pod: Object) -> Object:
        """The priority that the pod's class gives it, or that of the class which is the default of the cluster."""
        name = pod["spec"].get("priorityClassName", "")
        if name:
            found = self.store.get("priorityclasses.scheduling.k8s.io", "", name)
            if found is None:
                pod_name = pod["metadata"].get("name", "")
                why = f"no PriorityClass with name {name} was found"
                raise refusal(Forbidden, PODS, pod_name, f'pods "{pod_name}" is forbidden: {why}')
            return admit_priority(pod, found)
        classes = self.store.list("priorityclasses.scheduling.k8s.io")
        return admit_priority(pod, next((one for one in classes if one.get("globalDefault")), None))

    def _create_what_every_cluster_has(self) -> None:
        for name in DEFAULT_NAMESPACES:
            if not self.exists(NAMESPACES, "", name):
                self.create(NAMESPACES, "", {"metadata": {"name": name}})
        for name, value in SYSTEM_PRIORITIES.items():
            if not self.exists(PRIORITY_CLASSES, "", name):
                self.create(PRIORITY_CLASSES, "", {"metadata": {"name": name}, "value": value})
