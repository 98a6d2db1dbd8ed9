"""`jobset run`: what the user asked for, as a cluster and a session. Manifests are judged before anything starts.

What is not needed to judge them is imported while the node process starts.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jobset.api.meta import Object
from jobset.cli.clock import now_utc
from jobset.cli.durations import Duration
from jobset.cli.interruption import Interruption
from jobset.cli.manifest import BadManifest, Document, Problem, read_manifest
from jobset.cli.session_options import OutputFormat, SessionOptions
from jobset.cli.settings import apply_settings
from jobset.cli.verdict import admitted
from jobset.core.features import FeatureGates

if TYPE_CHECKING:
    from jobset.cluster.runtime.process.runtime import Network, ProcessRuntime
    from jobset.local.nodes import ChosenNodes

WORKLOAD_KINDS = ("JobSet", "Job", "Pod")
CONTROLLERS = {"JobSet": "jobset.sigs.k8s.io/jobset-controller", "Job": "kubernetes.io/job-controller"}


class NamespaceName(click.ParamType[str]):
    """The name of a namespace."""

    name = "namespace"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", str(value)):
            self.fail(f"{value!r} is not a name of lower case letters, digits and '-', 63 at most", param, ctx)
        return str(value)


EPILOG = """\b
Exit code:
  0    all completed
  1    something failed
  2    the input cannot be used; nothing was started
  124  --timeout came first
  130  interrupted: Ctrl-C ends the pods gracefully, twice kills them

\b
--output json prints one document when all is over: result, exitCode, logs,
and of each workload its result, message, durationSeconds, restarts, attempts
(with the containers that failed, first ones first, and their last lines),
jobRestarts, and waitsFor: why it is not finished, if it is not.

\b
--output events prints one JSON object a line, with time, type, and by type:
  note                     text, warning
  added, changed, deleted  object: a JobSet, Job or Pod
  event                    object: a Kubernetes Event
  log                      namespace, pod, container, attempt, stream, line
  result                   what --output json prints; the last line
