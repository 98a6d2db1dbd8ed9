"""Subresources that are requests of their own: binding a pod to a node, evicting it, finishing a namespace."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from jobset.api.errors import BadRequest, NotFound
from jobset.api.meta import Object, format_time
from jobset.api.resources import PODS, Resource
from jobset.cluster.apiserver.metadata import check_preconditions, conflict, not_found
from jobset.cluster.store.port import Store

SUCCESS: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


class Subresources:
    def __init__(self, store: Store, now: Callable[[], datetime]) -> None:
        self._store = store
        self._now = now

    def create(self, resource: Resource, namespace: str, name: str, subresource: str, body: Object) -> Object:
        if (resource, subresource) == (PODS, "binding"):
            return self._bind(namespace, name, body)
        raise NotFound("the server could not find the requested resource")

    def _bind(self, namespace: str, name: str, body: Object) -> Object:
        pod = self._store.get("pods", namespace, name)
        if pod is None:
            raise not_found(PODS, name)
        metadata = body.get("metadata") or {}
        check_preconditions(PODS, pod, metadata.get("uid", ""), metadata.get("resourceVersion", ""))
        node = (body.get("target") or {}).get("name")
        if not node:
            raise BadRequest("target.name: Required value")
        if "deletionTimestamp" in pod["metadata"]:
            raise conflict(PODS, name, f"pod {name} is being deleted, cannot be assigned to a host")
        if pod["spec"].get("nodeName"):
            raise conflict(PODS, name, f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"')
        self._store.put("pods", self._bound(pod, node, metadata))
        return SUCCESS

    def _bound(self, pod: Object, node: str, metadata: dict[str, Any]) -> Object:
        scheduled = {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": format_time(self._now()),
        }
        status = pod.get("status") or {}
        others = [c for c in status.get("conditions") or () if c.get("type") != "PodScheduled"]
        bound = {
            **pod,
            "spec": {**pod["spec"], "nodeName": node},
            "status": {**status, "conditions": [*others, scheduled]},
        }
        if metadata.get("annotations"):
            annotations = {**pod["metadata"].get("annotations", {}), **metadata["annotations"]}
            bound["metadata"] = {**pod["metadata"], "annotations": annotations}
        return bound
