"""The one process that stays in the host's network when pods get their own: answers names, and runs the way out.

Forked by the node process before it enters its namespaces; told over a channel; ends when that closes.
"""

from __future__ import annotations

import os
import signal
from typing import NamedTuple, NoReturn

from jobset.cluster.runtime.process.node import linux
from jobset.cluster.runtime.process.node.nameserver import serve_until_closed
from jobset.cluster.runtime.process.node.wire import Channel

TAP = "tap0"
_EXIT_FD, _READY_FD = 3, 4


def run(channel: Channel, way_out_tool: str) -> NoReturn:
    """Does not return."""
    status = 1
    try:
        linux.die_with_parent(signal.SIGKILL)
        way_out = _start_way_out(channel, way_out_tool) if way_out_tool else None
        serve_until_closed(channel, forward=way_out is not None)
        if way_out is not None:
            way_out.end()
        status = 0
    finally:
        os._exit(status)


class _WayOut(NamedTuple):
    """A running slirp4netns, which ends when the descriptor is closed."""

    pid: int
    exit_fd: int

    def end(self) -> None:
        os.close(self.exit_fd)
        os.waitpid(self.pid, 0)


def _start_way_out(channel: Channel, tool: str) -> _WayOut | None:
    """Wait to be told where, start slirp4netns there, say whether it is up."""
    for message in channel.receive() or []:
        exit_reading, exit_writing = os.pipe()
        ready_reading, ready_writing = os.pipe()
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
            (os.POSIX_SPAWN_DUP2, 0, 1),
            (os.POSIX_SPAWN_DUP2, exit_reading, _EXIT_FD),
            (os.POSIX_SPAWN_DUP2, ready_writing, _READY_FD),
        ]
        argv = [tool, "--mtu=65520", "--disable-host-loopback", f"--cidr={message['subnet']}/16"]
        argv += [f"--ready-fd={_READY_FD}", f"--exit-fd={_EXIT_FD}", str(message["pid"]), TAP]
        started = _WayOut(os.posix_spawn(tool, argv, dict(os.environ), file_actions=actions), exit_writing)
        os.close(ready_writing)
        os.close(exit_reading)
        ready = os.read(ready_reading, 1) == b"1"
        channel.send({"ready": ready})
        if ready:
            return started
        started.end()
    return None
