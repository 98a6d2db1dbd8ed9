"""One `jobset run` from start to exit code: documents in, views fed, signals heard, everything down again."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Protocol, TextIO, TypeAlias

from jobset.api import labels
from jobset.api.errors import ApiError
from jobset.api.meta import Object, format_micro_time
from jobset.api.resources import EVENTS, JOBS, JOBSETS, PODS
from jobset.cli.board import SetRow, jobset_row, lone_row
from jobset.cli.plain import PlainView
from jobset.cli.summary import summary_lines, target_summary
from jobset.local.cluster import LocalCluster
from jobset.local.follow import Source
from jobset.local.run import Changed, LineWritten, Run, RunEvent

Output: TypeAlias = Literal["text", "json", "events"]
End: TypeAlias = Literal["finished", "timeout", "interrupted"]

EXIT_FAILED, EXIT_BAD_INPUT, EXIT_TIMEOUT, EXIT_INTERRUPTED = 1, 2, 124, 130
OPEN_LOG_FILES = 200
QUIET_EVENTS = ("Unhealthy", "BackoffLimitExceeded")
"""Events that the board or the JobSet's own events tell better."""


class ShowsRun(Protocol):
    """The live view, the plain view, or none."""

    def __enter__(self) -> object: ...
    def __exit__(self, *_: object) -> None: ...
    async def redraw(self) -> None: ...
    def log(self, source: str, text: str) -> None: ...
    def notice(self, text: str, *, warning: bool = False) -> None: ...


class Silent:
    """Shows nothing: for --quiet and for machine-readable output."""

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    async def redraw(self) -> None:
        pass

    def log(self, source: str, text: str) -> None:
        pass

    def notice(self, text: str, *, warning: bool = False) -> None:
        pass


@dataclass(frozen=True, slots=True)
class SessionOptions:
    documents: Sequence[Object]
    output: Output = "text"
    quiet: bool = False
    timeout_s: float | None = None
    logs: Path | None = None
    """Directory that gets a copy of every container's output."""
    kept: Path | None = None
    """Where everything is left, for the summary."""


class Session:
    """Shows and records one run on a cluster that is up."""

    def __init__(self, cluster: LocalCluster, options: SessionOptions, out: TextIO, notes: Sequence[str]) -> None:
        self._options = options
        self._out = out
        self._notes = notes
        self._started = asyncio.get_running_loop().time()
        self._interrupted = asyncio.Event()
        self._killed = asyncio.Event()
        self._noted: set[str] = set()
        self._prefixes: dict[Source, str] = {}
        self._copies = LogCopies(options.logs) if options.logs else None
        self._run = Run(cluster.client, options.documents, cluster.log_path, now_utc, self._on_event)
        self._view = self._choose_view()
        self._alone = sum(document["kind"] in ("JobSet", "Job", "Pod") for document in options.documents) == 1

    async def execute(self) -> int:
        """Run to the end. Returns the exit code."""
        with ExitStack() as stack:
            if self._copies is not None:
                stack.callback(self._copies.close)
            stack.enter_context(self._signals())
            async with asyncio.TaskGroup() as group:
                beside = [group.create_task(self._run.follow(), name="follow")]
                try:
                    with self._view:
                        beside.append(group.create_task(self._view.redraw(), name="redraw"))
                        end = await self._to_the_end()
                except ApiError as error:
                    return refuse(error)
                finally:
                    for task in beside:
                        task.cancel()
        return self._conclude(end)

    async def _to_the_end(self) -> End:
        for note in self._notes:
            self._view.notice(note)
        await self._run.create()
        end = await self._first_end()
        if end == "interrupted":
            self._view.notice("terminating the pods; press Ctrl-C again to kill them", warning=True)
        elif end == "timeout":
            self._view.notice(f"not finished after {self._options.timeout_s:g} s: terminating the pods", warning=True)
        await _first(self._run.stop(), self._killed.wait())
        return end

    async def _first_end(self) -> End:
        try:
            async with asyncio.timeout(self._options.timeout_s):
                await _first(self._run.wait_finished(), self._interrupted.wait())
        except TimeoutError:
            return "timeout"
        return "interrupted" if self._interrupted.is_set() else "finished"

    def _conclude(self, end: End) -> int:
        now = now_utc()
        summaries = [target_summary(target, now) for target in self._run.targets.values()]
        code = {"timeout": EXIT_TIMEOUT, "interrupted": EXIT_INTERRUPTED}.get(end, 0)
        if end == "finished" and self._run.failed():
            code = EXIT_FAILED
        result = {"result": end, "exitCode": code, "workloads": summaries, "logs": str(self._kept_logs() or "")}
        if self._options.output == "json":
            self._out.write(json.dumps(result, indent=2) + "\n")
        elif self._options.output == "events":
            self._write_event("result", result)
        else:
            logs = str(self._kept_logs() or "not kept (--logs DIR keeps them)")
            self._out.write("\n" + "\n".join(summary_lines(summaries, logs)) + "\n")
        self._out.flush()
        return code

    def _kept_logs(self) -> Path | None:
        return self._options.logs or (self._options.kept / "pods" if self._options.kept else None)

    # ------------------------------------------------------------------ what is shown while it runs

    def rows(self) -> list[SetRow]:
        """The board's rows, one for each workload, in the order of the documents."""
        rows = []
        pods = self._run.pods.all()
        for target in self._run.targets.values():
            name, namespace = target.name, target.namespace
            own = [pod for pod in pods if pod["metadata"].get("namespace") == namespace]
            if target.resource == JOBSETS:
                jobs = [job for job in self._run.jobs.all() if _label(job, labels.JOBSET_NAME) == name]
                rows.append(jobset_row(target.last, jobs, [p for p in own if _label(p, labels.JOBSET_NAME) == name]))
            elif target.resource == JOBS:
                rows.append(lone_row("Job", target.last, [p for p in own if _label(p, labels.BATCH_JOB_NAME) == name]))
            else:
                rows.append(lone_row("Pod", target.last, ()))
        return rows

    def _choose_view(self) -> ShowsRun:
        if self._options.quiet or self._options.output != "text":
            return Silent()
        if self._out.isatty():
            from rich.console import Console

            from jobset.cli.live import LiveView

            return LiveView(Console(file=self._out), self.rows, self._elapsed_s)
        return PlainView(self._out, self.rows, self._elapsed_s)

    def _elapsed_s(self) -> float:
        return asyncio.get_running_loop().time() - self._started

    def _on_event(self, event: RunEvent) -> None:
        match event:
            case LineWritten(source, line):
                if self._copies is not None:
                    self._copies.write(source, line.text)
                if self._options.output == "events":
                    said = {"pod": source.pod, "container": source.container, "attempt": source.attempt}
                    self._write_event("log", {**said, "stream": line.stream, "line": line.text})
                self._view.log(self._prefix(source), line.text)
            case Changed(resource, old, new):
                if resource == EVENTS and new is not None:
                    self._on_kubernetes_event(new)
                elif self._options.output == "events" and resource in (JOBSETS, JOBS, PODS):
                    word = "added" if old is None else "deleted" if new is None else "changed"
                    self._write_event(word, {"object": new or old})
                if isinstance(self._view, PlainView) and resource == JOBSETS:
                    self._view.changed()

    def _on_kubernetes_event(self, event: Object) -> None:
        regarding = event.get("regarding") or {}
        text = f"{regarding.get('kind')} {regarding.get('name')}: {event.get('note', '')}"
        told = event.get("type") == "Warning" or regarding.get("kind") == "JobSet"
        if told and event.get("reason") not in QUIET_EVENTS and text not in self._noted:
            self._noted.add(text)
            self._view.notice(text, warning=event.get("type") == "Warning")
        if self._options.output == "events":
            self._write_event("event", {"object": event})

    def _write_event(self, type_: str, body: Object) -> None:
        self._out.write(json.dumps({"time": format_micro_time(now_utc()), "type": type_, **body}) + "\n")
        self._out.flush()

    def _prefix(self, source: Source) -> str:
        """Short name of who speaks; remembered, since the last lines may come after the pod is gone."""
        if source not in self._prefixes:
            self._prefixes[source] = self._short_name(source)
        return self._prefixes[source]

    def _short_name(self, source: Source) -> str:
        pod = self._run.pods.get(source.namespace, source.pod)
        name = source.pod
        containers = 1
        if pod is not None:
            name = pod["spec"].get("hostname") or name
            jobset = _label(pod, labels.JOBSET_NAME)
            if self._alone and jobset and name.startswith(f"{jobset}-"):
                name = name[len(jobset) + 1 :]
            containers = len(pod["spec"].get("containers", ())) + len(pod["spec"].get("initContainers", ()))
        return f"{name}/{source.container}" if containers > 1 else name

    # ------------------------------------------------------------------ signals

    def _signals(self) -> ExitStack:
        loop = asyncio.get_running_loop()
        stack = ExitStack()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._on_signal)
            stack.callback(loop.remove_signal_handler, number)
        return stack

    def _on_signal(self) -> None:
        (self._killed if self._interrupted.is_set() else self._interrupted).set()


class LogCopies:
    """Copies output to DIR/<pod>/<container>.log, plain lines, as it comes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files: dict[Path, TextIO] = {}

    def write(self, source: Source, text: str) -> None:
        path = self._directory / source.pod / f"{source.container}.log"
        file = self._files.get(path)
        if file is None:
            if len(self._files) >= OPEN_LOG_FILES:
                self.close()
            path.parent.mkdir(parents=True, exist_ok=True)
            file = self._files[path] = path.open("a", buffering=1)
        file.write(text + "\n")

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()


def refuse(error: ApiError) -> int:
    """Say why the API refused a document. Returns the exit code of bad input."""
    lines = [f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in error.causes]
    for line in lines or [str(error)]:
        sys.stderr.write(f"jobset: {line}\n")
    return EXIT_BAD_INPUT


def now_utc() -> datetime:
    """The wall clock of the command line, the one place that owns it."""
    return datetime.now(UTC)  # noqa: TID251


async def _first(*waits: Coroutine[Any, Any, object]) -> None:
    """Wait for the first of several coroutines and cancel the others."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(wait) for wait in waits]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()


def _label(obj: Object, key: str) -> str | None:
    value = (obj["metadata"].get("labels") or {}).get(key)
    return None if value is None else str(value)
