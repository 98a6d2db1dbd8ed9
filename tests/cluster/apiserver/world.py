"""An API service with a watchful store, and bodies to send it."""

from __future__ import annotations

from typing import Any

from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.client import InProcessClient
from jobset.cluster.store.memory import MemoryStore
from jobset.sim.loop import START, wall_clock


def new_service(*, seed: int = 1) -> ApiService:
    """For tests without an event loop: time stands still."""
    return ApiService(MemoryStore(paranoid=True), now=lambda: START, seed=seed)


def new_client() -> InProcessClient:
    """For tests on virtual time."""
    return InProcessClient(ApiService(MemoryStore(paranoid=True), now=wall_clock(), seed=1))


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "busybox:1"}]}
    return {"metadata": {"name": name, "namespace": "default", **metadata}, "spec": spec}


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", **metadata}, **({"data": data} if data else {})}


def owned_by(owner: dict[str, Any], **more: Any) -> dict[str, Any]:
    reference = {key: owner[key] for key in ("apiVersion", "kind")}
    metadata = owner["metadata"]
    return {"ownerReferences": [{**reference, "name": metadata["name"], "uid": metadata["uid"], **more}]}


def definition(group: str = "example.com", **version: Any) -> dict[str, Any]:
    """A CustomResourceDefinition of Widgets with a spec.size that is 3 unless said."""
    size = {"type": "integer", "default": 3, "maximum": 9}
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "default": {}, "properties": {"size": size}},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    v1 = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **version}
    names = {"plural": "widgets", "kind": "Widget"}
    return {
        "metadata": {"name": f"widgets.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [v1]},
    }
