"""Which nodes a local cluster has: those of a file, or this machine and virtual ones where the manifest needs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from jobset.api.meta import Object
from jobset.cluster.model.node_fitting import nodes_to_fit
from jobset.cluster.nodes import GPU, machine_facts, machine_node, nodes_from_file


class ChosenNodes(Struct, frozen=True):
    """`devices`: GPU ids of each node. `notes`: what a user should know."""

    objects: Sequence[Object]
    devices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    notes: Sequence[str] = ()


def choose_nodes(documents: Sequence[Object], file: Path | None) -> ChosenNodes:
    """Nodes for these manifests. Raises ValueError for a file that cannot be used."""
    if file is not None:
        objects = nodes_from_file(file)
        return ChosenNodes(objects, share_gpus(objects, machine_facts().gpus), (_said_of_file(len(objects), file),))
    facts = machine_facts()
    fitted = nodes_to_fit(documents, machine_node(facts))
    return ChosenNodes(fitted.nodes, share_gpus(fitted.nodes, facts.gpus), fitted.notes)


def share_gpus(nodes: Sequence[Object], gpus: Sequence[str]) -> dict[str, Sequence[str]]:
    """The machine's GPUs for the nodes that offer some, in order, as far as they go.

    A node that offers more than are left gets none, and its pods see all of the machine's: it only counts them.
    """
    shared: dict[str, Sequence[str]] = {}
    left = list(gpus)
    for node in nodes:
        offered = int(node["status"]["allocatable"].get(GPU, 0))
        if 0 < offered <= len(left):
            shared[node["metadata"]["name"]], left = left[:offered], left[offered:]
    return shared


def _said_of_file(count: int, file: Path) -> str:
    return f"{count} {'node' if count == 1 else 'nodes'} of {file}; all pods run on this machine"
