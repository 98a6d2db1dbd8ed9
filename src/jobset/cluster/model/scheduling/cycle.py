"""One scheduling decision: where a pod goes, or why it waits and whom it may push aside. Pure.

Stands between the scheduler's queue and the binding: `decide` reads the state and changes nothing that can be seen from
outside (the state keeps rankings and indexes up to date as it is asked). Equal states and pods give equal decisions:
the best score wins, then the first name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct

from jobset.cluster.model.scheduling.neighbours import ALONE, Neighbourhood
from jobset.cluster.model.scheduling.node import NodeInfo, Rejection, no_room, unsuitable
from jobset.cluster.model.scheduling.pod import PodInfo
from jobset.cluster.model.scheduling.preemption import (
    NO_VICTIMS,
    NOT_HELPFUL,
    Preemption,
    choose_victims,
    not_eligible,
    outranking,
)
from jobset.cluster.model.scheduling.ranking import Ranking
from jobset.cluster.model.scheduling.scoring import has_wishes, wishes
from jobset.cluster.model.scheduling.state import ClusterState
from jobset.cluster.model.scheduling.volumes import blocked_by_claims


class Placed(Struct, frozen=True):
    node: str


class Waiting(Struct, frozen=True):
    """No node will do now. `preemption` names the node to make room on and the pods that must go."""

    message: str
    preemption: Preemption | None = None


Decision: TypeAlias = Placed | Waiting


def decide(state: ClusterState, pod: PodInfo) -> Decision:
    if not state.node_count:
        return Waiting("no nodes available to schedule pods")
    if (blocked := blocked_by_claims(state, pod)) is not None:
        return Waiting(_message(state.node_count, [f"{blocked}"], _not_helpful(state.node_count, state.node_count)))
    ranking = state.ranking(pod.demands)
    around = Neighbourhood(state, pod)
    refused: dict[str, Rejection] = {}
    node = _nominated(state, pod, around) or _best(state, pod, ranking, around, refused)
    if node is not None:
        return Placed(node.name)
    return _wait(state, pod, ranking, refused)


def _nominated(state: ClusterState, pod: PodInfo, around: Neighbourhood) -> NodeInfo | None:
    """The node on which room was made for the pod, once it is there."""
    node = state.nodes.get(state.nomination(pod.uid) or pod.nominated)
    if node is None or not node.exists or unsuitable(node, pod.demands) is not None:
        return None
    fits = no_room(node, pod.demands) is None and _objection(pod, node, around) is None
    return node if fits else None


def _best(
    state: ClusterState, pod: PodInfo, ranking: Ranking, around: Neighbourhood, refused: dict[str, Rejection]
) -> NodeInfo | None:
    """The best node; `refused` takes the reasons of those that had room but would not do."""
    if has_wishes(state, pod):
        return _best_by_wishes(state, pod, ranking, around, refused)
    near = around.gathering_places()
    for node in ranking.best_first() if near is None else ranking.among(near):
        objection = _objection(pod, node, around)
        if objection is None:
            return node
        refused[node.name] = objection
    if near is not None:
        refused.update((name, ALONE) for name in ranking.with_room() if name not in refused)
    return None


def _best_by_wishes(
    state: ClusterState, pod: PodInfo, ranking: Ranking, around: Neighbourhood, refused: dict[str, Rejection]
) -> NodeInfo | None:
    good: list[tuple[NodeInfo, float]] = []
    for node, score in ranking.scored():
        objection = _objection(pod, node, around)
        if objection is None:
            good.append((node, score))
        else:
            refused[node.name] = objection
    if not good:
        return None
    extra = wishes(state, pod, [node for node, _ in good])
    ranked = ((-(score + more), node.name, node) for (node, score), more in zip(good, extra, strict=True))
    return min(ranked, key=lambda entry: entry[:2])[2]


def _objection(pod: PodInfo, node: NodeInfo, around: Neighbourhood) -> Rejection | None:
    """Why a node with room will not do: its neighbourhood, or room kept for somebody more important."""
    if (rejection := around.rejection(node)) is not None:
        return rejection
    if node.nominated and (beside := outranking(node, pod)):
        return no_room(node, pod.demands, beside=beside)
    return None


def _wait(state: ClusterState, pod: PodInfo, ranking: Ranking, refused: Mapping[str, Rejection]) -> Waiting:
    reasons: Counter[str] = Counter()
    for unsuitable_for, count in state.unsuitable_nodes(pod.demands).items():
        for reason in unsuitable_for:
            reasons[reason] += count
    rejections = {**ranking.rejections(), **refused}
    for rejection in rejections.values():
        reasons.update(rejection.reasons)
    total = state.node_count
    why = _counted(reasons)
    if (barred := not_eligible(state, pod)) is not None:
        return Waiting(_message(total, why, barred))
    could_help = [state.nodes[name] for name in sorted(rejections) if rejections[name].preemptible]
    preemption = choose_victims(state, pod, could_help)
    outcome = "" if preemption else _not_helpful(total, total - len(could_help), len(could_help))
    return Waiting(_message(total, why, outcome), preemption)


def _counted(reasons: Mapping[str, int]) -> list[str]:
    return sorted(f"{count} {reason}" for reason, count in reasons.items())


def _not_helpful(total: int, unhelpful: int, without_victims: int = 0) -> str:
    counts = {reason: n for reason, n in ((NOT_HELPFUL, unhelpful), (NO_VICTIMS, without_victims)) if n}
    return f"0/{total} nodes are available: {', '.join(_counted(counts))}."


def _message(total: int, reasons: list[str], preemption: str) -> str:
    text = f"0/{total} nodes are available: {', '.join(reasons)}."
    return f"{text} preemption: {preemption}" if preemption else text
