"""Which pods of lower priority to remove so that a pod fits, and from which node. Pure.

Victims are as few and as unimportant as Kubernetes would choose: on each node that could do, take away every pod of
lower priority, then give back the more important ones first as long as the newcomer still fits; of the nodes, take the
one whose victims matter least.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from jobset.cluster.model.scheduling.neighbours import Neighbourhood
from jobset.cluster.model.scheduling.node import NodeInfo, no_room
from jobset.cluster.model.scheduling.pod import PodInfo
from jobset.cluster.model.scheduling.state import ClusterState

NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
_PRIORITY_OFFSET = 2**31
"""Makes every priority positive, so that the sum also counts heads."""


class Preemption(Struct, frozen=True):
    node: str
    victims: tuple[PodInfo, ...]


def not_eligible(state: ClusterState, pod: PodInfo) -> str | None:
    """Why this pod may not remove others now, if so."""
    if not pod.may_preempt:
        return "not eligible due to preemptionPolicy=Never."
    node = state.nodes.get(state.nomination(pod.uid))
    if node is not None and any(p.terminating and p.priority < pod.priority for p in node.pods.values()):
        return "not eligible due to a terminating pod on the nominated node."
    return None


def choose_victims(state: ClusterState, pod: PodInfo, nodes: Iterable[NodeInfo]) -> Preemption | None:
    if not any(priority < pod.priority for priority in state.priorities):
        return None
    found = []
    for node in nodes:
        victims = _victims_on(state, pod, node)
        if victims:
            found.append(Preemption(node.name, victims))
    return _least_harm(found) if found else None


def _victims_on(state: ClusterState, pod: PodInfo, node: NodeInfo) -> tuple[PodInfo, ...]:
    """The pods to remove from this node, most important first; none if that would not help."""
    removed = {other.uid: other for other in node.pods.values() if other.priority < pod.priority}
    if not removed or not _fits(state, pod, node, removed):
        return ()
    for other in sorted(removed.values(), key=_importance):
        without = {uid: victim for uid, victim in removed.items() if uid != other.uid}
        if _fits(state, pod, node, without):
            removed = without
    return tuple(sorted(removed.values(), key=_importance))


def _fits(state: ClusterState, pod: PodInfo, node: NodeInfo, without: dict[str, PodInfo]) -> bool:
    beside = outranking(node, pod)
    if no_room(node, pod.demands, without=without.values(), beside=beside) is not None:
        return False
    return Neighbourhood(state, pod, frozenset(without)).rejection(node) is None


def outranking(node: NodeInfo, pod: PodInfo) -> list[PodInfo]:
    """The other pods for which room is kept on this node and that this pod may not push aside."""
    return [other for other in node.nominated.values() if other.uid != pod.uid and other.priority >= pod.priority]


def _importance(pod: PodInfo) -> tuple[int, str, str]:
    """Sorts the most important pod first: highest priority, then longest running."""
    return -pod.priority, pod.started, pod.uid


def _least_harm(found: list[Preemption]) -> Preemption:
    def harm(option: Preemption) -> tuple[int, int, int]:
        victims = option.victims
        return victims[0].priority, sum(v.priority + _PRIORITY_OFFSET for v in victims), len(victims)

    least = min(harm(option) for option in found)
    options = sorted((option for option in found if harm(option) == least), key=lambda option: option.node)
    return max(options, key=lambda option: option.victims[0].started)
