"""`jobset run`: what the user asked for, as a cluster and a session. Manifests are judged before anything starts."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from jobset.api.meta import Object
from jobset.cli.manifest import BadManifest, Document, Problem, read_manifest
from jobset.cli.settings import apply_settings
from jobset.cli.verdict import admitted
from jobset.core.features import FeatureGates

if TYPE_CHECKING:
    from jobset.cli.session import SessionOptions
    from jobset.cluster.runtime.process.runtime import Network

WORKLOAD_KINDS = ("JobSet", "Job", "Pod")
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?")


class Duration(click.ParamType[float]):
    """Seconds, or 90s, 15m, 1h30m."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        match = _DURATION.fullmatch(str(value).strip())
        if match is None or not any(match.groups()):
            self.fail(f"{value!r} is not a duration; write 90s, 15m or 1h30m", param, ctx)
        hours, minutes, seconds = (float(group or 0) for group in match.groups())
        return hours * 3600 + minutes * 60 + seconds


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE|URL|-...")
@click.option("--set", "settings", multiple=True, metavar="PATH=VALUE", help="Change a field first; may be repeated.")
@click.option("--namespace", "-n", default="default", show_default=True, help="Namespace of objects that name none.")
@click.option("--timeout", type=Duration(), metavar="DURATION", help="Give up after 90s, 15m, 1h30m; exit code 124.")
@click.option("--keep", is_flag=True, help="Leave volumes, pod files and logs on disk, and say where.")
@click.option("--logs", type=click.Path(file_okay=False, path_type=Path), help="Copy every container's output to DIR.")
@click.option("--network", type=click.Choice(["auto", "pod", "host"]), default="auto", show_default=True)
@click.option("--nodes", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Virtual nodes from FILE.")
@click.option("--output", "-o", type=click.Choice(["text", "json", "events"]), default="text", show_default=True)
@click.option("--quiet", "-q", is_flag=True, help="Show only how it ended.")
def run(
    files: tuple[str, ...],
    settings: tuple[str, ...],
    namespace: str,
    timeout: float | None,
    keep: bool,
    logs: Path | None,
    network: Network,
    nodes: Path | None,
    output: Literal["text", "json", "events"],
    quiet: bool,
) -> None:
    """Run the JobSets, Jobs and Pods of a manifest on this machine, to their end.

    Every pod is a process here: images are not pulled, commands run on this machine's files. Nothing is left
    afterwards but what --keep and --logs keep.

    Exit code 0: all completed; 1: something failed; 2: the manifest cannot be used; 124: --timeout; 130: interrupted
    (Ctrl-C ends the pods gracefully, twice kills them).
    """
    documents, notes = _documents(files, settings)
    objects = [_in_namespace(document, namespace) for document in documents]
    if not any(obj["kind"] in WORKLOAD_KINDS for obj in objects):
        raise BadManifest([Problem(", ".join(files), "holds no JobSet, Job or Pod to run")])
    from jobset.cli.session import SessionOptions

    root = Path(tempfile.mkdtemp(prefix="jobset-"))
    options = SessionOptions(objects, output, quiet, timeout, logs, root if keep else None)
    try:
        code = asyncio.run(_session(options, root, network, nodes, notes))
    finally:
        if not keep:
            shutil.rmtree(root, ignore_errors=True)
    raise click.exceptions.Exit(code)


def _documents(files: Sequence[str], settings: Sequence[str]) -> tuple[list[Document], list[str]]:
    """Read and judged. Raises BadManifest with every problem of every file."""
    documents: list[Document] = []
    notes: list[str] = []
    for file in files:
        manifest = read_manifest(file)
        documents += manifest.documents
        notes += manifest.notes
    changed = list(apply_settings(documents, settings))
    admitted(changed, FeatureGates())
    return changed, notes


def _in_namespace(document: Document, namespace: str) -> Object:
    obj: Object = document.object
    if not document.resource.namespaced:
        return obj
    return {**obj, "metadata": {**obj["metadata"], "namespace": obj["metadata"].get("namespace") or namespace}}


async def _session(
    options: SessionOptions, root: Path, network: Network, nodes_file: Path | None, notes: Sequence[str]
) -> int:
    from jobset.cli.session import Session, now_utc
    from jobset.cluster.embedded import EmbeddedOptions
    from jobset.cluster.kubelet.env import inherited_env
    from jobset.cluster.kubelet.execution import Machine
    from jobset.cluster.runtime.port import CannotStart
    from jobset.cluster.runtime.process.runtime import ProcessRuntime
    from jobset.local.cluster import local_cluster
    from jobset.local.nodes import choose_nodes

    gc.set_threshold(50_000, 20, 100)  # most of what is allocated here lives long: full collections only cost
    runtime = ProcessRuntime(root, network=network, owns_directory=options.kept is None)
    try:
        nodes = choose_nodes(options.documents, nodes_file)
    except ValueError as error:
        raise BadManifest([Problem(str(nodes_file), str(error))]) from None
    machine = Machine(inherited_env(os.environ, sys.executable), str(Path.cwd()), keep_files=options.kept is not None)
    cluster_options = EmbeddedOptions(root, runtime, nodes.objects, now_utc, machine, nodes.devices)
    try:
        async with local_cluster(cluster_options) as cluster:
            assert runtime.network is not None
            said = [*notes, *nodes.notes, runtime.network.sentence, "images are not pulled: pods are processes here"]
            return await Session(cluster, options, sys.stdout, said).execute()
    except CannotStart as error:
        raise click.ClickException(str(error)) from None
