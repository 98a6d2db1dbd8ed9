"""One `jobset run` from start to exit code: documents in, views fed, wishes to end heard, everything down again."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Literal, TextIO, TypeAlias, cast

from jobset.api import labels
from jobset.api.meta import Object
from jobset.api.resources import EVENTS, JOBS, JOBSETS, PODS
from jobset.cli.board import SetRow, jobset_row, lone_row, pod_notes
from jobset.cli.clock import now_utc
from jobset.cli.event_lines import EventLines
from jobset.cli.interruption import Interruption, Output
from jobset.cli.log_copies import LogCopies
from jobset.cli.plain import PlainView
from jobset.cli.session_options import SessionOptions
from jobset.cli.summary import summary_lines, target_summary
from jobset.cli.view import ShowsRun, Silent
from jobset.local.cluster import LocalCluster
from jobset.local.follow import Source
from jobset.local.run import Changed, LineWritten, Refused, Run, RunEvent, Target
from jobset.local.waiting import why_not_finished

End: TypeAlias = Literal["finished", "timeout", "interrupted"]

EXIT_FAILED, EXIT_BAD_INPUT, EXIT_TIMEOUT, EXIT_INTERRUPTED, EXIT_NOBODY_READS = 1, 2, 124, 130, 141
QUIET_EVENTS = ("Unhealthy", "BackoffLimitExceeded")
"""Events that the board or the JobSet's own events tell better."""


