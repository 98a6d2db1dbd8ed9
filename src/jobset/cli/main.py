"""The command `jobset`: finds the subcommand, and turns what went wrong into one sentence and an exit code.

Subcommands are imported when they are used, so that `jobset --help` and completion stay quick.
"""

from __future__ import annotations

import gc
import importlib
import sys
import tempfile
import traceback
from typing import Any

import click

from jobset import __version__

COMMANDS = {
    "run": ("jobset.cli.run", "Run JobSets, Jobs and Pods from a manifest on this machine."),
    "validate": ("jobset.cli.validate", "Say whether a manifest would be admitted, without running it."),
    "explain": ("jobset.cli.explain", "Show the objects that a manifest would create, and why."),
    "apply": ("jobset.cli.apply", "Create or change the objects of a manifest on a cluster."),
    "get": ("jobset.cli.get", "List JobSets of a cluster, or show the tree of one."),
    "describe": ("jobset.cli.describe", "Say in words what a JobSet is, how it is, and why."),
    "logs": ("jobset.cli.logs", "Print what the pods of a JobSet write."),
    "exec": ("jobset.cli.exec", "Run a command in a pod of a JobSet."),
    "suspend": ("jobset.cli.suspend", "Stop JobSets until they are resumed."),
    "resume": ("jobset.cli.resume", "Let suspended JobSets run again."),
    "restart": ("jobset.cli.restart", "Restart all Jobs of JobSets."),
    "delete": ("jobset.cli.delete", "Delete JobSets, their Jobs and pods."),
    "wait": ("jobset.cli.wait", "Wait until JobSets are completed, failed, ready, suspended or deleted."),
    "events": ("jobset.cli.events", "Show the events of a JobSet, its Jobs and pods."),
    "up": ("jobset.cli.up", "Start a cluster on this machine that stays."),
    "down": ("jobset.cli.down", "End a cluster on this machine, and everything in it."),
    "status": ("jobset.cli.status", "Say whether a cluster on this machine is up, and what is in it."),
    "kubeconfig": ("jobset.cli.kubeconfig", "Print how to reach a cluster on this machine, or merge it into yours."),
    "node": ("jobset.cli.node", "Let this machine run pods of a cluster."),
    "completion": ("jobset.cli.completion", "Print the shell completion script."),
}

EXIT_INTERNAL = 70


class LazyGroup(click.Group):
    """A group whose commands are imported only when they run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(COMMANDS[cmd_name][0]), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="jobset")
def cli() -> None:
    """Kubernetes JobSets: the same manifest on one machine or on a cluster."""


def main(arguments: list[str] | None = None) -> None:
    """Entry point of the command line. Never lets a traceback reach the user."""
    gc.set_threshold(50_000, 20, 100)  # what loading allocates lives to the end: looking through it only costs time
    try:
        code: Any = cli.main(args=arguments, prog_name="jobset", standalone_mode=False)
    except click.exceptions.Abort:
        code = 130
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except BrokenPipeError:
        sys.stderr.close()
        code = 141
    except Exception:
        code = EXIT_INTERNAL
        _report_defect()
    sys.exit(code if isinstance(code, int) else 0)


def _report_defect() -> None:
    with tempfile.NamedTemporaryFile("w", prefix="jobset-defect-", suffix=".txt", delete=False) as report:
        traceback.print_exc(file=report)
    click.echo(f"jobset: a defect of jobset itself; please report it with the file {report.name}", err=True)


if __name__ == "__main__":
    main()
