"""What a pod would like of its neighbours, as a score over the nodes that would do: preferred pod affinity of both
sides and spread constraints that may be broken. Pure. Pods without such wishes never come here (see cycle.py)."""

from __future__ import annotations

from jobset.cluster.model.scheduling.node import NodeInfo
from jobset.cluster.model.scheduling.pod import PodInfo
from jobset.cluster.model.scheduling.state import ClusterState

POD_AFFINITY_WEIGHT = 2.0
SPREAD_WEIGHT = 2.0


def has_wishes(state: ClusterState, pod: PodInfo) -> bool:
    """Whether the pod, or a placed pod about it, prefers some neighbours."""
    if pod.neighbours.affinity.preferred or pod.neighbours.soft_spread:
        return True
    return any(term.selects(pod, state.namespaces) for term in state.liked_terms.distinct())


def wishes(state: ClusterState, pod: PodInfo, nodes: list[NodeInfo]) -> list[float]:
    """What the neighbours of each node add to its score."""
    liked, even = _company_scores(state, pod, nodes), _spread_scores(state, pod, nodes)
    return [
        POD_AFFINITY_WEIGHT * company + SPREAD_WEIGHT * evenness for company, evenness in zip(liked, even, strict=True)
    ]


def _company_scores(state: ClusterState, pod: PodInfo, nodes: list[NodeInfo]) -> list[float]:
    """0 to 100, from the least liked node to the most liked one."""
    keys = {term.topology_key for term in pod.neighbours.affinity.preferred} | set(state.liked_terms.topology_keys)
    worth = {
        (key, domain): _worth(state, pod, key, domain)
        for key in keys
        for domain in {node.labels[key] for node in nodes if key in node.labels}
    }
    raw = [sum(worth.get((key, node.labels.get(key, "")), 0) for key in keys) for node in nodes]
    low, high = min(raw, default=0), max(raw, default=0)
    return [100 * (value - low) / (high - low) if high > low else 0.0 for value in raw]


def _worth(state: ClusterState, pod: PodInfo, topology_key: str, domain: str) -> int:
    total = 0
    for term in pod.neighbours.affinity.preferred:
        if term.topology_key == topology_key and term.selector is not None:
            found = state.matching(topology_key, domain, term.selector)
            total += term.weight * sum(1 for other in found if term.covers(other.namespace, state.namespaces))
    for term, carriers in state.liked_terms.holding(topology_key, domain):
        if term.selects(pod, state.namespaces):
            total += term.weight * len(carriers)
    return total


def _spread_scores(state: ClusterState, pod: PodInfo, nodes: list[NodeInfo]) -> list[float]:
    """0 to 100, from the most crowded domains to the emptiest; nodes without the labels get 0."""
    constraints = pod.neighbours.soft_spread
    if not constraints:
        return [0.0] * len(nodes)
    keys = [constraint.topology_key for constraint in constraints]
    counts = [state.spread_count(constraint, pod, keys) for constraint in constraints]
    raw = [
        sum(count.cost(node.labels[key]) for key, count in zip(keys, counts, strict=True))
        if all(key in node.labels for key in keys)
        else None
        for node in nodes
    ]
    known = [value for value in raw if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    return [0.0 if value is None else 100 * (high + low - value) / high if high else 100.0 for value in raw]
