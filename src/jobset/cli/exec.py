"""`jobset exec`: a command in a running container, found by its pod's place in a JobSet or by the pod's name."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from jobset.api.errors import NotFound
from jobset.api.meta import Object
from jobset.api.resources import PODS
from jobset.cli.board import pod_row
from jobset.cli.connection import CommandFailed, Connection, on_cluster
from jobset.cli.pod_paths import FORM, PodPath, attempt_of, complete_pods, parse_path, path_of_pod

_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


@click.command("exec")
@click.argument("place", metavar=f"{FORM}|POD", shell_complete=complete_pods)
@click.argument("command", nargs=-1, required=True, metavar="-- COMMAND...", type=click.UNPROCESSED)
@click.option("--container", "-c", default="", metavar="NAME", help="Not the pod's first container.")
@click.option("--stdin", "-i", is_flag=True, help="Hand on standard input.")
@click.option("--tty", "-t", is_flag=True, help="Give the command a terminal.")
@on_cluster
def exec(connection: Connection, place: str, command: tuple[str, ...], container: str, stdin: bool, tty: bool) -> None:
    """Run a command in a pod of a JobSet; the exit code is the command's.

    What is left open in NAME/REPLICATED-JOB/JOB-INDEX/POD-INDEX is the coordinator's, or the first.
    """
    pod = _find_pod(connection, place)
    name = pod["metadata"]["name"]
    if place not in (name, path_of_pod(pod)):
        click.echo(f"in pod {path_of_pod(pod)} ({name})", err=True)
    chosen = _container(pod, container)
    if tty and not (stdin and sys.stdin.isatty()):
        tty = False
        click.echo("warning: no terminal for the command: standard input is none (-i -t on a terminal)", err=True)
    from jobset.cli.exec_streams import run_command

    code = run_command(connection, name, chosen, command, stdin=stdin, tty=tty)
    raise click.exceptions.Exit(code)


def _find_pod(connection: Connection, place: str) -> Object:
    """The running pod of the latest attempt at a place, or the pod of this name."""
    path = parse_path(place)
    try:
        jobset = connection.jobset(path.jobset)
    except NotFound as error:
        if not error.name or "/" in place:
            raise
        try:
            return connection.query.get(PODS, connection.namespace, place)
        except NotFound:
            raise error from None
    path = _completed(path, jobset)
    pods = connection.query.list(PODS, connection.namespace, path.selector()).items
    running = [pod for pod in pods if pod_row(pod).state in ("running", "ready")]
    if not running:
        raise CommandFailed(_why_none(path, pods))
    return max(running, key=lambda pod: (attempt_of(pod), pod["metadata"]["creationTimestamp"]))


def _completed(path: PodPath, jobset: Object) -> PodPath:
    """What the path leaves open is taken from the coordinator, or is the first."""
    coordinator = jobset["spec"].get("coordinator") or {}
    replicated = jobset["spec"].get("replicatedJobs") or ()
    first = coordinator.get("replicatedJob") or (replicated[0]["name"] if replicated else "")
    name = path.replicated_job or first
    known = [each["name"] for each in replicated]
    if name not in known:
        raise CommandFailed(f"JobSet {path.jobset} has no replicated job {name}; there are: {', '.join(known)}")
    defaults = coordinator if name == coordinator.get("replicatedJob") else {}
    job = path.job_index if path.job_index is not None else defaults.get("jobIndex", 0)
    pod = path.pod_index if path.pod_index is not None else defaults.get("podIndex", 0)
    return PodPath(path.jobset, name, job, pod)


def _why_none(path: PodPath, pods: Sequence[Object]) -> str:
    place = f"{path.jobset}/{path.replicated_job}/{path.job_index}/{path.pod_index}"
    if not pods:
        return f"there is no pod {place}"
    row = pod_row(pods[-1])
    return f"pod {place} is not running: it is {row.state}" + (f" ({row.note})" if row.note else "")


def _container(pod: Object, wanted: str) -> str:
    names = [each["name"] for each in pod["spec"]["containers"]]
    if not wanted:
        default = (pod["metadata"].get("annotations") or {}).get(_DEFAULT_CONTAINER)
        return str(default if default in names else names[0])
    names += [each["name"] for each in pod["spec"].get("initContainers") or ()]
    if wanted not in names:
        raise CommandFailed(f"pod {pod['metadata']['name']} has no container {wanted}; there are: {', '.join(names)}")
    return wanted
