"""`jobset node join`: this machine becomes a node of a cluster, until it is interrupted."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jobset.api.errors import ApiError
from jobset.api.meta import Object
from jobset.api.selectors import is_label_key, is_label_value
from jobset.cli.clock import now_utc
from jobset.cli.connection import CommandFailed, complete_contexts
from jobset.cli.interruption import Interruption
from jobset.client.kubeconfig import BadKubeconfig, Target, load_target

if TYPE_CHECKING:
    from jobset.cluster.runtime.process.runtime import Network
    from jobset.local.joined_node import JoinedNode, JoinOptions


@click.group()
def node() -> None:
    """Let this machine run pods of a cluster."""


@node.command()
@click.option("--kubeconfig", metavar="FILE", help="Instead of $KUBECONFIG or ~/.kube/config.")
@click.option("--context", metavar="NAME", shell_complete=complete_contexts, help="Instead of the current context.")
@click.option("--name", metavar="NAME", help="Of the node. Without it: this machine's host name.")
@click.option("--labels", multiple=True, metavar="KEY=VALUE,...", help="More labels of the node. May be given again.")
@click.option("--taint", "taints", multiple=True, metavar="KEY[=VALUE]:EFFECT",
              help="Keep pods away that do not tolerate it. May be given again.")  # fmt: skip
@click.option(
    "--network", type=click.Choice(["auto", "pod", "host"]), default="auto", show_default=True,
    help="pod: a network namespace and an address for each pod; host: the machine's network.",
)  # fmt: skip
def join(
    kubeconfig: str | None,
    context: str | None,
    name: str | None,
    labels: tuple[str, ...],
    taints: tuple[str, ...],
    network: Network,
) -> None:
    """Join a cluster as a node, and run its pods as processes until Ctrl-C.

    Images are not pulled: commands run on this machine. Pods talk to each other on this node; pods of other nodes do
    not reach them, and the API server asks this node for no logs and opens no shells. Ctrl-C drains the node and
    removes it; a second one does not wait for the pods' grace.
    """
    more = _labels(labels)
    spec = {"taints": [_taint(text) for text in taints]} if taints else {}
    try:
        target = load_target(os.environ, kubeconfig=kubeconfig or "", context=context or "")
    except BadKubeconfig as error:
        raise CommandFailed(str(error)) from error
    from jobset.cluster.runtime.port import CannotStart
    from jobset.local.joined_node import NameTaken

    with Interruption() as interruption:
        root = Path(tempfile.mkdtemp(prefix="jobset-node-"))
        try:
            asyncio.run(_stay(_options(target, name, more, spec, root, network), interruption))
        except NameTaken as error:
            raise CommandFailed(f"{error}; choose another --name") from error
        except (CannotStart, BadKubeconfig) as error:
            raise CommandFailed(str(error)) from error
        except ApiError as error:
            raise CommandFailed(f"{error.message} ({target.where})") from error


def _options(
    target: Target, name: str | None, labels: Object, spec: Object, root: Path, network: Network
) -> JoinOptions:
    from jobset.cluster.kubelet.env import inherited_env
    from jobset.cluster.kubelet.execution import Machine
    from jobset.cluster.nodes import machine_facts, machine_node
    from jobset.local.joined_node import JoinOptions, own_address
    from jobset.local.nodes import share_gpus

    facts = machine_facts()
    made = machine_node(facts, name=name or "")
    metadata = {**made["metadata"], "labels": {**made["metadata"]["labels"], **labels}}
    addresses = [
        {"type": "InternalIP", "address": own_address(target)},
        {"type": "Hostname", "address": facts.hostname},
    ]
    made = {**made, "metadata": metadata, "spec": spec, "status": {**made["status"], "addresses": addresses}}
    machine = Machine(inherited_env(os.environ, sys.executable), str(Path.cwd()))
    return JoinOptions(target, made, machine, root, now_utc, network, share_gpus([made], facts.gpus))


async def _stay(options: JoinOptions, interruption: Interruption) -> None:
    from jobset.local.joined_node import joined_node

    interruption.heed()
    async with joined_node(options) as joined:
        click.echo(f"node {joined.name} is in the cluster {options.target.server} ({options.target.where})")
        click.echo(joined.network.sentence)
        click.echo(f"logs of its pods: {options.root / 'pods'}; Ctrl-C drains and removes the node")
        await interruption.wait(1)
        await _leave(joined, interruption)
    click.echo(f"node {joined.name} has left the cluster")


async def _leave(joined: JoinedNode, interruption: Interruption) -> None:
    count = len(await joined.pods())
    if count:
        click.echo(f"waiting for {count} {'pod' if count == 1 else 'pods'} to end; Ctrl-C again does not wait")
    async with asyncio.TaskGroup() as group:
        draining = group.create_task(_drain(joined))
        hurry = group.create_task(interruption.wait(2))
        await asyncio.wait({draining, hurry}, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        if not draining.done():
            draining.cancel()
            group.create_task(_drain(joined, at_once=True))


async def _drain(joined: JoinedNode, at_once: bool = False) -> None:
    """Whatever the cluster says: we leave."""
    try:
        await joined.drain(at_once=at_once)
    except ApiError as error:
        click.echo(f"error: cannot drain node {joined.name}: {error.message}", err=True)


def _labels(texts: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in ",".join(texts).split(",") if texts else ():
        key, equals, value = text.strip().partition("=")
        if not equals or not is_label_key(key) or not is_label_value(value):
            raise click.BadParameter(f"{text!r} is not a label: write KEY=VALUE", param_hint="--labels")
        found[key] = value
    return found


def _taint(text: str) -> Object:
    described, _, effect = text.rpartition(":")
    key, _, value = described.partition("=")
    if effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute") or not is_label_key(key):
        wanted = "KEY[=VALUE]:EFFECT, where EFFECT is NoSchedule, PreferNoSchedule or NoExecute"
        raise click.BadParameter(f"{text!r} is not a taint: write {wanted}", param_hint="--taint")
    return {"key": key, "effect": effect, **({"value": value} if value else {})}
