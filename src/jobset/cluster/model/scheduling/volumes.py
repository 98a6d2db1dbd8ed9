"""What a pod's claims mean for its placement: they must be there and bound, and their volumes reachable. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from jobset.cluster.model.scheduling.node import NodeInfo, Rejection
from jobset.cluster.model.scheduling.pod import PodInfo
from jobset.cluster.model.scheduling.state import Claim, ClusterState

OUT_OF_REACH = Rejection(("node(s) had volume node affinity conflict",))


def blocked_by_claims(state: ClusterState, pod: PodInfo) -> str | None:
    """Why no node will do until the pod's claims change, if so."""
    for name in pod.claims:
        claim = state.claims.get((pod.namespace, name))
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if claim.terminating:
            return f'persistentvolumeclaim "{name}" is being deleted'
        if not claim.bound:
            return "pod has unbound immediate PersistentVolumeClaims"
        others = state.claim_users.get((pod.namespace, name), set()) - {pod.uid}
        if claim.one_pod and others:
            return "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
    return None


def bound_claims(state: ClusterState, pod: PodInfo) -> Iterator[Claim]:
    for name in pod.claims:
        if (claim := state.claims.get((pod.namespace, name))) is not None:
            yield claim


def out_of_reach(claims: tuple[Claim, ...], node: NodeInfo) -> Rejection | None:
    """Why the volumes of these claims cannot be had on this node, if so."""
    for claim in claims:
        terms = claim.reachable_from
        if terms is not None and not any(term.matches(node.name, node.labels) for term in terms):
            return OUT_OF_REACH
    return None
