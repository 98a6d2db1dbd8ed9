"""`jobset up`: start a cluster that stays, in the foreground or as a process of its own.

With --detach this program starts itself again without a terminal and waits for it. The two talk over a pipe: lines of
progress, then `ready` or `failed`; a pipe that closes without either means that the other one crashed.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from jobset.cli.interruption import Interruption
from jobset.local.kept_place import Place, Running, RunsAlready, find_running, place_of

if TYPE_CHECKING:
    from jobset.cluster.runtime.process.runtime import Network
    from jobset.cluster.store.sqlite import Durability
    from jobset.local.kept import KeptOptions, StoreKind

DEFAULT_NAME = "local"
EXIT_FAILED = 1
LOG_TAIL_BYTES = 2000
_GRACE_S = 10.0


class ClusterName(click.ParamType[str]):
    """The name of a kept cluster."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?", str(value)):
            self.fail(f"{value!r} is not a name of lower case letters, digits and '-', 40 at most", param, ctx)
        return str(value)


class ClusterFailed(click.ClickException):
    """Shown as `error: ...`; the command ends with exit code 1."""

    def show(self, file: Any = None) -> None:
        for line in self.message.splitlines():
            click.echo(f"error: {line}", file=file, err=file is None)


name_option = click.option(
    "--name", type=ClusterName(), default=DEFAULT_NAME, show_default=True, metavar="NAME",
    help="Which cluster; several can be up at once.",
)  # fmt: skip


@click.command()
@name_option
@click.option("--detach", "-d", is_flag=True, help="Return when the cluster is ready, and leave it running.")
@click.option(
    "--port", type=click.IntRange(1, 65535), metavar="PORT",
    help="Port of the API server. Without it: the one of last time, 6443, or any that is free.",
)  # fmt: skip
@click.option(
    "--listen", default="127.0.0.1", show_default=True, metavar="ADDRESS",
    help="Address of the API server. Anything but loopback lets other machines try; they need credentials too.",
)  # fmt: skip
@click.option(
    "--nodes", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
    help="Virtual nodes to schedule on, all on this machine. Without it: this machine as one node.",
)  # fmt: skip
@click.option(
    "--network", type=click.Choice(["auto", "pod", "host"]), default="auto", show_default=True,
    help="pod: a network namespace and an address for each pod; host: the machine's network.",
)  # fmt: skip
@click.option(
    "--store", type=click.Choice(["sqlite", "memory"]), default="sqlite", show_default=True,
    help="sqlite: objects and pods outlive the server; memory: everything ends with it.",
)  # fmt: skip
@click.option(
    "--durability", type=click.Choice(["NORMAL", "FULL"]), default="NORMAL", show_default=True,
    help="FULL: each write also outlives a loss of power, at the price of waiting for the disk.",
)  # fmt: skip
@click.option("--ready-fd", type=int, hidden=True)
def up(
    name: str,
    detach: bool,
    port: int | None,
    listen: str,
    nodes: Path | None,
    network: Network,
    store: StoreKind,
    durability: Durability,
    ready_fd: int | None,
) -> None:
    """Start a Kubernetes API with JobSet on this machine, for kubectl and every other client.

    Pods are processes here. The keys and the state lie in $XDG_STATE_HOME/jobset/NAME, readable only by you.
    `jobset down` ends it.
    """
    place = place_of(name, os.environ)
    running = find_running(place)
    if running is not None:
        click.echo(f"cluster {name} runs already: {running.url} (process {running.pid})")
        click.echo(_how_to_use(place))
        return
    if detach:
        chosen = {"--port": port, "--listen": listen, "--nodes": nodes, "--network": network, "--store": store}
        _detach(place, {**chosen, "--durability": durability})
        return
    gc.set_threshold(50_000, 20, 100)
    with Interruption() as interruption, _Teller(place, ready_fd) as teller:
        from jobset.cli.kept_options import kept_options

        options = kept_options(place, nodes, network, listen, port, store, durability)
        _serve(options, interruption, teller)


