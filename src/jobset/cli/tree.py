"""A JobSet as a tree for people: replicated jobs, their Jobs, their pods, each with its state and its reason. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeVar

import click

from jobset.cli.board import GroupRow, JobRow, PodRow, PodState, SetRow, counts
from jobset.cli.columns import STATE_COLOURS

SHOWN_PODS = 16
"""Of a Job with more pods those are left out that are as they should be, unless all are asked for."""
POD_COLOURS: dict[PodState, str] = {
    "gated": "yellow", "pending": "yellow", "starting": "cyan", "running": "cyan", "ready": "green",
    "terminating": "bright_black", "succeeded": "green", "failed": "red", "backing off": "red",
}  # fmt: skip
JOB_COLOURS = {"suspended": "yellow", "ready": "green", "succeeded": "green", "failed": "red", "ending": "bright_black"}
T = TypeVar("T")
_CALM: tuple[PodState, ...] = ("ready", "succeeded")


def tree_lines(row: SetRow, age: str, *, everything: bool = False) -> list[str]:
    """`everything`: every pod, with the node it runs on."""
    head = f"{row.kind} {click.style(row.name, bold=True)}  {click.style(row.state, fg=STATE_COLOURS.get(row.state))}"
    if row.restarts:
        head += click.style(f"  attempt {row.restarts + 1}", fg="yellow")
    lines = [f"{head}  {age}"]
    for last, group in _with_last(row.groups):
        lines.append(_branch(last) + _group(group))
        for last_job, job in _with_last(group.jobs):
            lines.append(_rail(last) + _branch(last_job) + _job(job))
            below = _rail(last) + _rail(last_job)
            lines += [below + line for line in _pods(job.pods, everything=everything)]
    return lines


def _group(group: GroupRow) -> str:
    return f"{click.style(group.name, bold=True)}  {counts(group)}"


def _job(job: JobRow) -> str:
    return f"{job.name}  {click.style(job.state, fg=JOB_COLOURS.get(job.state, 'cyan'))}"


def _pods(pods: Sequence[PodRow], *, everything: bool) -> list[str]:
    shown = list(pods)
    rest: list[str] = []
    if len(pods) > SHOWN_PODS and not everything:
        shown = [pod for pod in pods if pod.state not in _CALM]
        left_out = Counter(pod.state for pod in pods if pod.state in _CALM)
        if len(shown) > SHOWN_PODS:
            left_out.update(pod.state for pod in shown[SHOWN_PODS:])
            shown = shown[:SHOWN_PODS]
        rest = [f"… {', '.join(f'{count} {state}' for state, count in left_out.items())} (-o wide shows all)"]
    width = max((len(pod.name) for pod in shown), default=0)
    lines = [_pod(pod, width, everything=everything) for pod in shown]
    return [_branch(last) + line for last, line in _with_last([*lines, *rest])]


def _pod(pod: PodRow, width: int, *, everything: bool) -> str:
    line = f"{pod.name.ljust(width)}  {click.style(pod.state, fg=POD_COLOURS[pod.state])}"
    if pod.restarts:
        line += f"  {pod.restarts} restart{'s' if pod.restarts != 1 else ''}"
    if everything and pod.node:
        line += f"  {pod.node}"
    return line + (f"  {pod.note}" if pod.note else "")


def _with_last(items: Sequence[T]) -> Iterator[tuple[bool, T]]:
    for index, item in enumerate(items):
        yield index == len(items) - 1, item


def _branch(last: bool) -> str:
    return "└─ " if last else "├─ "


def _rail(last: bool) -> str:
    return "   " if last else "│  "
