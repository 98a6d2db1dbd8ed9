"""Which nodes a local cluster has: those of a file, else this machine, made to fit what the manifest asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jobset.api.meta import Object
from jobset.cluster.nodes import machine_facts, machine_node, nodes_from_file


@dataclass(frozen=True, slots=True)
class ChosenNodes:
    """`devices`: GPU ids of each node. `notes`: what a user should know."""

    objects: Sequence[Object]
    devices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    notes: Sequence[str] = ()


def choose_nodes(documents: Sequence[Object], file: Path | None) -> ChosenNodes:
    """Nodes for these manifests. Raises ValueError for a file that cannot be used."""
    if file is not None:
        return ChosenNodes(nodes_from_file(file))
    facts = machine_facts()
    machine = machine_node(facts)
    return ChosenNodes([machine], {machine["metadata"]["name"]: facts.gpus} if facts.gpus else {})
