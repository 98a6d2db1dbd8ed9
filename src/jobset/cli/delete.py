"""`jobset delete`: JobSets, and what belongs to them as `--cascade` says; `--wait` until nothing of them is left."""

from __future__ import annotations

import time

import click

from jobset.api.errors import NotFound
from jobset.api.labels import JOBSET_UID
from jobset.api.meta import Object
from jobset.api.resources import JOBS, JOBSETS, PODS, Resource
from jobset.cli.connection import CommandFailed, Connection, bare_name, complete_jobsets, on_cluster
from jobset.cli.documents import echo_objects, full_name
from jobset.cli.durations import Duration
from jobset.client.port import Propagation
from jobset.client.query import WatchTimedOut

CASCADES: dict[str, Propagation] = {"background": "Background", "foreground": "Foreground", "orphan": "Orphan"}


@click.command()
@click.argument("names", nargs=-1, metavar="NAME...", shell_complete=complete_jobsets)
@click.option("--all", "everything", is_flag=True, help="All JobSets of the namespace.")
@click.option("--selector", "-l", default="", metavar="LABELS", help="All JobSets with these labels.")
@click.option(
    "--cascade", type=click.Choice(list(CASCADES)), default="background", show_default=True,
    help="foreground: the JobSet goes last; orphan: its Jobs and pods stay.",
)  # fmt: skip
@click.option("--wait", is_flag=True, help="Until the JobSets, their Jobs and their pods are gone.")
@click.option("--timeout", type=Duration(), metavar="DURATION", help="Wait at most 90s, 15m, 1h30m.")
@click.option("--ignore-not-found", is_flag=True, help="A JobSet that does not exist is no error.")
@click.option("--dry-run", is_flag=True, help="Let the cluster say what it would do.")
@click.option("--output", "-o", type=click.Choice(["text", "json", "yaml", "name"]), default="text", show_default=True)
@on_cluster
def delete(
    connection: Connection,
    names: tuple[str, ...],
    everything: bool,
    selector: str,
    cascade: str,
    wait: bool,
    timeout: float | None,
    ignore_not_found: bool,
    dry_run: bool,
    output: str,
) -> None:
    """Delete JobSets, and with them their Jobs and pods."""
    if bool(names) == bool(everything or selector):
        raise click.UsageError("name the JobSets, or choose them with --all or --selector")
    deadline = None if timeout is None else time.monotonic() + timeout
    deleted = []
    for jobset in _chosen(connection, names, selector, ignore_not_found=ignore_not_found):
        name = jobset["metadata"]["name"]
        uid, propagation = jobset["metadata"]["uid"], CASCADES[cascade]
        connection.query.delete(JOBSETS, connection.namespace, name, uid=uid, propagation=propagation, dry_run=dry_run)
        deleted.append(jobset)
        if output == "text":
            click.echo(f"{full_name(jobset)} {'would be deleted (dry run)' if dry_run else 'deleted'}")
    if wait and not dry_run:
        for jobset in deleted:
            _wait_gone(connection, jobset, deadline, orphan=cascade == "orphan")
    echo_objects(deleted, output)


def _chosen(connection: Connection, names: tuple[str, ...], selector: str, *, ignore_not_found: bool) -> list[Object]:
    if not names:
        return connection.query.list(JOBSETS, connection.namespace, selector).items
    found = []
    for name in map(bare_name, names):
        try:
            found.append(connection.jobset(name))
        except NotFound as error:
            if not ignore_not_found or not error.name:
                raise
    return found


def _wait_gone(connection: Connection, jobset: Object, deadline: float | None, *, orphan: bool) -> None:
    metadata = jobset["metadata"]
    try:
        _until_none(connection, JOBSETS, metadata["uid"], deadline, field_selector=f"metadata.name={metadata['name']}")
        for resource in () if orphan else (JOBS, PODS):
            _until_none(connection, resource, "", deadline, label_selector=f"{JOBSET_UID}={metadata['uid']}")
    except WatchTimedOut:
        raise CommandFailed(f"timed out waiting for the deletion of {full_name(jobset)}") from None


def _until_none(
    connection: Connection,
    resource: Resource,
    uid: str,
    deadline: float | None,
    label_selector: str = "",
    field_selector: str = "",
) -> None:
    """Until nothing that the selectors choose is there; with a uid, only that object counts."""
    left = None if deadline is None else deadline - time.monotonic()
    there: set[str] = set()
    for change in connection.query.watch(resource, connection.namespace, label_selector, field_selector, left):
        if change.type == "LISTED":
            there = {obj["metadata"]["uid"] for obj in change.listed}
        elif change.type == "DELETED":
            there.discard(change.object["metadata"]["uid"])
        else:
            there.add(change.object["metadata"]["uid"])
        if not (there & {uid} if uid else there):
            return
