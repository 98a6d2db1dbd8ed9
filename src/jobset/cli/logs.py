"""`jobset logs`: what the containers of a JobSet wrote, by time; with `-f` what they go on writing."""

from __future__ import annotations

from collections.abc import Sequence

import click
from msgspec.structs import replace

from jobset.api.errors import ApiError
from jobset.api.meta import Object
from jobset.api.resources import PODS
from jobset.cli.connection import CommandFailed, Connection, on_cluster
from jobset.cli.durations import Duration
from jobset.cli.jobset_list import jobset_word
from jobset.cli.log_printer import LogPrinter
from jobset.cli.log_sources import LogSource, Selection, sources_of
from jobset.cli.pod_paths import FORM, attempt_of, complete_pods, parse_path
from jobset.client.pod_logs import LogOptions, log_request

FEW = 10
"""From so few containers everything is shown, from more a tail of each."""
TAIL_OF_MANY = 100


@click.command()
@click.argument("name", metavar=FORM, shell_complete=complete_pods)
@click.option("--follow", "-f", is_flag=True, help="Go on until the JobSet has finished; wait for pods to come.")
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Only pods of this attempt, counted from 1.")
@click.option("--replicated-job", "-r", default="", metavar="NAME", help="Only pods of this replicated job.")
@click.option("--index", "-i", type=click.IntRange(min=0), metavar="N", help="Only pods of the Job with this index.")
@click.option("--container", "-c", default="", metavar="NAME", help="Only this container.")
@click.option(
    "--tail", type=int, metavar="N",
    help=f"At most N lines of each container, -1: all. Default: all of up to {FEW} containers, {TAIL_OF_MANY} of more.",
)  # fmt: skip
@click.option("--since", type=Duration(), metavar="DURATION", help="Only lines of the last 90s, 15m, 1h30m.")
@click.option("--timestamps", is_flag=True, help="Show when each line was written.")
@click.option("--previous", "-p", is_flag=True, help="Of the containers' runs before the present ones.")
@click.option("--prefix/--no-prefix", default=True, help="Say whose line it is.", show_default=True)
@click.option(
    "--output", "-o", type=click.Choice(["text", "json"]), default="text", show_default=True,
    help="json: one object a line.",
)  # fmt: skip
@on_cluster
def logs(
    connection: Connection,
    name: str,
    follow: bool,
    attempt: int | None,
    replicated_job: str,
    index: int | None,
    container: str,
    tail: int | None,
    since: float | None,
    timestamps: bool,
    previous: bool,
    prefix: bool,
    output: str,
) -> None:
    """Print what the pods of a JobSet write, a colour for each, in the order of time."""
    if follow and previous:
        raise click.UsageError("--follow does not go with --previous: earlier runs write no more")
    path = parse_path(name)
    path = replace(
        path,
        replicated_job=replicated_job or path.replicated_job,
        job_index=path.job_index if index is None else index,
    )
    jobset = connection.jobset(path.jobset)
    _check_exists(jobset, path.replicated_job)
    selection = Selection(attempt, container, previous)
    options = LogOptions(previous=previous, timestamps=True, since_s=None if since is None else max(int(since), 1))
    printer = LogPrinter(timestamps=timestamps, as_json=output == "json", prefix=prefix)
    pods = connection.query.list(PODS, connection.namespace, path.selector()).items
    sources = sources_of(pods, selection)
    options = replace(options, tail_lines=_tail(tail, len(sources)))
    if follow:
        from jobset.cli.log_follow import follow_logs

        follow_logs(connection, path, selection, options, printer)
        return
    if not sources:
        _say_why_nothing(jobset, pods, selection)
    printer.expect(sources)
    printer.show(_in_order_of_time(connection, sources, options))


def _check_exists(jobset: Object, replicated_job: str) -> None:
    names = [each["name"] for each in jobset["spec"].get("replicatedJobs") or ()]
    if replicated_job and replicated_job not in names:
        name = jobset["metadata"]["name"]
        raise CommandFailed(f"JobSet {name} has no replicated job {replicated_job}; there are: {', '.join(names)}")


def _tail(asked: int | None, containers: int) -> int | None:
    if asked is not None:
        return asked if asked >= 0 else None
    if containers <= FEW:
        return None
    click.echo(f"The last {TAIL_OF_MANY} lines of each of {containers} containers (--tail -1 for all).", err=True)
    return TAIL_OF_MANY


def _say_why_nothing(jobset: Object, pods: Sequence[Object], selection: Selection) -> None:
    """Raises CommandFailed when what was asked for cannot come any more."""
    name, state = jobset["metadata"]["name"], jobset_word(jobset)
    attempts = sorted({attempt_of(pod) for pod in pods})
    now_at = (jobset.get("status") or {}).get("restarts", 0) + 1
    if selection.attempt is not None and selection.attempt not in attempts:
        if selection.attempt < now_at:
            what = f"attempt {selection.attempt} of JobSet {name} is over, and its pods are gone with their logs"
            raise CommandFailed(f"{what}; it is in attempt {now_at} now")
        raise CommandFailed(f"JobSet {name} is in attempt {now_at}: attempt {selection.attempt} has not come")
    if selection.previous:
        click.echo(f"No container of JobSet {name} has been restarted.", err=True)
    elif pods and selection.container:
        known = sorted({each["name"] for pod in pods for each in pod["spec"].get("containers") or ()})
        if selection.container not in known:
            raise CommandFailed(f"no pod has a container {selection.container}; there are: {', '.join(known)}")
    else:
        waiting = f"{len(pods)} pods, of which none has started" if pods else "no pods"
        click.echo(f"JobSet {name} is {state.lower()} and has {waiting}.", err=True)


def _in_order_of_time(
    connection: Connection, sources: Sequence[LogSource], options: LogOptions
) -> list[tuple[LogSource, str]]:
    lines: list[tuple[LogSource, str]] = []
    for source in sources:
        request = log_request(source.namespace, source.pod, source.container, options)
        try:
            lines += ((source, line) for line in connection.query.text(request).split("\n") if line)
        except ApiError as error:
            click.echo(f"{source.short_name}: {error.message}", err=True)
    return sorted(lines, key=lambda each: each[1].partition(" ")[0])
