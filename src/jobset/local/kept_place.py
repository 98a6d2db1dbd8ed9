"""Where a kept cluster lives on disk, whether it runs, and how to end it. What every command but `up` needs of it.

The server holds a lock in the directory for as long as it lives: the kernel gives it back however the server ends, so
the lock alone says whether one runs. What the server writes down besides (process, address) is only read while it runs.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from jobset.local.credentials import private_directory, write_private

_START_TIME_FIELD = 22
"""Of /proc/PID/stat, counted from 1."""
_PROC = Path("/proc/self/stat")


class Running(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What a running server says of itself. `start_time` tells its process from a later one with the same number."""

    pid: int
    start_time: str
    url: str
    started_at: str
    network: str


class Place(Struct, frozen=True):
    """The directory of the cluster `name`; nothing in it is made by asking for it."""

    name: str
    directory: Path

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    @property
    def log(self) -> Path:
        return self.directory / "server.log"

    @property
    def root(self) -> Path:
        """Pods, their logs and volumes."""
        return self.directory / "cluster"

    @property
    def database(self) -> Path:
        return self.directory / "cluster.db"

    @property
    def server_file(self) -> Path:
        return self.directory / "server.json"

    @property
    def lock_file(self) -> Path:
        return self.directory / "server.lock"

    @property
    def port_file(self) -> Path:
        """The port of the last server, which the next one asks for, so that kubeconfigs stay good."""
        return self.directory / "port"


def place_of(name: str, environ: Mapping[str, str]) -> Place:
    state = environ.get("XDG_STATE_HOME") or os.path.join(environ.get("HOME") or str(Path.home()), ".local", "state")
    return Place(name, Path(state).absolute() / "jobset" / name)


class RunsAlready(Exception):
    """Another server has the place."""


class Tenure:
    """The lock of a place, held until closed."""

    def __init__(self, place: Place) -> None:
        """Makes the directory when it is missing. RunsAlready, NotPrivate, OSError."""
        private_directory(place.directory)
        self._place = place
        self._descriptor = os.open(place.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._descriptor)
            raise RunsAlready from error
        place.server_file.unlink(missing_ok=True)

    def announce(self, running: Running) -> None:
        write_private(self._place.server_file, msgspec.json.encode(running).decode())

    def close(self) -> None:
        self._place.server_file.unlink(missing_ok=True)
        os.close(self._descriptor)


def is_held(place: Place) -> bool:
    """Whether a server, perhaps one that is just starting or ending, has the place."""
    try:
        descriptor = os.open(place.lock_file, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def find_running(place: Place) -> Running | None:
    """The server that is up; None also while it is starting."""
    if not is_held(place):
        return None
    try:
        running = msgspec.json.decode(place.server_file.read_bytes(), type=Running)
    except (OSError, msgspec.DecodeError):
        return None
    return running if start_time_of(running.pid) == running.start_time else None


def start_time_of(pid: int) -> str:
    """When a process started, in whatever unit the system counts; empty when there is none."""
    stat = Path(f"/proc/{pid}/stat")
    if _PROC.exists():
        try:
            return stat.read_text().rpartition(")")[2].split()[_START_TIME_FIELD - 3]
        except OSError:
            return ""
    asked = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return asked.stdout.strip()


def send(running: Running, number: signal.Signals) -> None:
    """Signal exactly this server; gone is success."""
    if start_time_of(running.pid) == running.start_time:
        try:
            os.kill(running.pid, number)
        except ProcessLookupError:
            return
