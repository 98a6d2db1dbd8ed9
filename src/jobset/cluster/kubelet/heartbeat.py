"""Tells the API that our nodes live: their conditions once, and a Lease renewed now and then.

The kubelet's second, smaller half. Nodes are made by others; one that appears and is served here becomes Ready. Nobody
here evicts pods of silent nodes, so a Lease is renewed rarely: there may be thousands of virtual nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from jobset.api.errors import ApiError, NotFound
from jobset.api.meta import Object, condition_of, format_micro_time, format_time
from jobset.api.resources import LEASES, NODES
from jobset.client.port import Client
from jobset.reconcile.apply import PassFailed
from jobset.reconcile.informer import Key, SharedInformers, key_of
from jobset.reconcile.worker import Controller, Outcome

LEASE_NAMESPACE = "kube-node-lease"
RENEW_S = 300.0
CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


class Heartbeat:
    """For the nodes that `serves` names. Composed before the informers run."""

    def __init__(
        self,
        client: Client,
        informers: SharedInformers,
        now: Callable[[], datetime],
        serves: Callable[[str], bool],
        *,
        renew_s: float = RENEW_S,
    ) -> None:
        self._client = client
        self._now = now
        self._serves = serves
        self._renew_s = renew_s
        nodes = informers.get(NODES)
        self._nodes = nodes.cache
        nodes.add_handler(self._node_changed)
        self._controller = Controller("heartbeat", self._pass, {})

    async def run(self) -> None:
        await self._controller.run()

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None and self._serves(new["metadata"]["name"]) and (old is None or not _is_ready(new)):
            self._controller.queue.add(key_of(new))

    async def _pass(self, key: Key) -> Outcome:
        node = self._nodes.get(*key)
        if node is None:
            return Outcome()
        try:
            if not _is_ready(node):
                await self._make_ready(node)
            await self._renew(node)
        except ApiError as error:
            raise PassFailed([error]) from error
        return Outcome(requeue_after_s=self._renew_s)

    async def _make_ready(self, node: Object) -> None:
        now = format_time(self._now())
        ours = [
            {
                "type": type_,
                "status": status,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": now,
                "lastTransitionTime": now,
            }
            for type_, status, reason, message in CONDITIONS
        ]
        known = {condition["type"] for condition in ours}
        present = (node.get("status") or {}).get("conditions") or ()
        others = [condition for condition in present if condition["type"] not in known]
        patch = {
            "metadata": {"resourceVersion": node["metadata"]["resourceVersion"]},
            "status": {"conditions": [*others, *ours]},
        }
        await self._client.patch(NODES, "", node["metadata"]["name"], patch, subresource="status")

    async def _renew(self, node: Object) -> None:
        name, now = node["metadata"]["name"], format_micro_time(self._now())
        try:
            await self._client.patch(LEASES, LEASE_NAMESPACE, name, {"spec": {"renewTime": now}})
        except NotFound:
            await self._client.create(LEASES, self._lease(node, now))

    def _lease(self, node: Object, now: str) -> Object:
        name, uid = node["metadata"]["name"], node["metadata"]["uid"]
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {
                "name": name,
                "namespace": LEASE_NAMESPACE,
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}],
            },
            "spec": {
                "holderIdentity": name,
                "leaseDurationSeconds": int(4 * self._renew_s),
                "acquireTime": now,
                "renewTime": now,
            },
        }


def _is_ready(node: Object) -> bool:
    condition = condition_of(node, "Ready")
    return condition is not None and condition.get("status") == "True"
