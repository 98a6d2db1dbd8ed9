"""`jobset events`: what Kubernetes and the JobSet controller noted, of one JobSet with its Jobs and pods, or of all."""

from __future__ import annotations

import json
from collections.abc import Callable

import click

from jobset.api.errors import NotFound
from jobset.api.meta import Object
from jobset.api.resources import CORE_EVENTS
from jobset.cli.clock import now_utc
from jobset.cli.connection import Connection, bare_name, complete_jobsets, on_cluster
from jobset.cli.documents import list_of, printed, without_managed_fields
from jobset.cli.event_list import EventList, about, in_order


@click.command()
@click.argument("name", required=False, shell_complete=complete_jobsets)
@click.option("--all-namespaces", "-A", is_flag=True, help="The events of all namespaces.")
@click.option("--watch", "-w", is_flag=True, help="Go on showing events until interrupted.")
@click.option("--warnings", is_flag=True, help="Only warnings.")
@click.option("--output", "-o", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
@on_cluster
def events(
    connection: Connection, name: str | None, all_namespaces: bool, watch: bool, warnings: bool, output: str
) -> None:
    """Show the events of a JobSet, its Jobs and its pods; without a NAME those of the namespace."""
    if name and all_namespaces:
        raise click.UsageError("a NAME does not go with --all-namespaces")
    if watch and output == "yaml":
        raise click.UsageError("--watch goes with text and json (one object a line)")
    namespace = "" if all_namespaces else connection.namespace
    wanted = _chosen(connection, name)
    selector = "type=Warning" if warnings else ""
    if watch:
        _watch(connection, namespace, selector, wanted, output)
        return
    found = [event for event in connection.query.list(CORE_EVENTS, namespace, "", selector).items if wanted(event)]
    if output != "text":
        click.echo(printed(list_of(in_order(found)), output))
    elif found:
        click.echo("\n".join(EventList(with_namespace=not namespace).table(found, now_utc())))
    else:
        click.echo(f"There are no events{f' about JobSet {name}' if name else ''}.", err=True)


def _chosen(connection: Connection, name: str | None) -> Callable[[Object], bool]:
    """Of a JobSet that is gone there may be events still."""
    if not name:
        return lambda _: True
    name = bare_name(name)
    try:
        return about(name, connection.jobset(name))
    except NotFound as error:
        if not error.name:
            raise
        return about(name, None)


def _watch(
    connection: Connection, namespace: str, selector: str, wanted: Callable[[Object], bool], output: str
) -> None:
    listing = EventList(with_namespace=not namespace)
    versions: dict[str, str] = {}
    for change in connection.query.watch(CORE_EVENTS, namespace, "", selector):
        if change.type == "DELETED":
            continue  # the server forgets old ones
        first = change.type == "LISTED" and not versions
        new = [event for event in change.objects if wanted(event)]
        new = [event for event in new if versions.get(event["metadata"]["uid"]) != event["metadata"]["resourceVersion"]]
        versions |= {event["metadata"]["uid"]: event["metadata"]["resourceVersion"] for event in new}
        if output == "json":
            lines = [json.dumps(without_managed_fields(event), ensure_ascii=False) for event in in_order(new)]
        else:
            lines = listing.table(new, now_utc()) if first else listing.lines(new, now_utc())
        if lines:
            click.echo("\n".join(lines))
