"""Whether a node suits a pod given the pods around it: spread, affinity, anti-affinity of both sides. Pure.

One `Neighbourhood` serves one decision. It asks the state about a topology domain at most once, however many nodes
lie in it, and looks only at domains of nodes that are otherwise good.
"""

from __future__ import annotations

from jobset.cluster.model.scheduling.node import NodeInfo, Rejection
from jobset.cluster.model.scheduling.pod import PodInfo
from jobset.cluster.model.scheduling.pod_affinity import Term
from jobset.cluster.model.scheduling.spread import SpreadConstraint, SpreadCount, skewed
from jobset.cluster.model.scheduling.state import ClusterState
from jobset.cluster.model.scheduling.volumes import bound_claims, out_of_reach

UNEVEN = Rejection(("node(s) didn't match pod topology spread constraints",), preemptible=True)
NO_SPREAD_LABEL = Rejection(("node(s) didn't match pod topology spread constraints (missing required label)",))
ALONE = Rejection(("node(s) didn't match pod affinity rules",))
TOO_CLOSE = Rejection(("node(s) didn't match pod anti-affinity rules",), preemptible=True)
UNWANTED = Rejection(("node(s) didn't satisfy existing pods anti-affinity rules",), preemptible=True)


class Neighbourhood:
    """For one pod, as if the pods whose UIDs are in `without` had gone."""

    def __init__(self, state: ClusterState, pod: PodInfo, without: frozenset[str] = frozenset()) -> None:
        self._state = state
        self._pod = pod
        self._without = without
        self._affinity = pod.neighbours.affinity
        self._claims = tuple(claim for claim in bound_claims(state, pod) if claim.reachable_from is not None)
        self._company: dict[tuple[str, str | None], bool] = {}
        self._apart: dict[tuple[Term, str], bool] = {}
        self._unwanted: dict[tuple[str, str], bool] = {}
        self._spread: list[tuple[SpreadConstraint, SpreadCount, int, bool]] | None = None
        self._is_first: bool | None = None
        self._apart_keys = state.apart_terms.topology_keys

    def rejection(self, node: NodeInfo) -> Rejection | None:
        if self._claims and (rejection := out_of_reach(self._claims, node)) is not None:
            return rejection
        if self._pod.neighbours.spread and (rejection := self._uneven(node)) is not None:
            return rejection
        if self._affinity.required and not self._has_company(node):
            return ALONE
        for term in self._affinity.required_apart:
            domain = node.labels.get(term.topology_key)
            if domain is not None and self._is_near(term, domain):
                return TOO_CLOSE
        for key in self._apart_keys:
            domain = node.labels.get(key)
            if domain is not None and self._is_unwanted(key, domain):
                return UNWANTED
        return None

    def gathering_places(self) -> list[str] | None:
        """The nodes near those that the pod must be with; None when it is bound to no company, or the first."""
        if not self._affinity.required or self._first():
            return None
        term = self._affinity.required[0]
        if term.selector is None:
            return []
        nodes = self._state.nodes
        domains = {
            nodes[other.node].labels[term.topology_key]
            for other in self._state.matching(term.topology_key, None, term.selector)
        }
        return [name for domain in sorted(domains) for name in self._state.nodes_in(term.topology_key, domain)]

    def _has_company(self, node: NodeInfo) -> bool:
        """Every term finds, in this node's domain, a pod that satisfies all terms; or the pod is first of its kind."""
        domains = [node.labels.get(term.topology_key) for term in self._affinity.required]
        if None in domains:
            return False
        keys = [term.topology_key for term in self._affinity.required]
        return all(self._company_in(key, domain) for key, domain in zip(keys, domains, strict=True)) or self._first()

    def _company_in(self, topology_key: str, domain: str | None) -> bool:
        known = self._company.get((topology_key, domain))
        if known is None:
            known = self._company[topology_key, domain] = self._find_company(topology_key, domain)
        return known

    def _find_company(self, topology_key: str, domain: str | None) -> bool:
        terms, namespaces = self._affinity.required, self._state.namespaces
        selector = terms[0].selector
        if selector is None:
            return False
        return any(
            other.uid not in self._without and all(term.selects(other, namespaces) for term in terms)
            for other in self._state.matching(topology_key, domain, selector)
        )

    def _first(self) -> bool:
        """No pod satisfies the terms anywhere, and this one does itself: somebody has to be the first."""
        if self._is_first is None:
            terms, namespaces = self._affinity.required, self._state.namespaces
            self._is_first = all(term.selects(self._pod, namespaces) for term in terms) and not any(
                self._company_in(term.topology_key, None) for term in terms
            )
        return self._is_first

    def _is_near(self, term: Term, domain: str) -> bool:
        known = self._apart.get((term, domain))
        if known is None:
            known = self._apart[term, domain] = term.selector is not None and any(
                other.uid not in self._without and term.covers(other.namespace, self._state.namespaces)
                for other in self._state.matching(term.topology_key, domain, term.selector)
            )
        return known

    def _is_unwanted(self, topology_key: str, domain: str) -> bool:
        known = self._unwanted.get((topology_key, domain))
        if known is None:
            known = self._unwanted[topology_key, domain] = any(
                carriers - self._without and term.selects(self._pod, self._state.namespaces)
                for term, carriers in self._state.apart_terms.holding(topology_key, domain)
            )
        return known

    def _uneven(self, node: NodeInfo) -> Rejection | None:
        if self._spread is None:
            self._spread = self._count_spread()
        for constraint, count, least, itself in self._spread:
            domain = node.labels.get(constraint.topology_key)
            if domain is None:
                return NO_SPREAD_LABEL
            if skewed(constraint, count.domains.get(domain, 0), least, itself=itself):
                return UNEVEN
        return None

    def _count_spread(self) -> list[tuple[SpreadConstraint, SpreadCount, int, bool]]:
        pod, found = self._pod, []
        constraints = pod.neighbours.hard_spread
        for constraint in constraints:
            count = self._state.spread_count(constraint, pod, [other.topology_key for other in constraints])
            if self._without:
                count = self._spread_without(constraint, count)
            itself = constraint.counts(pod.namespace, pod.labels, terminating=False)
            found.append((constraint, count, count.least(), itself))
        return found

    def _spread_without(self, constraint: SpreadConstraint, count: SpreadCount) -> SpreadCount:
        remaining = SpreadCount(constraint, count.eligible, dict(count.domains))
        for uid in self._without:
            other = self._state.pods[uid]
            if constraint.counts(other.namespace, other.labels, terminating=other.terminating):
                remaining.change(other.node, self._state.nodes[other.node].labels, -1)
        return remaining
