"""How a program finds the node process again that an earlier one started: a socket and a lock in a private directory.

Used on both sides. The lock is held by the node process (and by nobody else) until nothing of it is left, so holding it
means that there is none, whatever files lie around; the kernel gives it back however the process ends. Only the owner
of the directory may come in: by its mode, by the socket's, and by the credentials of who calls.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Iterator

from jobset.cluster.runtime.process.node.wire import Channel

SOCKET = "node.sock"
LOCK = "node.lock"
_BACKLOG = 8
_CREDENTIALS = struct.Struct("=iII")  # pid, uid, gid


def take_lock(directory: str) -> int | None:
    """A descriptor of the lock, now ours; None when a node process has it."""
    path = os.path.join(directory, LOCK)
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(fd), os.stat(path)):
                return fd
        except BlockingIOError:
            os.close(fd)
            return None
        except FileNotFoundError:
            pass
        os.close(fd)  # whoever had it took it away with the file


def remove(directory: str, lock_fd: int) -> None:
    """Take the door away, and the lock with it."""
    for name in (SOCKET, LOCK):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(directory, name))
    os.close(lock_fd)


def listen(directory: str) -> socket.socket:
    """To be called by who holds the lock."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(directory, SOCKET))
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with _address(directory) as address:
        listener.bind(address)
        os.chmod(address, 0o600)
    listener.listen(_BACKLOG)
    return listener


def connect(directory: str) -> socket.socket | None:
    """None when nobody listens (yet, or any more)."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _address(directory) as address:
            connection.connect(address)
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return None
    if not _is_same_user(connection):
        connection.close()
        raise PermissionError(f"{os.path.join(directory, SOCKET)} belongs to another user")
    return connection


@contextlib.contextmanager
def _address(directory: str) -> Iterator[str]:
    """A short path of the socket: the kernel takes about a hundred characters, directories may be longer."""
    if sys.platform != "linux":
        yield os.path.join(directory, SOCKET)
        return
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{SOCKET}"
    finally:
        os.close(fd)


def _is_same_user(connection: socket.socket) -> bool:
    if sys.platform != "linux":
        return True  # the modes of directory and socket must do
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(data)[1] == os.geteuid())


class Door:
    """The node process's side."""

    def __init__(self, listener_fd: int, lock_fd: int) -> None:
        self._listener = socket.socket(fileno=listener_fd)
        self.lock_fd = lock_fd
        for fd in (listener_fd, lock_fd):
            os.set_inheritable(fd, False)
        os.pwrite(lock_fd, str(os.getpid()).encode(), 0)  # for who must use force

    def fileno(self) -> int:
        return self._listener.fileno()

    def admit(self) -> Channel | None:
        """Who is there, after waiting for somebody; None when it is nobody for us."""
        connection, _ = self._listener.accept()
        if _is_same_user(connection):
            return Channel(connection)
        connection.close()
        return None
