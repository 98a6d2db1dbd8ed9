"""`jobset resume`: the opposite of `jobset suspend`."""

from __future__ import annotations

import click

from jobset.cli.connection import Connection, complete_jobsets, on_cluster
from jobset.cli.suspend import set_suspend


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_jobsets)
@click.option("--output", "-o", type=click.Choice(["text", "json", "yaml", "name"]), default="text", show_default=True)
@on_cluster
def resume(connection: Connection, names: tuple[str, ...], output: str) -> None:
    """Let suspended JobSets run again, from the start of their pods."""
    set_suspend(connection, names, output, suspended=False)
