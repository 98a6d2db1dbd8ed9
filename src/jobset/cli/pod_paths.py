"""Pods by their place in a JobSet, `train/workers/0/1`: JobSet, replicated job, Job index, pod index."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem
from msgspec import Struct

from jobset.api import labels
from jobset.api.meta import Object
from jobset.api.resources import PODS
from jobset.cli.connection import Connection, bare_name, complete_jobsets, completed

FORM = "NAME[/REPLICATED-JOB[/JOB-INDEX[/POD-INDEX]]]"


class PodPath(Struct, frozen=True):
    """What is empty, or None, is left open."""

    jobset: str
    replicated_job: str = ""
    job_index: int | None = None
    pod_index: int | None = None

    def selector(self) -> str:
        """The label selector of the pods at this place, of all attempts."""
        wanted = {
            labels.JOBSET_NAME: self.jobset,
            labels.REPLICATED_JOB_NAME: self.replicated_job,
            labels.JOB_INDEX: _text(self.job_index),
            labels.JOB_COMPLETION_INDEX: _text(self.pod_index),
        }
        return ",".join(f"{key}={value}" for key, value in wanted.items() if value)


def parse_path(text: str) -> PodPath:
    """Raises click.BadParameter."""
    jobset, *rest = bare_name(text).split("/")
    if not jobset or len(rest) > 3 or not all(rest) or not all(part.isdecimal() for part in rest[1:]):
        raise click.BadParameter(f"{text!r} is not of the form {FORM}")
    indexes = [int(part) for part in rest[1:]] + [None, None]
    return PodPath(jobset, rest[0] if rest else "", indexes[0], indexes[1])


def path_of_pod(pod: Object) -> str:
    found = pod["metadata"].get("labels") or {}
    keys = (labels.JOBSET_NAME, labels.REPLICATED_JOB_NAME, labels.JOB_INDEX, labels.JOB_COMPLETION_INDEX)
    return "/".join(str(found[key]) for key in keys if key in found)


def attempt_of(pod: Object) -> int:
    """Which attempt of the JobSet a pod belongs to, counted from 1 as they are shown."""
    text = str((pod["metadata"].get("labels") or {}).get(labels.RESTART_ATTEMPT, "0"))
    return int(text) + 1 if text.isdecimal() else 1


def complete_pods(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of JobSets; after a slash the places of the pods of one."""
    if "/" not in incomplete:
        return complete_jobsets(ctx, parameter, incomplete)

    def places(connection: Connection) -> list[str]:
        selector = PodPath(incomplete.partition("/")[0]).selector()
        return sorted({path_of_pod(pod) for pod in connection.query.list(PODS, connection.namespace, selector).items})

    return completed(ctx, incomplete, places)


def _text(index: int | None) -> str:
    return "" if index is None else str(index)
