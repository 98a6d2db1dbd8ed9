"""The nodes that suit pods of one kind, best first, kept current at the cost of what changed. Pure.

Pods that make the same demands of a node (`NodeDemands`) share a `Ranking`: a heap of the nodes that have room, by
score and then by name. A placement changes one node, so the next pod of the burst finds the next best node without
looking at the others. Entries are outdated by newer ones of the same node and dropped when they come up.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping

from jobset.cluster.model.scheduling.node import (
    NODE_AFFINITY_WEIGHT,
    TAINT_WEIGHT,
    NodeInfo,
    Rejection,
    no_room,
    room_score,
    unsuitable,
)
from jobset.cluster.model.scheduling.pod import NodeDemands
from jobset.cluster.model.scheduling.taints import discouraging_taints

_Entry = tuple[float, str, int]
"""(negative score, node name, serial)"""


class Ranking:
    """For one kind of pod over nodes whose labels and taints stay the same; how full they are may change."""

    def __init__(self, demands: NodeDemands, candidates: Iterable[NodeInfo], *, seen: int) -> None:
        self.seen = seen
        """The number of the last change of the state that this ranking knows."""
        self._demands = demands
        self._nodes: dict[str, NodeInfo] = {n.name: n for n in candidates if unsuitable(n, demands) is None}
        self._liking = _likings(demands, self._nodes)
        self._rejections: dict[str, Rejection] = {}
        self._heap: list[_Entry] = []
        self._scores: dict[str, float] = {}
        self._current: dict[str, int] = {}
        self._serial = 0
        self._rebuild()

    def suits(self, name: str) -> bool:
        """Whether a node does by its labels and taints, be it full or not."""
        return name in self._nodes

    def rejection(self, name: str) -> Rejection | None:
        """Why a node that suits has no room, if it has none."""
        return self._rejections.get(name)

    def rejections(self) -> Mapping[str, Rejection]:
        return self._rejections

    def __len__(self) -> int:
        return len(self._nodes)

    def refresh(self, names: Iterable[str], *, seen: int) -> None:
        """Nodes of these names became fuller or emptier."""
        self.seen = seen
        for name in names:
            if name in self._nodes:
                self._judge(name)
        if len(self._heap) > 64 + 4 * len(self._nodes):
            self._rebuild()

    def best_first(self) -> Iterator[NodeInfo]:
        """The nodes with room, best first. Looking at k of them costs k log n; the ranking is as before afterwards."""
        looked_at: list[_Entry] = []
        try:
            while self._heap:
                entry = heapq.heappop(self._heap)
                if self._current.get(entry[1]) == entry[2]:
                    looked_at.append(entry)
                    yield self._nodes[entry[1]]
        finally:
            for entry in looked_at:
                heapq.heappush(self._heap, entry)

    def among(self, names: Iterable[str]) -> list[NodeInfo]:
        """Those of the named nodes that have room, best first."""
        entries = sorted((-self._scores[name], name) for name in names if name in self._scores)
        return [self._nodes[name] for _, name in entries]

    def with_room(self) -> Iterable[str]:
        return self._scores.keys()

    def scored(self) -> list[tuple[NodeInfo, float]]:
        """All nodes with room and their scores, in no particular order."""
        return [(self._nodes[name], score) for name, score in self._scores.items()]

    def _judge(self, name: str) -> None:
        node = self._nodes[name]
        rejection = no_room(node, self._demands)
        if rejection is not None:
            self._rejections[name] = rejection
            self._scores.pop(name, None)
            self._current.pop(name, None)
            return
        self._rejections.pop(name, None)
        self._serial += 1
        self._current[name] = self._serial
        score = self._scores[name] = room_score(node, self._demands) + self._liking.get(name, 0.0)
        heapq.heappush(self._heap, (-score, name, self._serial))

    def _rebuild(self) -> None:
        self._heap.clear()
        for name in self._nodes:
            self._judge(name)


def _likings(demands: NodeDemands, nodes: Mapping[str, NodeInfo]) -> dict[str, float]:
    """What preferred node affinity and PreferNoSchedule taints add to the score of each node; empty for nothing."""
    affinity = demands.affinity
    liked = {name: affinity.preference(name, node.labels) for name, node in nodes.items()} if affinity.preferred else {}
    shunned = {name: discouraging_taints(node.taints, demands.tolerations) for name, node in nodes.items()}
    most_liked, most_shunned = max(liked.values(), default=0), max(shunned.values(), default=0)
    if not most_liked and not most_shunned:
        return {}
    return {
        name: 100 * NODE_AFFINITY_WEIGHT * liked.get(name, 0) / (most_liked or 1)
        + 100 * TAINT_WEIGHT * (1 - shunned[name] / (most_shunned or 1))
        for name in nodes
    }
