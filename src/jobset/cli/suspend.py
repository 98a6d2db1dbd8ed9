"""`jobset suspend`, and what `jobset resume` shares with it: one field of the spec, changed with a word about it."""

from __future__ import annotations

from collections.abc import Sequence

import click

from jobset.api.meta import Object
from jobset.api.resources import JOBSETS
from jobset.cli.connection import CommandFailed, Connection, bare_name, complete_jobsets, on_cluster
from jobset.cli.documents import echo_objects, full_name

_QUEUE = "kueue.x-k8s.io/queue-name"


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_jobsets)
@click.option("--output", "-o", type=click.Choice(["text", "json", "yaml", "name"]), default="text", show_default=True)
@on_cluster
def suspend(connection: Connection, names: tuple[str, ...], output: str) -> None:
    """Stop JobSets until they are resumed: their pods are ended, their Jobs stay."""
    set_suspend(connection, names, output, suspended=True)


def set_suspend(connection: Connection, names: Sequence[str], output: str, *, suspended: bool) -> None:
    """Set spec.suspend of each, and say so. One that is as wanted already is not touched."""
    changed: list[Object] = []
    for name in map(bare_name, names):
        jobset = connection.jobset(name)
        done = "suspended" if suspended else "resumed"
        if ended := (jobset.get("status") or {}).get("terminalState"):
            raise CommandFailed(f"JobSet {name} is {ended.lower()}: it cannot be {done}")
        if bool(jobset["spec"].get("suspend")) == suspended:
            done = f"{'suspended' if suspended else 'not suspended'} already"
        else:
            patch = {"spec": {"suspend": suspended}}
            jobset = connection.query.patch(JOBSETS, connection.namespace, name, patch)
            _warn_of_queue(jobset)
        changed.append(jobset)
        if output == "text":
            click.echo(f"{full_name(jobset)} {done}")
    echo_objects(changed, output)


def _warn_of_queue(jobset: Object) -> None:
    queue = (jobset["metadata"].get("labels") or {}).get(_QUEUE)
    if queue:
        name = jobset["metadata"]["name"]
        click.echo(
            f"warning: {name} is in the queue {queue}: Kueue decides when it runs, and may change this back", err=True
        )
