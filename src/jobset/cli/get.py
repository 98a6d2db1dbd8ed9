"""`jobset get`: the JobSets of a namespace as a list, or one as a tree down to its pods; `-w` follows the changes."""

from __future__ import annotations

import json

import click

from jobset.api.labels import JOBSET_NAME
from jobset.api.meta import Object
from jobset.api.resources import JOBS, JOBSETS, PODS
from jobset.cli.board import jobset_row
from jobset.cli.clock import now_utc
from jobset.cli.columns import age_of
from jobset.cli.connection import Connection, bare_name, complete_jobsets, on_cluster
from jobset.cli.documents import full_name, list_of, printed, without_managed_fields
from jobset.cli.jobset_list import JobSetList
from jobset.cli.tree import tree_lines

PEOPLE = ("text", "wide")


@click.command()
@click.argument("name", required=False, shell_complete=complete_jobsets)
@click.option("--all-namespaces", "-A", is_flag=True, help="The JobSets of all namespaces.")
@click.option("--selector", "-l", default="", metavar="LABELS", help="Only those with these labels.")
@click.option("--watch", "-w", is_flag=True, help="Go on showing changes until interrupted.")
@click.option("--output", "-o", type=click.Choice([*PEOPLE, "json", "yaml", "name"]), default="text", show_default=True)
@on_cluster
def get(
    connection: Connection, name: str | None, all_namespaces: bool, selector: str, watch: bool, output: str
) -> None:
    """List JobSets, or show the tree of one: its replicated jobs, their Jobs, their pods, and why they wait."""
    if name and (all_namespaces or selector):
        raise click.UsageError("a NAME goes with neither --all-namespaces nor --selector")
    if watch and output == "yaml":
        raise click.UsageError("--watch goes with text, wide, json (one object a line) and name")
    if name:
        _one(connection, bare_name(name), watch, output)
        return
    namespace = "" if all_namespaces else connection.namespace
    if watch:
        _watch_list(connection, namespace, selector, output)
    else:
        _list(connection, namespace, selector, output)


def _list(connection: Connection, namespace: str, selector: str, output: str) -> None:
    items = connection.query.list(JOBSETS, namespace, selector).items
    if output in ("json", "yaml"):
        click.echo(printed(list_of(items), output))
    elif output == "name":
        click.echo("".join(f"{full_name(item)}\n" for item in items), nl=False)
    elif items:
        click.echo("\n".join(_listing(namespace, output).table(items, now_utc())))
    else:
        place = f"in namespace {namespace}" if namespace else "on this cluster"
        click.echo(f"There are no JobSets {place}.", err=True)


def _watch_list(connection: Connection, namespace: str, selector: str, output: str) -> None:
    """What there is as a table, then a line for each change, for ever."""
    listing = _listing(namespace, output)
    versions: dict[str, str] = {}
    for change in connection.query.watch(JOBSETS, namespace, selector):
        new = [
            obj for obj in change.objects if versions.get(obj["metadata"]["uid"]) != obj["metadata"]["resourceVersion"]
        ]
        versions |= {obj["metadata"]["uid"]: obj["metadata"]["resourceVersion"] for obj in new}
        if output not in PEOPLE:
            lines = [_one_line(obj, output) for obj in new]
        elif change.type == "LISTED" and len(versions) == len(new):
            lines = listing.table(new, now_utc())
        else:
            lines = listing.lines(new, now_utc(), deleted=change.type == "DELETED")
        if lines:
            click.echo("\n".join(lines))


def _listing(namespace: str, output: str) -> JobSetList:
    return JobSetList(wide=output == "wide", with_namespace=not namespace)


def _one(connection: Connection, name: str, watch: bool, output: str) -> None:
    if watch and output in PEOPLE:
        from jobset.cli.tree_watch import watch_tree

        watch_tree(connection, name, everything=output == "wide")
    elif watch:
        for change in connection.query.watch(JOBSETS, connection.namespace, field_selector=f"metadata.name={name}"):
            for obj in change.objects:
                click.echo(_one_line(obj, output))
    elif output in PEOPLE:
        click.echo("\n".join(_tree(connection, name, everything=output == "wide")))
    else:
        jobset = connection.jobset(name)
        click.echo(full_name(jobset) if output == "name" else printed(without_managed_fields(jobset), output))


def _tree(connection: Connection, name: str, *, everything: bool) -> list[str]:
    jobset = connection.jobset(name)
    belonging = f"{JOBSET_NAME}={name}"
    jobs = connection.query.list(JOBS, connection.namespace, belonging).items
    pods = connection.query.list(PODS, connection.namespace, belonging).items
    return tree_lines(jobset_row(jobset, jobs, pods), age_of(jobset, now_utc()), everything=everything)


def _one_line(jobset: Object, output: str) -> str:
    if output == "name":
        return full_name(jobset)
    return json.dumps(without_managed_fields(jobset), ensure_ascii=False)
