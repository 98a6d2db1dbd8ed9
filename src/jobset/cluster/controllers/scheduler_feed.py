"""Keeps the scheduler's state and queue in step with the cluster: from informer changes to model calls.

Stands between the informers and the scheduler's pass. Handlers only note changes; the pass applies them before each
decision, so a change that cannot be read fails a pass (which is logged and retried) and not an informer. The caches lag
behind the scheduler's own bindings: a pod it has *assumed* on a node stays there, whatever older news says.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from msgspec.structs import replace

from jobset.api.meta import Object
from jobset.api.resources import NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from jobset.cluster.model.scheduling.affinity import required_terms
from jobset.cluster.model.scheduling.pod import PodInfo, awaits_scheduling, is_finished
from jobset.cluster.model.scheduling.queue import SchedulingQueue
from jobset.cluster.model.scheduling.state import Claim, ClusterState
from jobset.reconcile.informer import SharedInformers

_Apply = Callable[[Object | None, Object | None], None]


class SchedulerFeed:
    """`on_change` is called whenever there is something to apply."""

    def __init__(self, informers: SharedInformers, on_change: Callable[[], None]) -> None:
        self.state = ClusterState()
        self.queue = SchedulingQueue()
        self._assumed: dict[str, str] = {}
        self._changes: deque[tuple[_Apply, Object | None, Object | None]] = deque()
        self._on_change = on_change
        self.pods = informers.get(PODS).cache
        self._claims = informers.get(PERSISTENT_VOLUME_CLAIMS).cache
        self._volumes = informers.get(PERSISTENT_VOLUMES).cache
        for resource, apply in (
            (NODES, self._node),
            (NAMESPACES, self._namespace),
            (PERSISTENT_VOLUMES, self._volume),
            (PERSISTENT_VOLUME_CLAIMS, self._claim),
            (PODS, self._pod),
        ):
            informers.get(resource).add_handler(self._noting(apply))

    def _noting(self, apply: _Apply) -> _Apply:
        def note(old: Object | None, new: Object | None) -> None:
            self._changes.append((apply, old, new))
            self._on_change()

        return note

    def apply_changes(self) -> None:
        while self._changes:
            apply, old, new = self._changes.popleft()
            apply(old, new)

    def assume(self, pod: PodInfo, node: str) -> None:
        """We decided: the pod counts on this node from now on."""
        self._assumed[pod.uid] = node
        self.queue.remove(pod.uid)
        self.state.place(pod, node)
        self.queue.pod_placed(pod, self.state.namespaces)

    def unassume(self, pod: PodInfo) -> None:
        """The binding was refused. The pod waits again if it is still there and unbound."""
        if self._assumed.pop(pod.uid, None) is None:
            return
        self._left(pod.uid)
        current = self.pods.get(pod.namespace, pod.name)
        if current is not None and current["metadata"]["uid"] == pod.uid and awaits_scheduling(current):
            self.queue.park(PodInfo.of(current))
            self.queue.stir(pod.uid)

    # ---------------------------------------------------------------- pods

    def _pod(self, old: Object | None, new: Object | None) -> None:
        if old is not None and (new is None or new["metadata"]["uid"] != old["metadata"]["uid"]):
            self._pod_gone(old["metadata"]["uid"])
            old = None
        if new is None:
            return
        uid = new["metadata"]["uid"]
        if is_finished(new):
            self._pod_gone(uid)
        elif new["spec"].get("nodeName"):
            self._pod_bound(old, new)
        elif uid in self._assumed:
            return
        elif not awaits_scheduling(new) or new["spec"].get("schedulingGates"):
            self.queue.remove(uid)
        else:
            self._pod_waits(old, new)

    def _pod_gone(self, uid: str) -> None:
        self.queue.remove(uid)
        self._assumed.pop(uid, None)
        self.state.nominate_nowhere(uid)
        self._left(uid)

    def _left(self, uid: str) -> None:
        pod = self.state.remove(uid)
        if pod is not None:
            self.queue.pod_gone(pod, self.state.nodes.get(pod.node))

    def _pod_bound(self, old: Object | None, new: Object) -> None:
        uid, node = new["metadata"]["uid"], new["spec"]["nodeName"]
        known = self.state.pods.get(uid)
        self.queue.remove(uid)
        self._assumed.pop(uid, None)
        if known is not None and known.node == node and old is not None and not _matters(old, new):
            return
        pod = PodInfo.of(new)
        if known is not None and known.terminating:
            pod = replace(pod, terminating=True)
        self.state.place(pod, node)
        if known is None or known.labels != pod.labels:
            self.queue.pod_placed(pod, self.state.namespaces)
        if known is not None and known.labels != pod.labels:
            self.queue.pod_gone(known, self.state.nodes.get(node))

    def _pod_waits(self, old: Object | None, new: Object) -> None:
        pod = PodInfo.of(new)
        if pod.uid in self.queue and old is not None and not _matters(old, new):
            self.queue.replace(pod)
            return
        if pod.nominated and not self.state.nomination(pod.uid):
            self.state.nominate(pod, pod.nominated)
        self.queue.add(pod)

    # ---------------------------------------------------------------- everything else

    def _node(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            self.state.remove_node(_name_of(old))
            return
        if self.state.set_node(new):
            self.queue.node_changed(self.state.nodes[new["metadata"]["name"]])

    def _namespace(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            self.state.namespaces.pop(_name_of(old), None)
            return
        labels = new["metadata"].get("labels") or {}
        if self.state.namespaces.get(new["metadata"]["name"]) != labels:
            self.state.namespaces[new["metadata"]["name"]] = labels
            self.queue.namespace_changed()

    def _claim(self, old: Object | None, new: Object | None) -> None:
        metadata = (new or old or {})["metadata"]
        key = metadata["namespace"], metadata["name"]
        if new is None:
            self.state.claims.pop(key, None)
            return
        volume = self._volumes.get("", new["spec"].get("volumeName") or "")
        claim = _claim_of(new, volume)
        if self.state.claims.get(key) != claim:
            self.state.claims[key] = claim
            self.queue.claim_changed(*key)

    def _volume(self, _: Object | None, new: Object | None) -> None:
        reference = ((new or {}).get("spec") or {}).get("claimRef")
        claim = self._claims.get(reference.get("namespace", ""), reference.get("name", "")) if reference else None
        if claim is not None:
            self._claim(claim, claim)


def _name_of(obj: Object | None) -> str:
    return str(obj["metadata"]["name"]) if obj is not None else ""


def _matters(old: Object, new: Object) -> bool:
    """Whether two versions of a pod differ in what the scheduler looks at; most updates are of the status only."""
    before, after = old["metadata"], new["metadata"]
    return (
        (old["spec"] is not new["spec"] and old["spec"] != new["spec"])
        or (before.get("labels") or {}) != (after.get("labels") or {})
        or ("deletionTimestamp" in before) != ("deletionTimestamp" in after)
    )


def _claim_of(claim: Object, volume: Object | None) -> Claim:
    spec = claim["spec"]
    affinity = ((volume or {}).get("spec") or {}).get("nodeAffinity") or {}
    required = affinity.get("required")
    return Claim(
        bound=(claim.get("status") or {}).get("phase") == "Bound",
        terminating="deletionTimestamp" in claim["metadata"],
        one_pod="ReadWriteOncePod" in (spec.get("accessModes") or ()),
        reachable_from=None if required is None else required_terms(required),
    )
