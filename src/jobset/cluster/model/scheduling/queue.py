"""Which pod is next, and which of those that wait in vain may hope again. Pure.

Ready pods come by priority and then by arrival. A pod that no node would do for is parked until a change that could
help it: the hints below say for each change which pods that are. They err on the side of trying again.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from jobset.cluster.model.scheduling.node import NodeInfo, no_room, unsuitable
from jobset.cluster.model.scheduling.pod import NodeDemands, PodInfo
from jobset.cluster.model.scheduling.pod_affinity import Namespaces


class SchedulingQueue:
    """Every pod is in it at most once: ready, parked, or stirred (to be ready at the next `release`)."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, str]] = []
        self._ready: dict[str, PodInfo] = {}
        self._parked: dict[str, PodInfo] = {}
        self._by_demands: dict[NodeDemands, dict[str, PodInfo]] = {}
        self._sociable: dict[str, PodInfo] = {}
        """The parked pods that look at other pods or share claims; all others care for nodes alone."""
        self._stirred: dict[str, PodInfo] = {}
        self._arrival: dict[str, int] = {}
        self._arrivals = 0

    def __contains__(self, uid: str) -> bool:
        return uid in self._ready or uid in self._parked or uid in self._stirred

    def __len__(self) -> int:
        """How many are ready."""
        return len(self._ready)

    @property
    def stirred(self) -> int:
        return len(self._stirred)

    def add(self, pod: PodInfo) -> None:
        """The pod is ready to be tried, whatever it was before. It keeps its place by its first arrival."""
        self._unpark(pod.uid)
        self._stirred.pop(pod.uid, None)
        if pod.uid not in self._arrival:
            self._arrivals += 1
            self._arrival[pod.uid] = self._arrivals
        self._ready[pod.uid] = pod
        heapq.heappush(self._heap, (-pod.priority, self._arrival[pod.uid], pod.uid))

    def replace(self, pod: PodInfo) -> None:
        """The pod changed in a way that does not matter to where it can go."""
        for pods in (self._ready, self._stirred):
            if pod.uid in pods:
                pods[pod.uid] = pod
        if pod.uid in self._parked:
            self.park(pod)

    def remove(self, uid: str) -> None:
        """The pod is placed, or gone."""
        self._ready.pop(uid, None)
        self._stirred.pop(uid, None)
        self._arrival.pop(uid, None)
        self._unpark(uid)

    def pop(self) -> PodInfo | None:
        """The next ready pod. It is in the queue no longer: `park` it if it has to wait."""
        while self._heap:
            _, _, uid = heapq.heappop(self._heap)
            pod = self._ready.pop(uid, None)
            if pod is not None:
                return pod
        return None

    def park(self, pod: PodInfo) -> None:
        self._unpark(pod.uid)
        self._parked[pod.uid] = pod
        self._by_demands.setdefault(pod.demands, {})[pod.uid] = pod
        if pod.neighbours or pod.claims:
            self._sociable[pod.uid] = pod

    def release(self) -> None:
        """The stirred pods become ready."""
        for pod in list(self._stirred.values()):
            self.add(pod)

    # ---------------------------------------------------------------- hints

    def node_changed(self, node: NodeInfo) -> None:
        """A node came, or offers something else."""
        for demands in list(self._by_demands):
            if unsuitable(node, demands) is None:
                self._stir(self._by_demands[demands].values())

    def pod_gone(self, pod: PodInfo, node: NodeInfo | None) -> None:
        """A placed pod left: room on its node, and perhaps in its topology domains."""
        if pod.neighbours.affinity.required_apart:
            self._stir(self._parked.values())
            return
        if node is not None:
            for demands in list(self._by_demands):
                if unsuitable(node, demands) is None and no_room(node, demands) is None:
                    self._stir(self._by_demands[demands].values())
        self._stir_if(lambda waiting: bool(waiting.neighbours) or bool(set(waiting.claims) & set(pod.claims)))

    def pod_placed(self, pod: PodInfo, namespaces: Namespaces) -> None:
        """A pod found a node: company for some, and evenness may ask for the next one elsewhere."""
        self._stir_if(
            lambda waiting: (
                any(c.counts(pod.namespace, pod.labels, terminating=False) for c in waiting.neighbours.spread)
                or any(term.selects(pod, namespaces) for term in waiting.neighbours.affinity.required)
            )
        )

    def claim_changed(self, namespace: str, name: str) -> None:
        self._stir_if(lambda waiting: waiting.namespace == namespace and name in waiting.claims)

    def namespace_changed(self) -> None:
        """The labels of a namespace changed."""
        self._stir_if(lambda waiting: bool(waiting.neighbours.affinity))

    def stir(self, uid: str) -> None:
        """This pod may hope again: what failed was a request, not the search for a node."""
        if uid in self._parked:
            self._stir((self._parked[uid],))

    def _stir_if(self, hopeful: Callable[[PodInfo], bool]) -> None:
        if self._sociable:
            self._stir([pod for pod in self._sociable.values() if hopeful(pod)])

    def _stir(self, pods: Iterable[PodInfo]) -> None:
        for pod in list(pods):
            self._unpark(pod.uid)
            self._stirred[pod.uid] = pod

    def _unpark(self, uid: str) -> None:
        pod = self._parked.pop(uid, None)
        if pod is None:
            return
        self._sociable.pop(uid, None)
        kin = self._by_demands[pod.demands]
        del kin[uid]
        if not kin:
            del self._by_demands[pod.demands]
