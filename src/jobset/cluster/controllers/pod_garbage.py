"""Removes pods that nobody will end any more: those of nodes that are gone, and those that were never on one.

Kubernetes gives a vanished node 40 seconds to come back before it fails and removes its pods; so do we.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from jobset.api.errors import Conflict, NotFound
from jobset.api.meta import Object, format_time
from jobset.api.resources import NODES, PODS
from jobset.client.port import Client
from jobset.cluster.model.scheduling.pod import is_finished
from jobset.reconcile.informer import Key, SharedInformers, key_of
from jobset.reconcile.worker import Controller, Outcome

QUARANTINE_S = 40.0
BY_NODE = "node"


class PodGarbageCollector:
    def __init__(self, client: Client, informers: SharedInformers, now: Callable[[], datetime]) -> None:
        self._client = client
        self._now = now
        self._informers = informers
        self._pods = informers.get(PODS)
        self._nodes = informers.get(NODES)
        self._pods.add_index(BY_NODE, _node_of)
        self._pods.add_handler(self._pod_changed)
        self._nodes.add_handler(self._node_changed)
        self._controller = Controller("pod-garbage", self._pass, {})

    async def run(self) -> None:
        await self._informers.wait_synced()
        await self._controller.run()

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None and old is not None:
            for pod in self._pods.cache.by_index(BY_NODE, old["metadata"]["name"]):
                self._controller.queue.add_after(key_of(pod), QUARANTINE_S)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            return
        node = new["spec"].get("nodeName")
        if node:
            bound_now = old is None or not old["spec"].get("nodeName")
            if bound_now and self._nodes.cache.get("", node) is None:
                self._controller.queue.add_after(key_of(new), QUARANTINE_S)
        elif "deletionTimestamp" in new["metadata"]:
            self._controller.queue.add(key_of(new))

    async def _pass(self, key: Key) -> Outcome:
        pod = self._pods.cache.get(*key)
        if pod is None:
            return Outcome()
        node = pod["spec"].get("nodeName")
        if node and self._nodes.cache.get("", node) is None:
            await self._remove(pod, lost=True)
        elif not node and "deletionTimestamp" in pod["metadata"]:
            await self._remove(pod, lost=False)
        return Outcome()

    async def _remove(self, pod: Object, *, lost: bool) -> None:
        namespace, name = key_of(pod)
        uid = pod["metadata"]["uid"]
        try:
            if not is_finished(pod):
                patch = {"metadata": {"uid": uid}, "status": _failed(self._now(), lost=lost)}
                await self._client.patch(PODS, namespace, name, patch, patch_type="strategic", subresource="status")
            await self._client.delete(PODS, namespace, name, uid=uid, grace_period_s=0)
        except (NotFound, Conflict):
            return  # gone, or another pod of that name


def _failed(now: datetime, *, lost: bool) -> Object:
    if not lost:
        return {"phase": "Failed"}
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastTransitionTime": format_time(now),
        "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists",
    }
    return {"phase": "Failed", "conditions": [condition]}


def _node_of(pod: Object) -> tuple[str, ...]:
    node = pod["spec"].get("nodeName")
    return (node,) if node else ()
