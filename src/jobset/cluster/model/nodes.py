"""Node objects: how they are written, read from a nodes file in short form, and made to fit what JobSets ask for. Pure.

Nodes of the embedded cluster need not be machines: all their pods run on this one. A *virtual* node exists so that the
scheduler has the labels, domains and accelerators to place pods by; it says so in an annotation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jobset.api.labels import HOSTNAME
from jobset.api.meta import Object
from jobset.api.quantity import parse_quantity
from jobset.api.selectors import is_label_key, is_label_value

VIRTUAL = "jobset.x-k8s.io/virtual-node"
DEFAULT_PODS = 110
MAX_NODES = 10_000

_GROUP_FIELDS = {
    "name": str, "count": int, "cpu": (str, int, float), "memory": (str, int), "pods": int, "resources": dict,
    "labels": dict, "annotations": dict, "topology": list, "taints": list, "unschedulable": bool,
}  # fmt: skip
_TOPOLOGY_FIELDS = {"key": str, "pattern": str, "hosts": int}


def node_object(
    name: str,
    resources: Mapping[str, str | int],
    labels: Mapping[str, str],
    *,
    annotations: Mapping[str, str] | None = None,
    taints: Sequence[Object] = (),
    unschedulable: bool = False,
) -> Object:
    """A ready node. `resources` are what it offers (cpu, memory, pods, extended ones); it is its own hostname."""
    offered = {"pods": DEFAULT_PODS, **resources}
    quantities = {key: str(offered[key]) for key in sorted(offered)}
    spec: Object = {
        **({"taints": list(taints)} if taints else {}),
        **({"unschedulable": True} if unschedulable else {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {**labels, HOSTNAME: labels.get(HOSTNAME, name)},
            **({"annotations": dict(annotations)} if annotations else {}),
        },
        "spec": spec,
        "status": {
            "capacity": quantities,
            "allocatable": quantities,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}],
        },
    }


def virtual_node(name: str, resources: Mapping[str, str | int], labels: Mapping[str, str]) -> Object:
    return node_object(name, resources, labels, annotations={VIRTUAL: "true"})


def uniform_nodes(
    count: int,
    *,
    cpu: str | int = 64,
    memory: str = "256Gi",
    pods: int = DEFAULT_PODS,
    resources: Mapping[str, str | int] | None = None,
    labels: Mapping[str, str] | None = None,
    topology_key: str = "",
    hosts_per_domain: int = 1,
) -> list[Object]:
    """Equal nodes, for simulations and benchmarks; with a topology key every `hosts_per_domain` share a domain."""
    offered = {"cpu": cpu, "memory": memory, "pods": pods, **(resources or {})}
    width = len(str(count - 1))
    nodes = []
    for number in range(count):
        domain = {topology_key: f"domain-{number // hosts_per_domain}"} if topology_key else {}
        nodes.append(virtual_node(f"node-{number:0{width}d}", offered, {**(labels or {}), **domain}))
    return nodes


# ---------------------------------------------------------------- the nodes file


def nodes_of_documents(documents: Sequence[Any]) -> list[Object]:
    """The nodes that the documents of a nodes file describe: Node objects, lists of them, or groups in short form.

    Short form, one node per number from 0:

        groups:
        - name: tpu                # node names: tpu-0, tpu-1, ...
          count: 8
          cpu: 8                   # the default of the machine for cpu and memory is not assumed: say both
          memory: 32Gi
          resources: {google.com/tpu: 4}
          labels: {cloud.google.com/gke-tpu-accelerator: tpu-v5-lite-podslice}
          topology:                # every 2 nodes share a domain: slice-0, slice-0, slice-1, ...
          - {key: cloud.google.com/gke-nodepool, pattern: "slice-{}", hosts: 2}

    Raises ValueError with a message for the user.
    """
    nodes: list[Object] = []
    for number, document in enumerate(documents):
        where = f"document {number + 1}"
        if not isinstance(document, dict):
            raise ValueError(f"{where}: a nodes file holds Node objects or `groups:`, not {type(document).__name__}")
        if document.get("kind") == "Node":
            nodes.append(_full_node(document, where))
        elif isinstance(document.get("items"), list):
            nodes.extend(_full_node(item, f"{where}: items[{i}]") for i, item in enumerate(document["items"]))
        elif isinstance(document.get("groups"), list):
            for i, group in enumerate(document["groups"]):
                nodes.extend(_group(group, f"{where}: groups[{i}]"))
        else:
            raise ValueError(f"{where}: expected `kind: Node`, a list with `items:`, or `groups:`")
    names = [node["metadata"]["name"] for node in nodes]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) != len(names) else []
    if twice:
        raise ValueError(f"node name {twice[0]!r} is used twice")
    if not nodes:
        raise ValueError("the nodes file describes no node")
    return nodes


def _full_node(node: Object, where: str) -> Object:
    metadata = node.get("metadata") if isinstance(node, dict) else None
    if not isinstance(metadata, dict) or not metadata.get("name"):
        raise ValueError(f"{where}: metadata.name is missing")
    status = node.get("status") or {}
    offered = status.get("allocatable") or status.get("capacity")
    if not offered:
        raise ValueError(f"{where}: status.capacity is missing: name at least cpu and memory")
    full = {"pods": str(DEFAULT_PODS), **offered}
    _check_quantities(full, f"{where}: status.capacity")
    ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}]
    return {
        **node,
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {**metadata, "labels": {HOSTNAME: metadata["name"], **(metadata.get("labels") or {})}},
        "status": {
            **status,
            "capacity": {**full, **(status.get("capacity") or {})},
            "allocatable": full,
            "conditions": status.get("conditions") or ready,
        },
    }


def _group(group: Any, where: str) -> list[Object]:
    _check_fields(group, _GROUP_FIELDS, where)
    name, count = group.get("name", "node"), group.get("count", 1)
    if not 1 <= count <= MAX_NODES:
        raise ValueError(f"{where}.count: must be between 1 and {MAX_NODES}")
    for field in ("cpu", "memory"):
        if field not in group:
            raise ValueError(f"{where}.{field}: missing")
    offered = {"cpu": group["cpu"], "memory": group["memory"], "pods": group.get("pods", DEFAULT_PODS)}
    offered.update(group.get("resources") or {})
    _check_quantities(offered, where)
    topology = group.get("topology") or []
    for i, level in enumerate(topology):
        _check_fields(level, _TOPOLOGY_FIELDS, f"{where}.topology[{i}]")
        if "key" not in level or "{}" not in level.get("pattern", "{}") or level.get("hosts", 1) < 1:
            raise ValueError(f"{where}.topology[{i}]: needs key, a pattern with {{}}, and hosts of at least 1")
    nodes = []
    for number in range(count):
        labels = {
            **(group.get("labels") or {}),
            **{t["key"]: t.get("pattern", "{}").replace("{}", str(number // t.get("hosts", 1))) for t in topology},
        }
        _check_labels(labels, f"{where}.labels")
        nodes.append(
            node_object(
                f"{name}-{number}" if count > 1 else name,
                offered,
                {key: str(value) for key, value in labels.items()},
                annotations={VIRTUAL: "true", **(group.get("annotations") or {})},
                taints=group.get("taints") or (),
                unschedulable=group.get("unschedulable", False),
            )
        )
    return nodes


def _check_fields(value: Any, fields: Mapping[str, Any], where: str) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"{where}: expected a mapping, not {type(value).__name__}")
    for key, item in value.items():
        if key not in fields:
            raise ValueError(f"{where}.{key}: unknown field; known are {', '.join(fields)}")
        wanted = fields[key]
        if not isinstance(item, wanted) or (isinstance(item, bool) and wanted is not bool):
            names = " or ".join(t.__name__ for t in (wanted if isinstance(wanted, tuple) else (wanted,)))
            raise ValueError(f"{where}.{key}: expected {names}, not {type(item).__name__}")


def _check_quantities(amounts: Mapping[str, Any], where: str) -> None:
    for name, quantity in amounts.items():
        try:
            parse_quantity(quantity)
        except ValueError as error:
            raise ValueError(f"{where}.{name}: {error}") from None


def _check_labels(labels: Mapping[str, Any], where: str) -> None:
    for key, value in labels.items():
        if not is_label_key(key) or not is_label_value(str(value)):
            raise ValueError(f"{where}: {key}: {value!r} is not a label")
