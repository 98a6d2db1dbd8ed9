"""Topology spread constraints: how evenly matching pods lie over domains. Pure.

A `SpreadCount` holds, for one constraint of pods with equal specs, the matching pods per eligible domain; the state
keeps it current as pods come and go, so a decision costs one look at the domains and none at the pods.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec import Struct, field

from jobset.api.meta import Object
from jobset.api.selectors import LabelSelector, label_selector_of
from jobset.cluster.model.scheduling.pod_affinity import Labels, with_label_keys


class SpreadConstraint(Struct, frozen=True, eq=False):
    """One constraint, compared by identity: pods with equal specs share it. `selector` None matches no pod."""

    topology_key: str
    max_skew: int
    hard: bool
    min_domains: int
    selector: LabelSelector | None
    namespace: str
    honor_affinity: bool
    honor_taints: bool

    @classmethod
    def of(cls, constraint: Object, namespace: str, labels: Labels) -> SpreadConstraint:
        selector = label_selector_of(constraint.get("labelSelector"))
        return cls(
            constraint["topologyKey"],
            constraint["maxSkew"],
            constraint.get("whenUnsatisfiable") != "ScheduleAnyway",
            constraint.get("minDomains") or 1,
            with_label_keys(selector, labels, constraint.get("matchLabelKeys")),
            namespace,
            constraint.get("nodeAffinityPolicy") != "Ignore",
            constraint.get("nodeTaintsPolicy") == "Honor",
        )

    def counts(self, namespace: str, labels: Labels, *, terminating: bool) -> bool:
        """Whether a placed pod counts."""
        if self.selector is None or terminating or namespace != self.namespace:
            return False
        return self.selector.matches(labels)


class SpreadCount(Struct, eq=False):
    """Matching pods per domain of the eligible nodes; a domain without any has 0."""

    constraint: SpreadConstraint
    eligible: Callable[[str], bool]
    """Whether the node of this name counts at all: it has all topology keys and honours the policies."""
    domains: dict[str, int] = field(default_factory=dict)

    def change(self, node: str, node_labels: Labels, by: int) -> None:
        if self.eligible(node):
            domain = node_labels[self.constraint.topology_key]
            self.domains[domain] = self.domains.get(domain, 0) + by

    def least(self) -> int:
        """The fewest matching pods of any domain; 0 while there are fewer domains than asked for."""
        if len(self.domains) < self.constraint.min_domains:
            return 0
        return min(self.domains.values(), default=0)

    def cost(self, domain: str) -> float:
        """How crowded a domain is, for scoring: with more domains each pod weighs more."""
        weight = math.log(len(self.domains) + 2)
        return self.domains.get(domain, 0) * weight + (self.constraint.max_skew - 1)


def skewed(constraint: SpreadConstraint, there: int, least: int, *, itself: bool) -> bool:
    """Whether one more pod (counting only if it matches `itself`) makes a domain with `there` pods too full."""
    return there + (1 if itself else 0) - least > constraint.max_skew
