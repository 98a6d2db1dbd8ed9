"""Node processes that outlive the program: start one for a directory, find it again, end it.

Everything goes by the door (node/door.py): who gets its lock knows that no node process is left. Nothing here knows
what pods are.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import NamedTuple

from jobset.cluster.runtime.process.node import cgroups, door
from jobset.cluster.runtime.process.node.wire import encode
from jobset.cluster.runtime.process.node_client import NodeError, start_node_process

REACH_LIMIT_S = 10.0
END_LIMIT_S = 20.0
POLL_S = 0.02
_LOG = "node.log"


class Launched(NamedTuple):
    connection: socket.socket
    starter: subprocess.Popen[bytes]
    """Ends as soon as the node process is on its own; to be waited for."""


def launch(directory: Path) -> Launched | None:
    """Start a node process and connect to it. None: there is one already, or it is just ending."""
    lock_fd = door.take_lock(str(directory))
    if lock_fd is None:
        return None
    try:
        with door.listen(str(directory)) as listener, (directory / _LOG).open("ab") as log:
            fds = [listener.fileno(), lock_fd]
            starter = start_node_process(f"main_behind_door({fds[0]}, {fds[1]})", fds, log, cwd="/")
            connection = door.connect(str(directory))
            assert connection is not None, "we listen"
            return Launched(connection, starter)
    finally:
        os.close(lock_fd)


async def reach(directory: Path) -> Launched | socket.socket:
    """Connect to the node process of this directory; start it if there is none. Raises NodeError."""
    try:
        async with asyncio.timeout(REACH_LIMIT_S):
            while True:
                reached = launch(directory) or door.connect(str(directory))
                if reached is not None:
                    return reached
                await asyncio.sleep(POLL_S)
    except (TimeoutError, PermissionError) as error:
        raise NodeError(
            f"the node process of {directory} cannot be reached: {error or 'it does not answer'}"
        ) from error


async def end_pods(directory: Path) -> None:
    """End the node process of this directory, if there is one, and all it runs; returns when nothing is left.

    Works whether the program that started it lives or not. Logs and volumes stay.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(END_LIMIT_S):
            if await _asked_to_end(directory):
                return
    pid = int((directory / door.LOCK).read_text())
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    lock_fd = await _wait_lock(directory)
    while not cgroups.remove_left_by(pid):
        await asyncio.sleep(POLL_S)
    _clear(directory, lock_fd)


async def _asked_to_end(directory: Path) -> bool:
    while True:
        lock_fd = door.take_lock(str(directory))
        if lock_fd is not None:
            _clear(directory, lock_fd)
            return True
        connection = door.connect(str(directory))
        if connection is not None:
            with connection:
                connection.sendall(encode({"op": "end"}))
                _clear(directory, await _wait_lock(directory))
                return True
        await asyncio.sleep(POLL_S)


async def _wait_lock(directory: Path) -> int:
    while True:
        lock_fd = door.take_lock(str(directory))
        if lock_fd is not None:
            return lock_fd
        await asyncio.sleep(POLL_S)


def _clear(directory: Path, lock_fd: int) -> None:
    shutil.rmtree(directory / "node", ignore_errors=True)
    door.remove(str(directory), lock_fd)
