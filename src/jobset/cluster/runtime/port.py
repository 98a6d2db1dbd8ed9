"""The runtime port: what a kubelet asks of whatever runs containers. Two adapters: processes, and a script for tests.

A *sandbox* is what the containers of one pod share: name, address, directories. A *container* here is one process tree
in it. The kubelet decides (model/pod_lifecycle); a runtime only does, and reports what ended through `on_exit`.
"""

from __future__ import annotations

from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct


class SandboxConfig(Struct, frozen=True):
    """One pod, as the runtime needs it. `ip_hint` asks for an address (the pod had it before); it may be refused."""

    uid: str
    namespace: str
    name: str
    node: str
    hostname: str
    fqdn: str
    """hostname.subdomain.namespace.svc.cluster.local, or empty for a pod without subdomain."""
    host_network: bool
    directory: Path
    """Private directory of the pod; exists. Logs, volumes and state lie below it."""
    host_aliases: tuple[tuple[str, tuple[str, ...]], ...] = ()
    dns_search: tuple[str, ...] = ()
    memory_limit_bytes: int | None = None
    cpu_limit_cores: float | None = None
    ip_hint: str = ""


class Mount(Struct, frozen=True):
    host_path: Path
    container_path: str
    read_only: bool = False


class ContainerConfig(Struct, frozen=True):
    """One start of one container. `log_path` gets its output in the CRI log format, appended.

    The runtime itself provides a private file at `termination_message_path`; what was written there arrives as
    `Exit.message`.
    """

    name: str
    attempt: int
    argv: tuple[str, ...]
    env: Mapping[str, str]
    working_dir: str
    log_path: Path
    mounts: tuple[Mount, ...] = ()
    termination_message_path: str = ""
    memory_limit_bytes: int | None = None
    cpu_limit_cores: float | None = None
    stdin: bool = False
    tty: bool = False


class Sandbox(Struct, frozen=True):
    uid: str
    ip: str


ContainerId: TypeAlias = tuple[str, str, int]
"""(pod UID, container name, attempt)"""


class Exit(Struct, frozen=True):
    """A container's end. `exit_code` is 128+N for signal N.

    `reason` is one of Completed, Error, OOMKilled, ContainerCannotRun, StartError. `message` is what the container left
    at its termination message path (at most 4,096 bytes), if it left anything.
    """

    container: ContainerId
    exit_code: int
    reason: str
    started_at: datetime
    finished_at: datetime
    signal: int = 0
    message: str = ""


class FoundRun(Struct, frozen=True):
    """A run of a container that an earlier program started. `signal` is the last one it was sent."""

    container: ContainerId
    started_at: datetime
    signal: int = 0
    end: Exit | None = None


class FoundSandbox(Struct, frozen=True):
    """A sandbox that outlived the program that made it. `runs`: of each container the last ones, oldest first."""

    sandbox: Sandbox
    directory: Path
    runs: tuple[FoundRun, ...]


class ExecResult(Struct, frozen=True):
    exit_code: int
    output: str


class ProbeTarget(Struct, frozen=True):
    """An address in the pod's own network: `host` empty means the pod's address."""

    kind: Literal["tcp", "http"]
    port: int
    host: str = ""
    scheme: str = "http"
    path: str = "/"
    headers: tuple[tuple[str, str], ...] = ()


class CannotStart(Exception):
    """A sandbox or container could not be started. The message tells a user what to change.

    `exit_code` and `reason` are what the container's terminated state shows: 127 when the executable or the working
    directory is not there, 126 when it cannot be run, 128 for anything else.
    """

    def __init__(self, message: str, exit_code: int = 128, reason: str = "StartError") -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.reason = reason


class Session(Protocol):
    """The streams of a command in a container, or of its main process. Each side waits for the other: nothing piles up.

    To be closed in any case. A command that still runs is killed then.
    """

    def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """(1 for standard output or the terminal, 2 for standard error; what was written), until nothing more comes."""
        ...

    async def send_stdin(self, data: bytes) -> None:
        """Returns when it is taken; what nobody reads any more is dropped."""
        ...

    async def close_stdin(self) -> None: ...

    def resize(self, columns: int, rows: int) -> None:
        """The size of the terminal, if there is one."""
        ...

    async def wait(self) -> int:
        """The exit code."""
        ...

    async def close(self) -> None: ...


OnExit: TypeAlias = Callable[[Exit], None]


class Runtime(Protocol):
    """Runs containers of many pods. `on_exit` is called in the event loop, once for every container that started.

    A runtime may let pods outlive the program. `start` then finds them again, and each is silent until it is adopted.
    """

    on_exit: OnExit

    async def start(self) -> None: ...

    async def close(self) -> None:
        """Kill everything that still runs and leave nothing behind, unless pods outlive the program here."""
        ...

    def found(self) -> Sequence[str]:
        """UIDs of the pods that an earlier program left and nobody has adopted yet."""
        ...

    def adopt(self, uid: str) -> FoundSandbox | None:
        """All there is of such a pod up to now; what happens from now on arrives as for any other. Once."""
        ...

    async def create_sandbox(self, config: SandboxConfig) -> Sandbox: ...

    async def remove_sandbox(self, uid: str) -> None:
        """Kill what still runs in it and give its address back. Unknown is success."""
        ...

    async def start_container(self, uid: str, config: ContainerConfig) -> None:
        """Start it; its end arrives through `on_exit`. Raises CannotStart."""
        ...

    async def signal_container(self, container: ContainerId, signal: int) -> None:
        """Signal the container's process tree. SIGKILL reaches every descendant. Ended is success."""
        ...

    async def exec(self, container: ContainerId, argv: Sequence[str], timeout_s: float) -> ExecResult:
        """Run a command with the container's environment and mounts. Exit code 124 when it ran out of time."""
        ...

    async def open_session(self, container: ContainerId, argv: Sequence[str], *, tty: bool, stdin: bool) -> Session:
        """Run a command as `exec` does, with its streams open; `tty`: in a terminal of its own. Raises CannotStart."""
        ...

    async def attach(self, container: ContainerId, *, stdin: bool, ends_stdin: bool) -> Session:
        """The main process's output from now on, and its input if it has one. Raises CannotStart.

        `ends_stdin`: this is the last session that may write, and its end is the end of the input.
        """
        ...

    async def dial(self, uid: str, port: int) -> tuple[StreamReader, StreamWriter]:
        """Connect to a port in the pod's own network. Raises OSError."""
        ...

    async def probe(self, uid: str, target: ProbeTarget, timeout_s: float) -> tuple[bool, str]:
        """(success, what was seen)"""
        ...

    async def set_names(self, namespace: str, names: Mapping[str, Sequence[str]]) -> None:
        """All DNS names of a namespace and their addresses, short (host.subdomain), replacing what was there."""
        ...