"""


@click.command(epilog=EPILOG)
@click.argument("files", nargs=-1, required=True, metavar="FILE|URL|-...")
@click.option("--set", "settings", multiple=True, metavar="PATH=VALUE", help="Change a field first; may be repeated.")
@click.option(
    "--namespace", "-n", type=NamespaceName(), default="default", show_default=True, metavar="NAME",
    help="Namespace of objects that name none.",
)  # fmt: skip
@click.option("--timeout", type=Duration(), metavar="DURATION", help="Give up after 90s, 15m, 1h30m.")
@click.option("--keep", is_flag=True, help="Leave volumes, pod files and logs on disk, and say where.")
@click.option(
    "--logs", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    help="Copy every container's output to DIR/POD/CONTAINER.log.",
)  # fmt: skip
@click.option(
    "--network", type=click.Choice(["auto", "pod", "host"]), default="auto", show_default=True,
    help="pod: a network namespace and an address for each pod; host: the machine's network, with an address of "
    "127.0.0.0/8 for each pod.",
)  # fmt: skip
@click.option(
    "--nodes", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
    help="Virtual nodes to schedule on, all on this machine. Without it: this machine, and nodes made to fit.",
)  # fmt: skip
@click.option(
    "--output", "-o", type=click.Choice(["text", "json", "events"]), default="text", show_default=True,
    help="For people, or for programs (see below).",
)  # fmt: skip
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
    output: OutputFormat,
    quiet: bool,
) -> None:
    """Run the JobSets, Jobs and Pods of a manifest on this machine, to their end.

    Every pod is a process here: images are not pulled, commands run on this machine's files. ConfigMaps, Secrets,
    PersistentVolumeClaims, Services and PriorityClasses may stand beside them, in one file or several. Nothing is left
    afterwards but what --keep and --logs keep.
    """

    documents, notes = _documents(files, settings, namespace)
    objects = [_in_namespace(document, namespace) for document in documents]
    chosen = _choose_nodes(objects, nodes)
    if logs is not None:
        _make_directory(logs)
    with Interruption() as interruption:
        root = Path(tempfile.mkdtemp(prefix="jobset-"))
        kept = root if keep else None
        options = SessionOptions(objects, output, quiet, timeout, logs, kept, (*notes, *chosen.notes))
        try:
            code = _execute(options, chosen, root, network, interruption)
        finally:
            if not keep:
                shutil.rmtree(root, ignore_errors=True)
    raise click.exceptions.Exit(code)


def _documents(files: Sequence[str], settings: Sequence[str], namespace: str) -> tuple[list[Document], list[str]]:
    """Read and judged. Raises BadManifest with every problem of every file."""
    documents: list[Document] = []
    notes: list[str] = []
    for file in files:
        manifest = read_manifest(file)
        documents += manifest.documents
        notes += manifest.notes
    changed = list(apply_settings(documents, settings))
    admitted(changed, FeatureGates(), namespace)
    if not any(document.object["kind"] in WORKLOAD_KINDS for document in changed):
        raise BadManifest([Problem(", ".join(files), "holds no JobSet, Job or Pod to run")])
    if problems := [problem for document in changed if (problem := _never_runs(document))]:
        raise BadManifest(problems)
    return changed, notes


def _never_runs(document: Document) -> Problem | None:
    """Waiting for what cannot come on this machine would be waiting for ever."""
    own = CONTROLLERS.get(document.object["kind"])
    if own is None:
        return None
    spec = document.object["spec"]
    if spec.get("suspend"):
        message = "is true, and nothing on this machine will resume it; --set spec.suspend=false runs it"
        return Problem(document.where("spec.suspend"), message, "spec.suspend")
    if spec.get("managedBy", own) != own:
        message = f"leaves it to {spec['managedBy']}, which does not run here; --set spec.managedBy={own} runs it"
        return Problem(document.where("spec.managedBy"), message, "spec.managedBy")
    return None


def _in_namespace(document: Document, namespace: str) -> Object:
    obj: Object = document.object
    if not document.resource.namespaced:
        return obj
    return {**obj, "metadata": {**obj["metadata"], "namespace": obj["metadata"].get("namespace") or namespace}}


def _choose_nodes(objects: Sequence[Object], file: Path | None) -> ChosenNodes:
    from jobset.local.nodes import choose_nodes

    try:
        return choose_nodes(objects, file)
    except ValueError as error:
        raise BadManifest([Problem("--nodes", str(error))]) from None


def _make_directory(logs: Path) -> None:
    try:
        logs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadManifest([Problem(f"--logs {logs}", f"cannot be made: {error.strerror}")]) from None


def _execute(
    options: SessionOptions, nodes: ChosenNodes, root: Path, network: Network, interruption: Interruption
) -> int:
    """A cluster, and a session on it. `root` is theirs. Returns the exit code."""
    from jobset.cluster.runtime.port import CannotStart
    from jobset.cluster.runtime.process.runtime import ProcessRuntime

    runtime = ProcessRuntime(root, network=network, owns_directory=options.kept is None)
    runtime.launch()
    try:
        return asyncio.run(_session(options, nodes, root, runtime, interruption))
    except CannotStart as error:
        raise click.ClickException(str(error)) from None


async def _session(
    options: SessionOptions, nodes: ChosenNodes, root: Path, runtime: ProcessRuntime, interruption: Interruption
) -> int:
    interruption.heed()
    from jobset.cli.session import Session
    from jobset.cluster.embedded import EmbeddedOptions
    from jobset.cluster.kubelet.env import inherited_env
    from jobset.cluster.kubelet.execution import Machine
    from jobset.local.cluster import local_cluster

    machine = Machine(inherited_env(os.environ, sys.executable), str(Path.cwd()), options.kept is not None)
    cluster_options = EmbeddedOptions(root, runtime, nodes.objects, now_utc, machine, nodes.devices)
    async with local_cluster(cluster_options) as cluster:
        assert runtime.network is not None
        notes = (runtime.network.sentence, "images are not pulled: pods are processes here")
        return await Session(cluster, options, interruption, notes).execute()
