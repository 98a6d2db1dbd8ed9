"""All processes of one container, from its supervisor's point of view: signal them, kill them, reap them.

With a process namespace of its own the kernel knows the tree. Without one the supervisor is the subreaper: every
descendant is a child, or a child's child, and /proc tells which.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections import defaultdict
from collections.abc import Callable

_PARENT, _SESSION = 1, 3
"""Fields of /proc/PID/stat, counted from the state."""


class ProcessTree:
    def __init__(self, own_namespace: bool) -> None:
        self._own_namespace = own_namespace
        self.main = 0

    def signal_main(self, number: int) -> None:
        """To the main process and the rest of its group: a shell in front would not pass it on."""
        if self.main:
            _unless_gone(os.killpg, self.main, number)

    def kill_group(self, pid: int) -> None:
        _unless_gone(os.killpg, pid, signal.SIGKILL)

    def kill_session(self, leader: int) -> None:
        """A command and all it started that did not leave its terminal session, in whatever process groups."""
        for pid in self.pids():
            if _stat(pid)[_SESSION : _SESSION + 1] == [str(leader).encode()]:
                _unless_gone(os.kill, pid, signal.SIGKILL)
        self.kill_group(leader)

    def kill_all(self) -> None:
        if self._own_namespace:
            _unless_gone(os.kill, -1, signal.SIGKILL)  # everybody in the namespace but ourselves
            return
        for pid in self.pids():
            _unless_gone(os.kill, pid, signal.SIGKILL)
        if self.main:
            self.kill_group(self.main)

    def pids(self) -> list[int]:
        """All of the container's processes now."""
        try:
            numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        except OSError:
            return []
        own = os.getpid()
        if self._own_namespace:
            return [pid for pid in numbers if pid != own]
        children: dict[int, list[int]] = defaultdict(list)
        for pid in numbers:
            children[_parent(pid)].append(pid)
        found: list[int] = []
        queue = [own]
        while queue:
            below = children.get(queue.pop(), [])
            found += below
            queue += below
        return found

    def reap(self) -> list[tuple[int, int]]:
        """(process id, wait status) of every child that has ended."""
        ended: list[tuple[int, int]] = []
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return ended
            if pid == 0:
                return ended
            ended.append((pid, status))

    def reap_all(self) -> list[tuple[int, int]]:
        """Wait until nobody is left, killing who appears meanwhile."""
        ended: list[tuple[int, int]] = []
        while True:
            try:
                ended.append(os.waitpid(-1, 0))
            except ChildProcessError:
                return ended
            self.kill_all()


def _unless_gone(send: Callable[[int, int], None], pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # it ended meanwhile; macOS says so by a refusal
        send(pid, number)


def _parent(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[_PARENT]) if fields else 0


def _stat(pid: int) -> list[bytes]:
    """What the kernel says of a process, from its state on; empty when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []
