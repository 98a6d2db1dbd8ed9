"""`jobset logs -f`: every container of the chosen pods, from when it starts, until the JobSet has finished.

Pods are followed as they come and go. A stream that is cut off while its container runs on is opened again where it
ended; what was printed is not printed again.
"""

from __future__ import annotations

import asyncio
from typing import cast

import click
from msgspec.structs import replace

from jobset.api.errors import ApiError, NotFound
from jobset.api.meta import Object
from jobset.api.resources import JOBSETS, PODS
from jobset.cli.asynchronous import run_async
from jobset.cli.clock import now_utc
from jobset.cli.connection import Connection
from jobset.cli.jobset_list import jobset_word
from jobset.cli.log_printer import LogPrinter
from jobset.cli.log_sources import LogSource, Selection, is_running, sources_of
from jobset.cli.pod_paths import PodPath
from jobset.client.http.adapter import HttpClient
from jobset.client.http.decoding import Lines
from jobset.client.http.transport import Transport
from jobset.client.pod_logs import LogOptions, log_request
from jobset.reconcile.informer import Informer

SILENCE_S = 365 * 86400.0
"""Containers may be silent; a server that is gone is noticed by the connection."""
REOPEN_PAUSE_S = 1.0
STRAGGLERS_S = 0.5
"""How long, after the JobSet has finished, news of its pods may take to come."""
_RAW = cast("type[Object]", dict)


def follow_logs(
    connection: Connection, path: PodPath, selection: Selection, options: LogOptions, printer: LogPrinter
) -> None:
    run_async(_Follower(connection, path, selection, options, printer).run())


class _Follower:
    def __init__(
        self,
        connection: Connection,
        path: PodPath,
        selection: Selection,
        options: LogOptions,
        printer: LogPrinter,
    ) -> None:
        self._connection = connection
        self._path = path
        self._selection = selection
        self._options = replace(options, follow=True)
        """For the runs that are there already; of those that begin later nothing is left out."""
        self._printer = printer
        self._changed = asyncio.Event()
        self._known: set[tuple[str, str, int]] = set()
        self._attempt = 0

    async def run(self) -> None:
        target, namespace = self._connection.target, self._connection.namespace
        async with (
            HttpClient(target, now=now_utc) as client,
            Transport(target, now=now_utc, per_second=0, burst=0) as transport,
        ):
            pods = Informer(client, PODS, _RAW, namespace=namespace, label_selector=self._path.selector())
            jobsets = Informer(
                client, JOBSETS, _RAW, namespace=namespace, field_selector=f"metadata.name={self._path.jobset}"
            )
            informers = (pods, jobsets)
            for informer in informers:
                informer.add_handler(self._on_change)
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(informer.run()) for informer in informers]
                for informer in informers:
                    await informer.wait_synced()
                await self._follow(pods, jobsets, transport)
                for task in tasks:
                    task.cancel()

    def _on_change(self, _old: Object | None, _new: Object | None) -> None:
        self._changed.set()

    async def _follow(self, pods: Informer[Object], jobsets: Informer[Object], transport: Transport) -> None:
        """Open a stream for each new run of a container; return when no more will come."""
        streams: set[asyncio.Task[None]] = set()
        end: str | None = None
        async with asyncio.TaskGroup() as group:
            while True:
                self._changed.clear()
                for source in self._new_sources(pods):
                    streams.add(group.create_task(self._stream(source, self._options, pods, transport)))
                self._options = LogOptions(follow=True, timestamps=True)
                streams = {stream for stream in streams if not stream.done()}
                if end is None:
                    end = _end_of(jobsets)
                    await (self._changed.wait() if end is None else asyncio.sleep(STRAGGLERS_S))
                elif streams:
                    await asyncio.wait(streams, return_when=asyncio.FIRST_COMPLETED)
                else:
                    break
        click.echo(f"JobSet {self._path.jobset} is {end}", err=True)

    def _new_sources(self, pods: Informer[Object]) -> list[LogSource]:
        found = sources_of(pods.cache.all(), self._selection)
        new = [source for source in found if (source.uid, source.container, source.run) not in self._known]
        self._known |= {(source.uid, source.container, source.run) for source in new}
        self._printer.expect(new)
        latest = max((source.attempt for source in new), default=0)
        if latest > self._attempt:
            if self._attempt:
                click.echo(f"JobSet {self._path.jobset} is restarted: attempt {latest}", err=True)
            self._attempt = latest
        return new

    async def _stream(
        self, source: LogSource, options: LogOptions, pods: Informer[Object], transport: Transport
    ) -> None:
        last = ""
        while True:
            request = log_request(source.namespace, source.pod, source.container, options)
            try:
                async with transport.stream(request, silence_s=SILENCE_S) as pieces:
                    lines = Lines()
                    async for piece in pieces:
                        new = [line.decode(errors="replace") for line in lines.feed(piece)]
                        new = [line for line in new if line.partition(" ")[0] > last] if options.since else new
                        if new:
                            last = new[-1].partition(" ")[0]
                            self._printer.show([(source, line) for line in new])
            except NotFound:
                return
            except ApiError as error:
                click.echo(f"{source.short_name}: {error.message}", err=True)
            pod = pods.cache.get(source.namespace, source.pod)
            if pod is None or pod["metadata"]["uid"] != source.uid or not is_running(pod, source):
                return
            await asyncio.sleep(REOPEN_PAUSE_S)
            if last:
                options = replace(options, since=last, since_s=None, tail_lines=None)


def _end_of(jobsets: Informer[Object]) -> str | None:
    """How the JobSet ended, if it did."""
    found = jobsets.cache.all()
    if not found:
        return "deleted"
    return jobset_word(found[0]).lower() if (found[0].get("status") or {}).get("terminalState") else None
