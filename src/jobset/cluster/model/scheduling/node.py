"""A node as the scheduler sees it: what it offers, what is used of it, and whether it suits a pod by itself. Pure.

`unsuitable` looks at what only a change of the node can mend (labels, taints, cordon), `no_room` at what the pods on it
use up; the distinction tells whether preemption could help.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from jobset.api.meta import Object
from jobset.cluster.model.scheduling.pod import NodeDemands, PodInfo
from jobset.cluster.model.scheduling.pod_affinity import Labels
from jobset.cluster.model.scheduling.ports import HostPort, conflicts
from jobset.cluster.model.scheduling.resources import Amounts, amounts_of, shortages
from jobset.cluster.model.scheduling.taints import CORDON, Taint, forbidding_taint, tolerated

NODE_AFFINITY_WEIGHT = 2.0
TAINT_WEIGHT = 3.0


class Rejection(Struct, frozen=True):
    """Why a node will not do, in Kubernetes' words, and whether removing pods from it could change that."""

    reasons: tuple[str, ...]
    preemptible: bool = False


CORDONED = Rejection(("node(s) were unschedulable",))
WRONG_LABELS = Rejection(("node(s) didn't match Pod's node affinity/selector",))
PORTS_TAKEN = Rejection(("node(s) didn't have free ports for the requested pod ports",), preemptible=True)


class NodeInfo(Struct, eq=False):
    """`exists` is False while only pods name this node. What is used changes with every pod placed or gone."""

    name: str
    exists: bool = False
    labels: Labels = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    cordoned: bool = False
    allocatable: Amounts = field(default_factory=dict)
    used: Amounts = field(default_factory=dict)
    scored_cpu: int = 0
    scored_memory: int = 0
    ports: list[HostPort] = field(default_factory=list)
    pods: dict[str, PodInfo] = field(default_factory=dict)
    nominated: dict[str, PodInfo] = field(default_factory=dict)
    """Pods for which room is being made here."""

    def describe(self, node: Object) -> bool:
        """Take over what a Node object says. Returns whether anything that matters changed."""
        spec, status = node.get("spec") or {}, node.get("status") or {}
        offer = (
            True,
            node["metadata"].get("labels") or {},
            tuple(Taint.of(taint) for taint in spec.get("taints") or ()),
            bool(spec.get("unschedulable")),
            amounts_of(status.get("allocatable") or status.get("capacity")),
        )
        if offer == (self.exists, self.labels, self.taints, self.cordoned, self.allocatable):
            return False
        self.exists, self.labels, self.taints, self.cordoned, self.allocatable = offer
        return True

    def vanish(self) -> None:
        self.exists, self.labels, self.taints, self.cordoned, self.allocatable = False, {}, (), False, {}

    def add(self, pod: PodInfo) -> None:
        self.pods[pod.uid] = pod
        self._use(pod, 1)
        self.ports.extend(pod.demands.ports)

    def remove(self, pod: PodInfo) -> None:
        del self.pods[pod.uid]
        self._use(pod, -1)
        for port in pod.demands.ports:
            self.ports.remove(port)

    def _use(self, pod: PodInfo, sign: int) -> None:
        demands, used = pod.demands, self.used
        for name, amount in demands.requests.items():
            used[name] = used.get(name, 0) + sign * amount
        self.scored_cpu += sign * demands.scored_cpu
        self.scored_memory += sign * demands.scored_memory


def unsuitable(node: NodeInfo, demands: NodeDemands) -> Rejection | None:
    """Why this node does not suit the pod whatever else runs on it."""
    if node.cordoned and not tolerated(CORDON, demands.tolerations):
        return CORDONED
    if node.taints and (taint := forbidding_taint(node.taints, demands.tolerations)) is not None:
        return Rejection((f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}",))
    if not demands.affinity.allows(node.name, node.labels):
        return WRONG_LABELS
    return None


def no_room(
    node: NodeInfo, demands: NodeDemands, *, without: Iterable[PodInfo] = (), beside: Iterable[PodInfo] = ()
) -> Rejection | None:
    """Why the pod does not fit among the pods of this node, if those `without` went and those `beside` came."""
    used, ports, count = node.used, node.ports, len(node.pods)
    if without or beside:
        used, ports = dict(used), list(ports)
        for pod in beside:
            count += 1
            ports.extend(pod.demands.ports)
            _shift(used, pod.demands.requests, 1)
        for pod in without:
            count -= 1
            for port in pod.demands.ports:
                ports.remove(port)
            _shift(used, pod.demands.requests, -1)
    if demands.ports and ports and conflicts(demands.ports, ports):
        return PORTS_TAKEN
    short = shortages(demands.requests, node.allocatable, used)
    full = count >= node.allocatable.get("pods", 0)
    if not short and not full:
        return None
    reasons = (["Too many pods"] if full else []) + [f"Insufficient {name}" for name in short]
    attainable = all(demands.requests[name] <= node.allocatable.get(name, 0) for name in short)
    return Rejection(tuple(reasons), attainable and node.allocatable.get("pods", 0) > 0)


def _shift(used: Amounts, by: Amounts, sign: int) -> None:
    for name, amount in by.items():
        used[name] = used.get(name, 0) + sign * amount


def room_score(node: NodeInfo, demands: NodeDemands) -> float:
    """0 to 100: the share of cpu and memory that is left with the pod on the node, averaged."""
    cpu, memory = node.allocatable.get("cpu", 0), node.allocatable.get("memory", 0)
    free_cpu = 1 - (node.scored_cpu + demands.scored_cpu) / cpu if cpu else 0.0
    free_memory = 1 - (node.scored_memory + demands.scored_memory) / memory if memory else 0.0
    return 50 * (max(free_cpu, 0.0) + max(free_memory, 0.0))