class _Teller:
    """Tells whoever started us how it goes: the terminal, or the process at the other end of the pipe."""

    def __init__(self, place: Place, ready_fd: int | None) -> None:
        self._place = place
        self._pipe: IO[str] | None = None if ready_fd is None else os.fdopen(ready_fd, "w", buffering=1)

    def __enter__(self) -> _Teller:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def progress(self, text: str) -> None:
        self._tell("progress", text) if self._pipe else click.echo(text)

    def ready(self, running: Running) -> None:
        if self._pipe is None:
            click.echo(_ready_text(self._place, running))
            click.echo("Ctrl-C ends the server")
            return
        self._tell("ready", "")
        self._close()

    def failed(self, text: str) -> None:
        if self._pipe is None:
            raise ClusterFailed(text)
        self._tell("failed", text)
        raise click.exceptions.Exit(EXIT_FAILED)

    def _tell(self, what: str, text: str) -> None:
        assert self._pipe is not None
        self._pipe.write(json.dumps({what: text}) + "\n")

    def _close(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None


def _serve(options: KeptOptions, interruption: Interruption, teller: _Teller) -> None:
    from jobset.cluster.runtime.port import CannotStart
    from jobset.cluster.store.sqlite import StoreUnusable
    from jobset.local.credentials import NotPrivate
    from jobset.local.kept import CannotServe, is_loopback

    if not is_loopback(options.listen):
        teller.progress(f"warning: other machines can reach {options.listen}; without credentials they are refused")
    expected = (CannotStart, CannotServe, NotPrivate, StoreUnusable)
    try:
        asyncio.run(_until_interrupted(options, interruption, teller))
    except RunsAlready:
        teller.failed(f"cluster {options.place.name} is being started or ended by another command; try again")
    except expected as error:
        teller.failed(str(error))
    except OSError as error:
        if error.filename is None:
            raise
        teller.failed(f"{error.filename}: {error.strerror}")
    except BaseExceptionGroup as group:  # what went wrong while the cluster was up already
        known = group.subgroup(expected)
        if known is None:
            raise
        teller.failed(str(_first(known)))


def _first(group: BaseExceptionGroup[Any]) -> BaseException:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


async def _until_interrupted(options: KeptOptions, interruption: Interruption, teller: _Teller) -> None:
    from jobset.local.kept import kept_cluster

    interruption.heed()
    async with kept_cluster(options, teller.progress) as running:
        teller.ready(running)
        gc.collect()
        gc.freeze()
        await interruption.wait(1)


# -- as a process of its own --------------------------------------------------------------------------------------


def _detach(place: Place, chosen: Mapping[str, object]) -> None:
    from jobset.local.credentials import NotPrivate, private_directory

    try:
        private_directory(place.directory)
    except NotPrivate as error:
        raise ClusterFailed(str(error)) from None
    except OSError as error:
        raise ClusterFailed(f"{place.directory}: {error.strerror}") from None
    read_fd, write_fd = os.pipe()
    arguments = [text for option, value in chosen.items() if value is not None for text in (option, str(value))]
    with os.fdopen(read_fd) as told, place.log.open("ab") as log:
        place.log.chmod(0o600)
        start = log.tell()
        command = [sys.executable, "-m", "jobset.cli.main", "up", "--name", place.name, *arguments]
        process = subprocess.Popen(
            [*command, "--ready-fd", str(write_fd)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[write_fd], start_new_session=True,
        )  # fmt: skip
        os.close(write_fd)
        try:
            _await_ready(told, lambda: _log_tail(place, start))
        except BaseException:
            _end(process)
            raise
    running = find_running(place)
    if running is None:
        raise ClusterFailed(f"cluster {place.name} ended right after it was ready; see {place.log}")
    click.echo(_ready_text(place, running))


def _await_ready(told: IO[str], log_tail: Callable[[], str]) -> None:
    """Show the progress until the server is ready. Raises ClusterFailed."""
    for line in told:
        message = json.loads(line)
        if "progress" in message:
            click.echo(message["progress"])
        elif "failed" in message:
            raise ClusterFailed(message["failed"])
        else:
            return
    raise ClusterFailed(f"the server ended before it was ready\n{log_tail()}")


def _log_tail(place: Place, start: int) -> str:
    data = place.log.read_bytes()[start:]
    return data[-LOG_TAIL_BYTES:].decode(errors="replace").strip() or f"it said nothing; its log is {place.log}"


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# -- what people read ---------------------------------------------------------------------------------------------


def _ready_text(place: Place, running: Running) -> str:
    return f"cluster {place.name} is up: {running.url}\n{running.network}\n{_how_to_use(place)}"


def _how_to_use(place: Place) -> str:
    named = "" if place.name == DEFAULT_NAME else f" --name {place.name}"
    return (
        f"  export KUBECONFIG={place.kubeconfig}   # then: kubectl get nodes\n"
        f"  jobset kubeconfig{named} --merge          # or: make it a context of your own kubeconfig\n"
        f"  jobset down{named}                        # end it"
    )
