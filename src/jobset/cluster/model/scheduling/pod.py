"""A pod as the scheduler sees it: identity, and what it demands of nodes and of its neighbours. Pure.

Demands are parsed once for pods with equal specs: parsing is keyed by the JSON text of the parts that matter, and pods
that share `NodeDemands` share feasibility results and rankings too.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from jobset.api.meta import Object
from jobset.cluster.model.scheduling.affinity import NodeAffinity
from jobset.cluster.model.scheduling.pod_affinity import NO_POD_AFFINITY, Labels, PodAffinity
from jobset.cluster.model.scheduling.ports import HostPort, host_ports
from jobset.cluster.model.scheduling.resources import (
    UNSPECIFIED_CPU_MILLI,
    UNSPECIFIED_MEMORY_BYTES,
    Amounts,
    pod_requests,
)
from jobset.cluster.model.scheduling.spread import SpreadConstraint
from jobset.cluster.model.scheduling.taints import Toleration

DEFAULT_SCHEDULER = "default-scheduler"
REMEMBERED_SPECS = 4096
TERMINAL = ("Succeeded", "Failed")

_encoder = msgspec.json.Encoder(order="sorted")


class NodeDemands(Struct, frozen=True, eq=False):
    """What a pod asks of a node alone. Compared by identity."""

    requests: Amounts
    scored_cpu: int
    scored_memory: int
    """Requests for scoring, where a pod that names none counts with a small amount."""
    affinity: NodeAffinity
    tolerations: tuple[Toleration, ...]
    ports: tuple[HostPort, ...]


class NeighbourDemands(Struct, frozen=True, eq=False):
    """What a pod asks of topology domains, given the pods already there."""

    affinity: PodAffinity = NO_POD_AFFINITY
    spread: tuple[SpreadConstraint, ...] = ()

    @property
    def hard_spread(self) -> tuple[SpreadConstraint, ...]:
        return tuple(constraint for constraint in self.spread if constraint.hard)

    @property
    def soft_spread(self) -> tuple[SpreadConstraint, ...]:
        return tuple(constraint for constraint in self.spread if not constraint.hard)

    def __bool__(self) -> bool:
        return bool(self.affinity or self.spread)


NO_NEIGHBOUR_DEMANDS = NeighbourDemands()


class PodInfo(Struct, frozen=True, eq=False):
    """One pod. `node` is where it is bound or assumed to be, `nominated` where room is being made for it."""

    uid: str
    namespace: str
    name: str
    labels: Labels
    priority: int
    demands: NodeDemands
    neighbours: NeighbourDemands
    claims: tuple[str, ...] = ()
    """Names of the PersistentVolumeClaims that it mounts."""
    node: str = ""
    nominated: str = ""
    may_preempt: bool = True
    terminating: bool = False
    started: str = ""

    @classmethod
    def of(cls, pod: Object) -> PodInfo:
        metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
        namespace, labels = metadata.get("namespace", ""), metadata.get("labels") or {}
        return cls(
            uid=metadata["uid"],
            namespace=namespace,
            name=metadata["name"],
            labels=labels,
            priority=spec.get("priority") or 0,
            demands=node_demands(spec),
            neighbours=neighbour_demands(spec, namespace, labels),
            claims=claim_names(metadata["name"], spec),
            node=spec.get("nodeName") or "",
            nominated=status.get("nominatedNodeName") or "",
            may_preempt=spec.get("preemptionPolicy") != "Never",
            terminating=bool(metadata.get("deletionTimestamp")),
            started=status.get("startTime") or metadata.get("creationTimestamp") or "",
        )


def is_finished(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in TERMINAL


def awaits_scheduling(pod: Object) -> bool:
    """On no node yet, ours to place, and still wanted."""
    spec = pod["spec"]
    if spec.get("nodeName") or pod["metadata"].get("deletionTimestamp") or is_finished(pod):
        return False
    return bool(spec.get("schedulerName", DEFAULT_SCHEDULER) == DEFAULT_SCHEDULER)


def claim_names(pod_name: str, spec: Object) -> tuple[str, ...]:
    names = []
    for volume in spec.get("volumes") or ():
        if volume.get("persistentVolumeClaim"):
            names.append(volume["persistentVolumeClaim"]["claimName"])
        elif volume.get("ephemeral"):
            names.append(f"{pod_name}-{volume['name']}")
    return tuple(names)


def node_demands(spec: Object) -> NodeDemands:
    parts = ("containers", "initContainers")
    text = _encoder.encode(
        {
            **{part: [_container_parts(c) for c in spec[part]] for part in parts if spec.get(part)},
            "resources": spec.get("resources"),
            "overhead": spec.get("overhead"),
            "nodeSelector": spec.get("nodeSelector"),
            "nodeAffinity": (spec.get("affinity") or {}).get("nodeAffinity"),
            "tolerations": spec.get("tolerations"),
        }
    )
    return _parse_node_demands(text)


def _container_parts(container: Object) -> Object:
    return {part: container.get(part) for part in ("resources", "ports", "restartPolicy")}


@lru_cache(maxsize=REMEMBERED_SPECS)
def _parse_node_demands(text: bytes) -> NodeDemands:
    spec: Object = {key: value for key, value in msgspec.json.decode(text, type=dict[str, Any]).items() if value}
    requests = pod_requests(spec)
    return NodeDemands(
        requests=requests,
        scored_cpu=requests.get("cpu", UNSPECIFIED_CPU_MILLI),
        scored_memory=requests.get("memory", UNSPECIFIED_MEMORY_BYTES),
        affinity=NodeAffinity.of(spec.get("nodeSelector"), spec.get("nodeAffinity")),
        tolerations=tuple(Toleration.of(toleration) for toleration in spec.get("tolerations") or ()),
        ports=host_ports(spec),
    )


def neighbour_demands(spec: Object, namespace: str, labels: Labels) -> NeighbourDemands:
    affinity = spec.get("affinity") or {}
    among_pods = {kind: affinity[kind] for kind in ("podAffinity", "podAntiAffinity") if affinity.get(kind)}
    spread = spec.get("topologySpreadConstraints")
    if not among_pods and not spread:
        return NO_NEIGHBOUR_DEMANDS
    text = _encoder.encode((among_pods, spread))
    own_labels = labels if b"abelKeys" in text else {}
    return _parse_neighbour_demands(text, namespace, tuple(sorted(own_labels.items())))


@lru_cache(maxsize=REMEMBERED_SPECS)
def _parse_neighbour_demands(text: bytes, namespace: str, labels: tuple[tuple[str, str], ...]) -> NeighbourDemands:
    among_pods, spread = msgspec.json.decode(text, type=tuple[dict[str, Any], list[Any] | None])
    own_labels = dict(labels)
    return NeighbourDemands(
        PodAffinity.of(among_pods, namespace, own_labels),
        tuple(SpreadConstraint.of(constraint, namespace, own_labels) for constraint in spread or ()),
    )
