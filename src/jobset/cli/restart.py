"""`jobset restart`: all Jobs of a JobSet anew, as after a failure, without counting towards maxRestarts.

The API has no verb for it. The controller restarts a JobSet by raising `status.restarts`: Jobs of a lower attempt are
deleted and created again, in the order and with the blocking that the spec asks for, and the pods see a higher restart
attempt. This command raises the same number through the status subresource, and leaves `restartsCountTowardsMax` alone;
it is what the failure policy action RestartJobSetAndIgnoreMaxRestarts does. Deleting the Jobs instead would bring them
back one by one under the same attempt, new ones meeting old ones.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from jobset.api.errors import Conflict, Forbidden
from jobset.api.labels import MANAGED_BY_JOBSET
from jobset.api.meta import Object, format_time
from jobset.api.resources import JOBSETS
from jobset.cli.clock import now_utc
from jobset.cli.connection import CommandFailed, Connection, bare_name, complete_jobsets, on_cluster
from jobset.cli.documents import echo_objects, full_name

MAX_TRIES = 10
RESTARTING = "RestartingJobSet"
REASON, MESSAGE = "RestartRequested", "a restart was asked for"


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_jobsets)
@click.option("--output", "-o", type=click.Choice(["text", "json", "yaml", "name"]), default="text", show_default=True)
@on_cluster
def restart(connection: Connection, names: tuple[str, ...], output: str) -> None:
    """Restart all Jobs of JobSets, as after a failure; it does not count towards maxRestarts.

    Needs to be allowed to patch jobsets/status. A JobSet that has finished cannot be restarted.
    """
    restarted = [_restart(connection, bare_name(name)) for name in names]
    if output == "text":
        for jobset in restarted:
            click.echo(f"{full_name(jobset)} restarted (attempt {jobset['status']['restarts'] + 1})")
    echo_objects(restarted, output)


def _restart(connection: Connection, name: str) -> Object:
    """The controller may write the status at the same time: whoever comes second looks again."""
    for tries_left in range(MAX_TRIES, -1, -1):
        jobset = connection.jobset(name)
        _check(jobset)
        patch = restart_patch(jobset, now_utc())
        try:
            return connection.query.patch(JOBSETS, connection.namespace, name, patch, subresource="status")
        except Conflict:
            if not tries_left:
                raise
        except Forbidden as error:
            raise CommandFailed(f"a restart needs permission to patch jobsets/status: {error.message}") from error
    raise AssertionError("the last try answers or raises")


def _check(jobset: Object) -> None:
    name, spec = jobset["metadata"]["name"], jobset["spec"]
    if ended := (jobset.get("status") or {}).get("terminalState"):
        raise CommandFailed(f"JobSet {name} is {ended.lower()}: delete it and apply it again to run it once more")
    if spec.get("suspend"):
        raise CommandFailed(f"JobSet {name} is suspended: jobset resume {name} starts it")
    if spec.get("managedBy", MANAGED_BY_JOBSET) != MANAGED_BY_JOBSET:
        raise CommandFailed(f"JobSet {name} is managed by {spec['managedBy']}: restart it where that runs it")


def restart_patch(jobset: Object, now: datetime) -> Object:
    """A merge patch of the status, only for this very version of the JobSet."""
    metadata, status = jobset["metadata"], jobset.get("status") or {}
    conditions: list[Any] = status.get("conditions") or []
    before = next((each for each in conditions if each["type"] == RESTARTING), None)
    since = before["lastTransitionTime"] if before and before["status"] == "True" else format_time(now)
    condition = {
        "type": RESTARTING, "status": "True", "reason": REASON, "message": MESSAGE, "lastTransitionTime": since,
    }  # fmt: skip
    kept = [condition if each is before else each for each in conditions]
    return {
        "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
        "status": {
            "restarts": status.get("restarts", 0) + 1,
            "conditions": kept if before else [*kept, condition],
        },
    }
