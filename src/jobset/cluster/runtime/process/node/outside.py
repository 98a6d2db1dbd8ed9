"""The one process that stays in the host's network when pods get their own: answers names, and runs the way out.

Forked by the node process before it enters its namespaces; told over a channel; ends when that closes.
"""

from __future__ import annotations

import os
import signal
from typing import NoReturn

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
        leave_open = _start_way_out(channel, way_out_tool) if way_out_tool else -1
        serve_until_closed(channel, forward=bool(way_out_tool))
        if leave_open >= 0:
            os.close(leave_open)
        status = 0
    finally:
        os._exit(status)


def _start_way_out(channel: Channel, tool: str) -> int:
    """Wait to be told where, start slirp4netns there, say when it is up. Its life hangs on the returned descriptor."""
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
        os.posix_spawn(tool, argv, dict(os.environ), file_actions=actions)
        os.close(ready_writing)
        os.close(exit_reading)
        ready = os.read(ready_reading, 1) == b"1"
        channel.send({"ready": ready})
        return exit_writing
    return -1
