"""`jobset wait`: until JobSets are in a state; an error at once when they cannot come to it any more."""

from __future__ import annotations

import re
import time

import click

from jobset.api.meta import Object, condition_of
from jobset.api.resources import JOBSETS
from jobset.cli.board import jobset_row
from jobset.cli.connection import CommandFailed, Connection, bare_name, complete_jobsets, on_cluster
from jobset.cli.documents import echo_objects, full_name
from jobset.cli.durations import Duration
from jobset.client.query import WatchTimedOut

STATES = ("completed", "failed", "ready", "suspended", "deleted")
_CONDITION_OF = {"completed": "Completed", "failed": "Failed", "suspended": "Suspended"}


class State(click.ParamType[str]):
    """One of the words, or condition=TYPE, or condition=TYPE=STATUS."""

    name = "state"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value == "delete":
            return "deleted"  # kubectl's word for it
        if value not in STATES and not re.fullmatch(r"condition=[^=]+(=[^=]+)?", value):
            self.fail(f"{value!r} is none of {', '.join(STATES)}, condition=TYPE, condition=TYPE=STATUS", param, ctx)
        return value


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_jobsets)
@click.option(
    "--for", "state", type=State(), default="completed", show_default=True, metavar="STATE",
    help=f"{', '.join(STATES)}, condition=TYPE or condition=TYPE=STATUS.",
)  # fmt: skip
@click.option("--timeout", type=Duration(), metavar="DURATION", help="Give up after 90s, 15m, 1h30m.")
@click.option("--output", "-o", type=click.Choice(["text", "json", "yaml", "name"]), default="text", show_default=True)
@on_cluster
def wait(connection: Connection, names: tuple[str, ...], state: str, timeout: float | None, output: str) -> None:
    """Wait until JobSets are in a state.

    Exit code 1 when the time is up, and at once when a JobSet cannot come to that state any more: when one that should
    complete has failed, or is deleted.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    reached = []
    for name in map(bare_name, names):
        jobset = _wait(connection, name, state, deadline)
        reached.append(jobset)
        if output == "text":
            click.echo(f"{full_name(jobset)} {state if state in STATES else f'{state} is met'}")
    echo_objects(reached, output)


def _wait(connection: Connection, name: str, state: str, deadline: float | None) -> Object:
    """The JobSet when it is in the state, or as it was before it went."""
    last: Object = {"apiVersion": JOBSETS.api_version, "kind": JOBSETS.kind, "metadata": {"name": name}}
    try:
        left = None if deadline is None else max(deadline - time.monotonic(), 0)
        for change in connection.query.watch(JOBSETS, connection.namespace, "", f"metadata.name={name}", left):
            current = change.listed[0] if change.listed else change.object
            gone = not current or change.type == "DELETED"
            last = current or last
            if gone and state == "deleted":
                return last
            if gone and "uid" not in last["metadata"]:
                connection.jobset(name)  # says that there is none, and what there is instead
            if gone:
                raise CommandFailed(f"{full_name(last)} was deleted")
            if holds(last, state):
                return last
            if why := out_of_reach(last, state):
                raise CommandFailed(f"{full_name(last)} {why}")
    except WatchTimedOut:
        pass
    raise CommandFailed(f"timed out waiting for {full_name(last)} to be {state}")


def holds(jobset: Object, state: str) -> bool:
    """Whether a JobSet that exists is in a state."""
    if state == "deleted":
        return False
    if state == "ready":
        row = jobset_row(jobset, (), ())
        suspended = jobset["spec"].get("suspend")
        return 0 < row.wanted <= row.up and not suspended and not _is_true(jobset, "RestartingJobSet")
    type_, _, status = _CONDITION_OF.get(state, state.removeprefix("condition=")).partition("=")
    condition = next((each for each in _conditions(jobset) if each["type"].lower() == type_.lower()), None)
    return condition is not None and condition["status"].lower() == (status or "True").lower()


def out_of_reach(jobset: Object, state: str) -> str:
    """Why a JobSet can never come to a state, or nothing."""
    if state == "deleted":
        return ""
    for end in ("Failed", "Completed"):
        if _is_true(jobset, end):
            message = (condition_of(jobset, end) or {}).get("message", "")
            return f"is {end.lower()}, so it will never be {state}: {message}"
    return ""


def _conditions(jobset: Object) -> list[Object]:
    return (jobset.get("status") or {}).get("conditions") or []


def _is_true(jobset: Object, type_: str) -> bool:
    return (condition_of(jobset, type_) or {}).get("status") == "True"
