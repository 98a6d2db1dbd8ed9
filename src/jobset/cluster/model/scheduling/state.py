"""The cluster as the scheduler believes it to be, kept up change by change. Pure: fed from outside, reads no clock.

Fed with nodes, placed pods (bound or assumed: a pod counts from the moment it was decided), namespaces and claims;
answers what a decision asks: rankings of nodes, pods of a topology domain, counts of a spread constraint. It decides
nothing itself (see cycle.py).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from jobset.api.meta import Object
from jobset.cluster.model.scheduling.affinity import NodeSelectorTerm
from jobset.cluster.model.scheduling.node import NodeInfo, unsuitable
from jobset.cluster.model.scheduling.pod import NodeDemands, PodInfo
from jobset.cluster.model.scheduling.pod_affinity import IndexedSelector, Labels, PodIndex, TermIndex
from jobset.cluster.model.scheduling.ranking import Ranking
from jobset.cluster.model.scheduling.spread import SpreadConstraint, SpreadCount
from jobset.cluster.model.scheduling.taints import forbidding_taint

MAX_RANKINGS = 128
MAX_SPREAD_COUNTS = 64


class Claim(Struct, frozen=True):
    """A PersistentVolumeClaim. `reachable_from` are the nodes its volume asks for; None for any."""

    bound: bool
    terminating: bool = False
    one_pod: bool = False
    reachable_from: tuple[NodeSelectorTerm, ...] | None = None


class ClusterState:
    """See the module. Every method leaves it consistent; nothing else may change what it hands out."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        """By name; those that only pods name are here too, with `exists` False."""
        self.node_count = 0
        self.pods: dict[str, PodInfo] = {}
        """Placed pods by UID; `node` names where."""
        self.namespaces: dict[str, Labels] = {}
        self.claims: dict[tuple[str, str], Claim] = {}
        self.claim_users: dict[tuple[str, str], set[str]] = {}
        self.apart_terms = TermIndex()
        """Required anti-affinity of placed pods: it binds those who come later, too."""
        self.liked_terms = TermIndex()
        """Preferred affinity and anti-affinity of placed pods."""
        self.priorities: Counter[int] = Counter()
        self._nominations: dict[str, str] = {}
        self._pod_index = PodIndex()
        self._rankings: OrderedDict[NodeDemands, Ranking] = OrderedDict()
        self._spread: OrderedDict[tuple[SpreadConstraint, NodeDemands], SpreadCount] = OrderedDict()
        self._unsuitable: dict[NodeDemands, Counter[tuple[str, ...]]] = {}
        self._by_label: dict[str, dict[str, list[str]]] = {}
        self._changes: dict[str, int] = {}
        self._change = 0

    # ---------------------------------------------------------------- feeding

    def set_node(self, node: Object) -> bool:
        """A node came or changed. Returns whether that can matter to any pod."""
        name = node["metadata"]["name"]
        info = self.nodes.setdefault(name, NodeInfo(name))
        before, existed = info.labels, info.exists
        if not info.describe(node):
            return False
        self.node_count += not existed
        self._forget_derived()
        self._relabel(info, before)
        return True

    def remove_node(self, name: str) -> None:
        info = self.nodes.get(name)
        if info is None or not info.exists:
            return
        self.node_count -= 1
        before = info.labels
        info.vanish()
        self._forget_derived()
        self._relabel(info, before)
        for uid in list(info.nominated):
            self.nominate_nowhere(uid)
        if not info.pods:
            del self.nodes[name]

    def place(self, pod: PodInfo, node: str) -> None:
        """The pod is on this node, bound or assumed. Replaces what was known of it."""
        self.remove(pod.uid)
        self.nominate_nowhere(pod.uid)
        pod = pod if pod.node == node else replace(pod, node=node)
        info = self.nodes.setdefault(node, NodeInfo(node))
        info.add(pod)
        self.pods[pod.uid] = pod
        self.priorities[pod.priority] += 1
        for claim in pod.claims:
            self.claim_users.setdefault((pod.namespace, claim), set()).add(pod.uid)
        self._index(pod, info.labels)
        self._touched(node)

    def remove(self, uid: str) -> PodInfo | None:
        """The pod is gone or finished."""
        pod = self.pods.pop(uid, None)
        if pod is None:
            return None
        info = self.nodes[pod.node]
        self._unindex(pod, info.labels)
        info.remove(pod)
        self.priorities[pod.priority] -= 1
        if not self.priorities[pod.priority]:
            del self.priorities[pod.priority]
        for claim in pod.claims:
            users = self.claim_users[pod.namespace, claim]
            users.discard(uid)
            if not users:
                del self.claim_users[pod.namespace, claim]
        if not info.exists and not info.pods:
            del self.nodes[pod.node]
        self._touched(pod.node)
        return pod

    def mark_terminating(self, uid: str) -> None:
        """The pod was asked to go; what it uses is free only once it is gone."""
        pod = self.pods.get(uid)
        if pod is not None and not pod.terminating:
            self.place(replace(pod, terminating=True), pod.node)

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Room is being made for the pod on this node, and on no other."""
        self.nominate_nowhere(pod.uid)
        if node in self.nodes and self.nodes[node].exists:
            self._nominations[pod.uid] = node
            self.nodes[node].nominated[pod.uid] = pod

    def nominate_nowhere(self, uid: str) -> None:
        before = self._nominations.pop(uid, None)
        if before is not None:
            del self.nodes[before].nominated[uid]

    def nomination(self, uid: str) -> str:
        return self._nominations.get(uid, "")

    # ---------------------------------------------------------------- asking

    def ranking(self, demands: NodeDemands) -> Ranking:
        """The current ranking of nodes for pods with these demands."""
        ranking = self._rankings.get(demands)
        if ranking is None:
            ranking = self._rankings[demands] = Ranking(demands, self._candidates(demands), seen=self._change)
            if len(self._rankings) > MAX_RANKINGS:
                self._rankings.popitem(last=False)
            return ranking
        self._rankings.move_to_end(demands)
        if ranking.seen != self._change:
            ranking.refresh(self._changed_since(ranking.seen), seen=self._change)
        return ranking

    def matching(self, topology_key: str, domain: str | None, selector: IndexedSelector) -> Iterator[PodInfo]:
        """Placed pods with matching labels in a topology domain (None: in any domain of this key)."""
        if not self._pod_index.knows(topology_key, selector.label):
            placed = ((pod, self.nodes[pod.node].labels) for pod in self.pods.values())
            self._pod_index.learn(topology_key, selector.label, placed)
        for found in self._pod_index.matching(topology_key, domain, selector):
            yield self.pods[found.uid]

    def spread_count(self, constraint: SpreadConstraint, pod: PodInfo, keys: Iterable[str]) -> SpreadCount:
        """Matching pods per domain, over the nodes that have all `keys` and that the constraint's policies admit."""
        identity = (constraint, pod.demands)
        count = self._spread.get(identity)
        if count is not None:
            self._spread.move_to_end(identity)
            return count
        eligible = frozenset(n.name for n in self._existing() if _counts(n, constraint, pod.demands, keys))
        count = self._spread[identity] = SpreadCount(constraint, eligible.__contains__)
        for name in eligible:
            count.change(name, self.nodes[name].labels, 0)
        for other in self.pods.values():
            if constraint.counts(other.namespace, other.labels, terminating=other.terminating):
                count.change(other.node, self.nodes[other.node].labels, 1)
        if len(self._spread) > MAX_SPREAD_COUNTS:
            self._spread.popitem(last=False)
        return count

    def unsuitable_nodes(self, demands: NodeDemands) -> Counter[tuple[str, ...]]:
        """How many nodes do not suit, by reasons. Looks at every node: only to explain why a pod waits."""
        found = self._unsuitable.get(demands)
        if found is not None:
            return found
        found = self._unsuitable[demands] = Counter()
        if len(self._unsuitable) > MAX_RANKINGS:
            del self._unsuitable[next(iter(self._unsuitable))]
        for info in self._existing():
            if (rejection := unsuitable(info, demands)) is not None:
                found[rejection.reasons] += 1
        return found

    # ---------------------------------------------------------------- derived data

    def _existing(self) -> Iterator[NodeInfo]:
        return (info for info in self.nodes.values() if info.exists)

    def _candidates(self, demands: NodeDemands) -> Iterable[NodeInfo]:
        """The nodes worth looking at: those with the rarest label of the node selector."""
        if not demands.affinity.selector:
            return self._existing()
        rarest = min((self._with_label(key).get(value, []) for key, value in demands.affinity.selector), key=len)
        return [self.nodes[name] for name in rarest]

    def nodes_in(self, topology_key: str, domain: str) -> list[str]:
        """The names of the nodes of a topology domain."""
        return self._with_label(topology_key).get(domain, [])

    def _with_label(self, key: str) -> dict[str, list[str]]:
        names = self._by_label.get(key)
        if names is None:
            names = self._by_label[key] = {}
            for info in self._existing():
                if key in info.labels:
                    names.setdefault(info.labels[key], []).append(info.name)
        return names

    def _changed_since(self, seen: int) -> list[str]:
        names = []
        for name, change in reversed(self._changes.items()):
            if change <= seen:
                break
            names.append(name)
        return names

    def _touched(self, node: str) -> None:
        self._change += 1
        self._changes.pop(node, None)
        self._changes[node] = self._change

    def _forget_derived(self) -> None:
        self._rankings.clear()
        self._spread.clear()
        self._unsuitable.clear()
        self._by_label.clear()
        self._changes.clear()

    def _relabel(self, info: NodeInfo, before: Labels) -> None:
        if info.labels == before:
            return
        for pod in info.pods.values():
            self._unindex(pod, before)
            self._index(pod, info.labels)

    def _index(self, pod: PodInfo, node_labels: Labels) -> None:
        self._pod_index.add(pod, node_labels)
        self.apart_terms.add(pod.neighbours.affinity.required_apart, pod.uid, node_labels)
        self.liked_terms.add(pod.neighbours.affinity.preferred, pod.uid, node_labels)
        self._count_spread(pod, node_labels, 1)

    def _unindex(self, pod: PodInfo, node_labels: Labels) -> None:
        self._pod_index.remove(pod, node_labels)
        self.apart_terms.remove(pod.neighbours.affinity.required_apart, pod.uid, node_labels)
        self.liked_terms.remove(pod.neighbours.affinity.preferred, pod.uid, node_labels)
        self._count_spread(pod, node_labels, -1)

    def _count_spread(self, pod: PodInfo, node_labels: Labels, by: int) -> None:
        for (constraint, _), count in self._spread.items():
            if constraint.counts(pod.namespace, pod.labels, terminating=pod.terminating):
                count.change(pod.node, node_labels, by)


def _counts(node: NodeInfo, constraint: SpreadConstraint, demands: NodeDemands, keys: Iterable[str]) -> bool:
    if any(key not in node.labels for key in keys):
        return False
    if constraint.honor_affinity and not demands.affinity.allows(node.name, node.labels):
        return False
    return not constraint.honor_taints or forbidding_taint(node.taints, demands.tolerations) is None
