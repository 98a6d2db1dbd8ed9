"""Subresources that are requests of their own: binding a pod to a node, evicting it, reading a status or a scale."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeAlias

from jobset.api.errors import ApiError, BadRequest, Conflict
from jobset.api.meta import Object, format_time
from jobset.api.resources import PODS, Resource
from jobset.cluster.apiserver.commits import Commits
from jobset.cluster.apiserver.deletion import Deletion
from jobset.cluster.apiserver.metadata import check_uid, check_version, not_found
from jobset.cluster.apiserver.options import DeleteOptions
from jobset.cluster.apiserver.registry import Registry, unserved
from jobset.cluster.apiserver.scale import scale_of
from jobset.cluster.store.port import Store

CREATED: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


Answer: TypeAlias = Callable[[str, str, Object], Object]
"""(namespace, name, body) -> what a POST to a subresource is answered with."""


class Subresources:
    """`answers` holds what others answer, by resource and subresource."""

    def __init__(
        self, store: Store, registry: Registry, commits: Commits, deletion: Deletion, now: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._registry = registry
        self._commits = commits
        self._deletion = deletion
        self._now = now
        self.answers: dict[tuple[Resource, str], Answer] = {}

    def get(self, resource: Resource, namespace: str, name: str, subresource: str) -> Object:
        served = self._registry.of(resource)
        paths = served.kind.scale if subresource == "scale" else None
        if paths is None and subresource not in served.kind.subresources:
            raise not_found(resource, name) if not served.kind.definition else unserved()
        stored = self._store.get(served.storage, namespace, name)
        if stored is None:
            raise not_found(resource, name)
        return scale_of(paths, stored) if paths is not None else served.outward(stored)

    def create(self, resource: Resource, namespace: str, name: str, subresource: str, body: Object) -> Object:
        if (resource, subresource) in self.answers:
            return self.answers[resource, subresource](namespace, name, body)
        if resource != PODS or subresource not in ("binding", "eviction"):
            raise unserved()
        pod = self._store.get("pods", namespace, name)
        if pod is None:
            raise not_found(PODS, name)
        if subresource == "binding":
            self._commits.put(self._registry.of(PODS), self._bound(pod, body))
        else:
            self._evict(pod, body)
        return CREATED

    def _evict(self, pod: Object, body: Object) -> None:
        """Delete the pod, marked as disrupted so that a Job's failure policy can tell it from a failure."""
        asked = body.get("deleteOptions") or {}
        preconditions = asked.get("preconditions") or {}
        check_uid(PODS, pod, preconditions.get("uid", ""))
        check_version(PODS, pod, preconditions.get("resourceVersion", ""))
        options = DeleteOptions(
            propagation=asked.get("propagationPolicy"),
            grace_period_s=asked.get("gracePeriodSeconds"),
            dry_run=bool(asked.get("dryRun")),
        )
        served = self._registry.of(PODS)
        evicting = {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
        marked = {**pod, "status": self._with_condition(pod, "DisruptionTarget", evicting)}
        self._deletion.mark(served, self._commits.put(served, marked, dry_run=options.dry_run), options)

    def _bound(self, pod: Object, binding: Object) -> Object:
        """The pod on the node that the binding names, with condition PodScheduled. Conflict, BadRequest."""
        name = pod["metadata"]["name"]
        metadata = binding.get("metadata") or {}
        check_uid(PODS, pod, metadata.get("uid", ""))
        check_version(PODS, pod, metadata.get("resourceVersion", ""))
        node = (binding.get("target") or {}).get("name")
        if not node:
            raise BadRequest("target.name: Required value")
        if "deletionTimestamp" in pod["metadata"]:
            raise _refused(name, f"pod {name} is being deleted, cannot be assigned to a host")
        if pod["spec"].get("nodeName"):
            raise _refused(name, f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"')
        if pod["spec"].get("schedulingGates"):
            raise _refused(name, f"pod {name} has non-empty .spec.schedulingGates")
        bound = {
            **pod,
            "spec": {**pod["spec"], "nodeName": node},
            "status": self._with_condition(pod, "PodScheduled", {}),
        }
        for key in ("labels", "annotations"):
            if metadata.get(key):
                merged = {**pod["metadata"].get(key, {}), **metadata[key]}
                bound["metadata"] = {**bound["metadata"], key: merged}
        return bound

    def _with_condition(self, pod: Object, type_: str, why: Object) -> Object:
        """The pod's status with a condition that has become true."""
        now = format_time(self._now())
        condition = {"type": type_, "status": "True", "lastProbeTime": None, "lastTransitionTime": now, **why}
        status = pod.get("status") or {}
        others = [one for one in status.get("conditions") or () if one.get("type") != type_]
        return {**status, "conditions": [*others, condition]}


def _refused(name: str, why: str) -> ApiError:
    text = f'Operation cannot be fulfilled on pods/binding "{name}": {why}'
    return Conflict(text, kind="pods/binding", name=name)
