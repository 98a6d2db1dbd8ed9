"""What `jobset up` was asked for, as the options of a kept cluster. Imported only when one is really started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from jobset.cli.clock import now_utc
from jobset.cluster.kubelet.env import inherited_env
from jobset.cluster.kubelet.execution import Machine
from jobset.cluster.runtime.process.runtime import Network
from jobset.cluster.store.sqlite import Durability
from jobset.local.kept import KeptOptions, StoreKind
from jobset.local.kept_place import Place
from jobset.local.nodes import choose_nodes


def kept_options(
    place: Place,
    nodes: Path | None,
    network: Network,
    listen: str,
    port: int | None,
    store: StoreKind,
    durability: Durability,
) -> KeptOptions:
    """Raises BadParameter for a file of nodes that cannot be used."""
    try:
        chosen = choose_nodes((), nodes)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--nodes") from None
    machine = Machine(inherited_env(os.environ, sys.executable), str(Path.cwd()))
    return KeptOptions(place, chosen, machine, now_utc, network, listen, port, store, durability)
