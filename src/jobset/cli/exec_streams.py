"""A remote command's streams on this terminal: input, output, size, and the terminal's state put back at the end."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import termios
import threading
import tty as terminal_modes
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress

from jobset.cli.asynchronous import run_async
from jobset.cli.clock import now_utc
from jobset.cli.connection import Connection
from jobset.client.http.remote_command import STDERR, RemoteCommand, remote_command

READ_BYTES = 32 * 1024


def run_command(
    connection: Connection, pod: str, container: str, command: Sequence[str], *, stdin: bool, tty: bool
) -> int:
    """Until the command has ended; its exit code. Raises ApiError."""
    with ExitStack() as stack:
        if tty:
            stack.enter_context(_raw_terminal())
        return run_async(_run(connection, pod, container, command, stdin=stdin, tty=tty))


async def _run(
    connection: Connection, pod: str, container: str, command: Sequence[str], *, stdin: bool, tty: bool
) -> int:
    opened = remote_command(
        connection.target, now_utc, connection.namespace, pod, container, command, stdin=stdin, tty=tty
    )
    async with opened as remote, asyncio.TaskGroup() as group:
        resizing = group.create_task(_resize(remote)) if tty else None
        if stdin:
            _send_input(remote, asyncio.get_running_loop())
        async for channel, data in remote.output():
            out = sys.stderr.buffer if channel == STDERR else sys.stdout.buffer
            out.write(data)
            out.flush()
        if resizing is not None:
            resizing.cancel()
        return remote.exit_code


def _send_input(remote: RemoteCommand, loop: asyncio.AbstractEventLoop) -> None:
    """From a thread that nobody waits for: a read of a terminal or pipe cannot be called off."""

    def pump() -> None:
        with suppress(CancelledError, ConnectionError):  # the command has ended
            while (data := os.read(sys.stdin.fileno(), READ_BYTES)) and not loop.is_closed():
                asyncio.run_coroutine_threadsafe(remote.send(data), loop).result()
            if not loop.is_closed():
                asyncio.run_coroutine_threadsafe(remote.close_stdin(), loop).result()

    threading.Thread(target=pump, name="stdin", daemon=True).start()


async def _resize(remote: RemoteCommand) -> None:
    """Tell the command how large the terminal is, now and whenever that changes. Until cancelled."""
    changed = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGWINCH, changed.set)
    try:
        while True:
            size = shutil.get_terminal_size()
            await remote.resize(size.columns, size.lines)
            await changed.wait()
            changed.clear()
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)


@contextmanager
def _raw_terminal() -> Iterator[None]:
    """Keys go to the command as they are, Ctrl-C included."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        terminal_modes.setraw(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
