"""`jobset describe`: gathers what the API knows about one JobSet; description.py puts it in words."""

from __future__ import annotations

from collections.abc import Iterable

import click
import msgspec

from jobset.api.errors import ApiError, Forbidden, NotFound
from jobset.api.jobs import Job
from jobset.api.jobset import from_object
from jobset.api.labels import JOBSET_NAME
from jobset.api.meta import Object
from jobset.api.resources import CORE_EVENTS, JOBS, PERSISTENT_VOLUME_CLAIMS, PODS, SERVICES, Resource
from jobset.cli.clock import now_utc
from jobset.cli.connection import Connection, bare_name, complete_jobsets, on_cluster
from jobset.cli.description import Description
from jobset.cli.documents import printed
from jobset.cli.event_list import about
from jobset.client.pod_logs import LogOptions, log_request
from jobset.core.explain import observed_at_once, why_waiting
from jobset.core.failed_containers import ContainerFailure, count_of_first, ended_containers, in_order, is_bad_end
from jobset.core.features import FeatureGates
from jobset.core.names import service_name

TAIL_LINES = 10
MOST_TAILS = 16
"""Of so many containers that may have failed first the logs are looked at."""


@click.command()
@click.argument("name", shell_complete=complete_jobsets)
@click.option("--output", "-o", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
@on_cluster
def describe(connection: Connection, name: str, output: str) -> None:
    """Say in words what a JobSet asks for, where it stands, why it waits, what failed first, and what happened."""
    description = _describe(connection, bare_name(name))
    if output == "text":
        click.echo("\n".join(description.lines(now_utc())))
    else:
        click.echo(printed(description.as_object(), output))


def _describe(connection: Connection, name: str) -> Description:
    jobset = connection.jobset(name)
    jobs = _all_of(connection, JOBS)
    pods = connection.query.list(PODS, connection.namespace, f"{JOBSET_NAME}={name}").items
    is_about = about(name, jobset)
    return Description(
        jobset=jobset,
        jobs=[job for job in jobs if (job["metadata"].get("labels") or {}).get(JOBSET_NAME) == name],
        pods=pods,
        waits=_why_waiting(connection, jobset, jobs),
        failures=_failures(connection, pods),
        events=[event for event in _all_of(connection, CORE_EVENTS) if is_about(event)],
    )


def _all_of(connection: Connection, resource: Resource) -> list[Object]:
    """Nothing where we may not look."""
    try:
        return connection.query.list(resource, connection.namespace).items
    except Forbidden:
        return []


def _why_waiting(connection: Connection, jobset: Object, jobs: Iterable[Object]) -> list[str]:
    try:
        view = from_object(jobset)
        service: Object | None = connection.query.get(SERVICES, connection.namespace, service_name(view))
    except (NotFound, Forbidden):
        service = None
    except msgspec.ValidationError as error:
        return [f"It is not a JobSet that this program understands: {error}."]
    observed = observed_at_once(
        jobset,
        jobs=[msgspec.convert(job, Job) for job in jobs],
        claims=_all_of(connection, PERSISTENT_VOLUME_CLAIMS),
        service=service,
        gates=FeatureGates(),
        now=now_utc(),
    )
    return why_waiting(observed)


def _failures(connection: Connection, pods: Iterable[Object]) -> list[ContainerFailure]:
    """The first ones first, with the last lines of those that may have been the first."""
    runs: dict[ContainerFailure, bool] = {}
    for pod in pods:
        current = _current_runs(pod)
        for container, run, ended in ended_containers(pod):
            if is_bad_end(pod, ended):
                failure = ContainerFailure(
                    pod["metadata"]["name"],
                    container,
                    ended["exitCode"],
                    ended.get("reason") or "Error",
                    ended.get("finishedAt") or "",
                    log_tail=tuple(filter(None, [ended.get("message", "")])),
                )
                runs[failure] = run < current[container]
    by_end = sorted(runs, key=lambda each: each.finished_at or "9")
    first = min(count_of_first([each for each in by_end if each.finished_at]), MOST_TAILS)
    told = [_with_tail(connection, failure, previous=runs[failure]) for failure in by_end[:first]]
    return in_order(told) + by_end[first:]


def _current_runs(pod: Object) -> dict[str, int]:
    status = pod.get("status") or {}
    containers = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    return {container["name"]: container.get("restartCount", 0) for container in containers}


def _with_tail(connection: Connection, failure: ContainerFailure, *, previous: bool) -> ContainerFailure:
    options = LogOptions(previous=previous, timestamps=True, tail_lines=TAIL_LINES)
    try:
        text = connection.query.text(log_request(connection.namespace, failure.pod, failure.container, options))
    except ApiError:
        return failure  # its node is gone, or we may not read logs
    lines = [line.partition(" ") for line in text.splitlines()]
    if not lines:
        return failure
    return msgspec.structs.replace(failure, last_output_at=lines[-1][0], log_tail=tuple(line for _, _, line in lines))
