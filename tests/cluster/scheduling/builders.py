"""Short ways to write nodes and pods, as the API server would store them."""

from __future__ import annotations

from typing import Any

from jobset.api.meta import Object
from jobset.cluster.model.scheduling.cycle import Placed, decide
from jobset.cluster.model.scheduling.pod import PodInfo
from jobset.cluster.model.scheduling.state import ClusterState

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def node(name: str, labels: dict[str, str] | None = None, taints: list[Object] | None = None, **offer: str) -> Object:
    """`offer`: cpu="4", memory="8Gi", pods="20", or any other resource; extended ones by `gpu`."""
    offered = {"cpu": "4", "memory": "8Gi", "pods": "20", **offer}
    if "gpu" in offered:
        offered["nvidia.com/gpu"] = offered.pop("gpu")
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {"taints": taints} if taints else {},
        "status": {"capacity": offered, "allocatable": offered},
    }


def pod(
    name: str, labels: dict[str, str] | None = None, namespace: str = "default", requests: Any = None, **spec: Any
) -> Object:
    container: Object = {"name": "c", "image": "x"}
    if requests:
        container["resources"] = {"requests": requests}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": labels or {}},
        "spec": {"containers": [container], **spec},
    }


def term(key: str, labels: dict[str, str] | None = None, **more: Any) -> Object:
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels or {}}, **more}


def together(*terms: Object) -> Object:
    return {"podAffinity": {REQUIRED: list(terms)}}


def apart(*terms: Object) -> Object:
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


def cluster(*nodes: Object) -> ClusterState:
    state = ClusterState()
    state.namespaces["default"] = {}
    for one in nodes:
        state.set_node(one)
    return state


def place(state: ClusterState, *pods: Object) -> list[str]:
    """Schedule the pods one after another; the node of each, or the message it waits with."""
    found = []
    for raw in pods:
        info = PodInfo.of(raw)
        decision = decide(state, info)
        if isinstance(decision, Placed):
            state.place(info, decision.node)
            found.append(decision.node)
        else:
            found.append(decision.message)
    return found
