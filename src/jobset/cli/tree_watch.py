"""`jobset get NAME --watch`: the tree, drawn anew whenever something in it changed, until it is gone or interrupted."""

from __future__ import annotations

import asyncio
import shutil
import sys
from typing import cast

import click

from jobset.api.labels import JOBSET_NAME
from jobset.api.meta import Object
from jobset.api.resources import JOBS, JOBSETS, PODS, Resource
from jobset.cli.asynchronous import run_async
from jobset.cli.board import jobset_row
from jobset.cli.clock import now_utc
from jobset.cli.columns import age_of
from jobset.cli.connection import Connection
from jobset.cli.tree import tree_lines
from jobset.client.http.adapter import HttpClient
from jobset.reconcile.informer import Informer

PAUSE_S = 0.2
"""Changes that come within it make one picture."""
_RAW = cast("type[Object]", dict)
_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


def watch_tree(connection: Connection, name: str, *, everything: bool) -> None:
    connection.jobset(name)  # with a clear error when there is none
    run_async(_Watch(connection, name, everything=everything).run())


class _Watch:
    def __init__(self, connection: Connection, name: str, *, everything: bool) -> None:
        self._connection = connection
        self._name = name
        self._everything = everything
        self._changed = asyncio.Event()

    async def run(self) -> None:
        async with HttpClient(self._connection.target, now=now_utc) as client:
            jobsets = self._informer(client, JOBSETS, field_selector=f"metadata.name={self._name}")
            jobs = self._informer(client, JOBS, label_selector=f"{JOBSET_NAME}={self._name}")
            pods = self._informer(client, PODS, label_selector=f"{JOBSET_NAME}={self._name}")
            informers = (jobsets, jobs, pods)
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(informer.run()) for informer in informers]
                for informer in informers:
                    await informer.wait_synced()
                while found := jobsets.cache.all():
                    self._draw(found[0], jobs.cache.all(), pods.cache.all())
                    await self._changed.wait()
                    await asyncio.sleep(PAUSE_S)
                    self._changed.clear()
                for task in tasks:
                    task.cancel()
        click.echo(f"JobSet {self._name} is deleted")

    def _informer(
        self, client: HttpClient, resource: Resource, *, label_selector: str = "", field_selector: str = ""
    ) -> Informer[Object]:
        informer: Informer[Object] = Informer(
            client,
            resource,
            _RAW,
            namespace=self._connection.namespace,
            label_selector=label_selector,
            field_selector=field_selector,
        )
        informer.add_handler(self._on_change)
        return informer

    def _on_change(self, _old: Object | None, _new: Object | None) -> None:
        self._changed.set()

    def _draw(self, jobset: Object, jobs: list[Object], pods: list[Object]) -> None:
        """On a terminal in place of the last picture, else below it."""
        row = jobset_row(jobset, jobs, pods)
        lines = tree_lines(row, age_of(jobset, now_utc()), everything=self._everything)
        terminal = sys.stdout.isatty()
        if terminal:
            height = shutil.get_terminal_size().lines - 1
            rest = len(lines) - height + 1
            lines = lines if rest <= 1 else [*lines[: height - 1], f"… {rest} more lines"]
        click.echo((_CLEAR if terminal else "") + "\n".join(lines) + ("" if terminal else "\n"))