class Session:
    """Shows and records one run on a cluster that is up."""

    def __init__(
        self, cluster: LocalCluster, options: SessionOptions, interruption: Interruption, notes: Sequence[str]
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._interruption = interruption
        self._out = Output(sys.stdout, interruption)
        self._notes = (*options.notes, *notes)
        self._started = asyncio.get_running_loop().time()
        self._told: set[object] = set()
        self._prefixes: dict[Source, str] = {}
        self._waits: dict[int, list[str]] = {}
        namespaces = {document["metadata"].get("namespace") for document in options.documents} - {None}
        self._copies = LogCopies(options.logs, by_namespace=len(namespaces) > 1) if options.logs else None
        self._run = Run(cluster.client, options.documents, cluster.log_path, now_utc, self._on_event)
        self._lines = EventLines(self._out, now_utc) if options.output == "events" else None
        self._view = self._choose_view()
        self._alone = sum(document["kind"] in ("JobSet", "Job", "Pod") for document in options.documents) == 1

    async def execute(self) -> int:
        """Run to the end. Returns the exit code."""
        with ExitStack() as stack:
            if self._copies is not None:
                stack.callback(self._copies.close)
            async with asyncio.TaskGroup() as group:
                beside = [group.create_task(self._run.follow(), name="follow")]
                try:
                    with self._view:
                        beside.append(group.create_task(self._view.redraw(), name="redraw"))
                        end = await self._to_the_end()
                except Refused as refused:
                    return refuse(refused)
                finally:
                    for task in beside:
                        task.cancel()
        return self._conclude(end)

    async def _to_the_end(self) -> End:
        for note in self._notes:
            self._view.notice(note)
        await self._run.create()
        end = await self._first_end()
        hurry = self._interruption.count + 1
        if end == "interrupted":
            self._view.notice("terminating the pods; press Ctrl-C again to kill them", warning=True)
        elif end == "timeout":
            self._view.notice(f"not finished after {self._options.timeout_s:g} s: terminating the pods", warning=True)
        if end != "finished":
            await self._note_waits()
        await _first(self._run.stop(), self._interruption.wait(hurry))
        return end

    async def _first_end(self) -> End:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._options.timeout_s):
                await _first(self._run.wait_finished(), self._interruption.wait(1))
        if self._run.all_finished:
            return "finished"
        return "interrupted" if self._interruption.count else "timeout"

    async def _note_waits(self) -> None:
        """Remember, for the summary, why each workload is where it is."""
        for target in self._run.targets.values():
            if target.state == "Running":
                waits = await self._why_unfinished(target)
                self._waits[id(target)] = waits + pod_notes(self._row(target))

    async def _why_unfinished(self, target: Target) -> list[str]:
        if target.resource != JOBSETS:
            return []
        return await why_not_finished(self._cluster.client, target.namespace, target.name, now_utc())

    def _conclude(self, end: End) -> int:
        now = now_utc()
        summaries = [
            target_summary(target, self._waits.get(id(target), ()), now) for target in self._run.targets.values()
        ]
        code = {"timeout": EXIT_TIMEOUT, "interrupted": EXIT_INTERRUPTED}.get(end, 0)
        if end == "finished" and self._run.failed():
            code = EXIT_FAILED
        if end == "interrupted" and self._out.closed:
            code = EXIT_NOBODY_READS
        logs = self._options.logs or (self._options.kept / "pods" if self._options.kept else None)
        result = {"result": end, "exitCode": code, "workloads": summaries, "logs": str(logs or "")}
        if self._lines is not None:
            self._lines.result(result)
        elif self._options.output == "json":
            self._out.write(json.dumps(result, indent=2) + "\n")
        else:
            self._out.write("\n" * (not self._options.quiet) + "\n".join(summary_lines(summaries)) + "\n")
            self._out.write(f"logs: {logs or 'not kept (--logs DIR keeps them)'}\n")
            if self._options.kept:
                self._out.write(f"volumes: {self._options.kept / 'volumes'}\n")
        self._out.flush()
        return code

    # ------------------------------------------------------------------ what is shown while it runs

    def rows(self) -> list[SetRow]:
        """The board's rows, one for each workload, in the order of the documents."""
        return [self._row(target) for target in self._run.targets.values()]

    def _row(self, target: Target) -> SetRow:
        if target.resource == JOBSETS:
            return jobset_row(target.last, self._run.jobs_of(target), self._run.pods_of(target))
        if target.resource == JOBS:
            return lone_row("Job", target.last, self._run.pods_of(target))
        return lone_row("Pod", target.last, ())

    def _choose_view(self) -> ShowsRun:
        if self._lines is not None:
            return self._lines
        if self._options.quiet or self._options.output != "text":
            return Silent()
        if self._out.isatty():
            from rich.console import Console

            from jobset.cli.live import LiveView

            console = Console(file=cast("TextIO", self._out))
            return LiveView(console, self.rows, self._elapsed_s)
        return PlainView(self._out, self.rows, self._elapsed_s)

    def _elapsed_s(self) -> float:
        return asyncio.get_running_loop().time() - self._started

    def _on_event(self, event: RunEvent) -> None:
        match event:
            case LineWritten(source, line):
                if self._copies is not None:
                    self._copies.write(source, line.text)
                    if self._copies.problem:
                        self._tell_once(self._copies.problem, self._copies.problem, warning=True)
                if self._lines is not None:
                    self._lines.line(source, line)
                else:
                    self._view.log(self._prefix(source), line.text)
            case Changed(resource, _, new) if resource == EVENTS:
                if new is not None:
                    self._on_kubernetes_event(new)
            case Changed(resource, old, new):
                if self._lines is not None and resource in (JOBSETS, JOBS, PODS):
                    self._lines.object_changed(old, new)
                self._view.changed()

    def _on_kubernetes_event(self, event: Object) -> None:
        if self._lines is not None:
            self._lines.kubernetes_event(event)
            return
        regarding = event.get("regarding") or {}
        kind, note = regarding.get("kind"), str(event.get("note", ""))
        warning = event.get("type") == "Warning"
        if not (warning or kind == "JobSet") or event.get("reason") in QUIET_EVENTS:
            return
        # What is said of one pod is not said again of each of its sisters.
        about = kind if kind == "Pod" else regarding.get("name")
        self._tell_once((about, note), f"{kind} {regarding.get('name')}: {note}", warning=warning)

    def _tell_once(self, key: object, text: str, *, warning: bool) -> None:
        if key not in self._told:
            self._told.add(key)
            self._view.notice(text, warning=warning)

    def _prefix(self, source: Source) -> str:
        """Short name of who speaks; remembered, since the last lines may come after the pod is gone."""
        if source not in self._prefixes:
            self._prefixes[source] = self._short_name(source)
        return self._prefixes[source]

    def _short_name(self, source: Source) -> str:
        pod = self._run.find_pod(source.namespace, source.pod)
        if pod is None:
            return source.pod
        name = str(pod["spec"].get("hostname") or source.pod)
        jobset = (pod["metadata"].get("labels") or {}).get(labels.JOBSET_NAME)
        if self._alone and jobset and name.startswith(f"{jobset}-"):
            name = name[len(jobset) + 1 :]
        containers = len(pod["spec"].get("containers", ())) + len(pod["spec"].get("initContainers", ()))
        return f"{name}/{source.container}" if containers > 1 else name


def refuse(refused: Refused) -> int:
    """Say why the API refused a document. Returns the exit code of bad input."""
    metadata, error = refused.document["metadata"], refused.error
    name = f"{refused.document['kind']} {metadata.get('name') or metadata.get('generateName', '')}"
    lines = [f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in error.causes]
    for line in lines or [error.message]:
        sys.stderr.write(f"error: {name}: {line}\n")
    return EXIT_BAD_INPUT


async def _first(*waits: Coroutine[Any, Any, object]) -> None:
    """Wait for the first of several coroutines and cancel the others."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(wait) for wait in waits]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
