"""Which GPUs of a node a pod gets: bookkeeping of `nvidia.com/gpu`.

The scheduler counts, the kubelet chooses: ids are handed out in the node's order, lowest free ones first, and belong to
the pod until all its containers have ended. They are written down in the pod's directory, for the kubelet after us.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from jobset.api.meta import Object
from jobset.cluster.kubelet.resource_field import limit
from jobset.cluster.kubelet.sources import ConfigError

GPU = "nvidia.com/gpu"
_KEPT = "devices.json"


def gpus_of(container: Object) -> int:
    value = limit(container, GPU)
    return 0 if value is None else int(value)


class Devices:
    """GPU ids by node. A node that is not named here hands out none, and its pods' environment says nothing of GPUs."""

    def __init__(self, ids: Mapping[str, Sequence[str]]) -> None:
        self._free = {node: list(known) for node, known in ids.items()}
        self._order = {node: {id_: place for place, id_ in enumerate(known)} for node, known in ids.items()}
        self._held: dict[str, dict[str, tuple[str, ...]]] = {}
        self._nodes: dict[str, str] = {}

    def allocate(self, pod: Object) -> None:
        """Give every container of the pod its GPUs; init containers use those of the main ones. Raises ConfigError."""
        spec, uid = pod["spec"], pod["metadata"]["uid"]
        node = spec["nodeName"]
        if node not in self._free or uid in self._held:
            return
        free = self._free[node]
        before = spec.get("initContainers") or ()
        lasting = [*(c for c in before if c.get("restartPolicy") == "Always"), *spec["containers"]]
        passing = [c for c in before if c.get("restartPolicy") != "Always"]
        total = max([sum(map(gpus_of, lasting)), *map(gpus_of, passing)])
        if total > len(free):
            raise ConfigError(
                f"the pod asks for {total} {GPU}, node {node} has {len(free)} free", "UnexpectedAdmissionError"
            )
        taken, self._free[node] = free[:total], free[total:]
        held: dict[str, tuple[str, ...]] = {c["name"]: tuple(taken[: gpus_of(c)]) for c in passing}
        begin = 0
        for container in lasting:
            end = begin + gpus_of(container)
            held[container["name"]] = tuple(taken[begin:end])
            begin = end
        self._held[uid], self._nodes[uid] = held, node

    def keep(self, uid: str, directory: Path) -> None:
        """Write down what the pod was given, if it was given anything."""
        held = self._held.get(uid)
        if held and any(held.values()):
            (directory / _KEPT).write_text(json.dumps(held))

    def take_over(self, pod: Object, directory: Path) -> None:
        """A pod that runs already holds what was written down for it."""
        uid, node = pod["metadata"]["uid"], pod["spec"]["nodeName"]
        if node not in self._free:
            return
        try:
            kept: dict[str, list[str]] = json.loads((directory / _KEPT).read_text())
        except FileNotFoundError:
            return
        known = self._order[node]
        held = {name: tuple(id_ for id_ in ids if id_ in known) for name, ids in kept.items()}
        taken = {id_ for ids in held.values() for id_ in ids}
        self._free[node] = [id_ for id_ in self._free[node] if id_ not in taken]
        self._held[uid], self._nodes[uid] = held, node

    def of(self, uid: str, container: str) -> Sequence[str] | None:
        """The container's GPUs; None where nothing is to be said about GPUs."""
        held = self._held.get(uid)
        return None if held is None else held[container]

    def release(self, uid: str) -> None:
        held = self._held.pop(uid, None)
        if held is None:
            return
        node = self._nodes.pop(uid)
        freed = {id_ for ids in held.values() for id_ in ids}
        order = self._order[node]
        self._free[node] = sorted([*self._free[node], *freed], key=order.__getitem__)
