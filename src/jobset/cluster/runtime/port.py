"""The runtime port: what a kubelet asks of whatever runs containers. Two adapters: processes, and a script for tests.

A *sandbox* is what the containers of one pod share: name, address, directories. A *container* here is one process tree
in it. The kubelet decides (model/pod_lifecycle); a runtime only does, and reports what ended through `on_exit`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class SandboxConfig:
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


@dataclass(frozen=True, slots=True)
class Mount:
    host_path: Path
    container_path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class ContainerConfig:
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


@dataclass(frozen=True, slots=True)
class Sandbox:
    uid: str
    ip: str


ContainerId: TypeAlias = tuple[str, str, int]
"""(pod UID, container name, attempt)"""


@dataclass(frozen=True, slots=True)
class Exit:
    """A container's end. `exit_code` is 128+N for signal N.

    `reason` is one of Completed, Error, OOMKilled, ContainerCannotRun, StartError. `message` is what the container left at
    its termination message path (at most 4,096 bytes), if it left anything.
    """

    container: ContainerId
    exit_code: int
    reason: str
    started_at: datetime
    finished_at: datetime
    signal: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True)
class ExecResult:
    exit_code: int
    output: str


@dataclass(frozen=True, slots=True)
class ProbeTarget:
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


OnExit: TypeAlias = Callable[[Exit], None]


class Runtime(Protocol):
    """Runs containers of many pods. `on_exit` is called in the event loop, once for every container that started."""

    on_exit: OnExit

    async def start(self) -> None: ...

    async def close(self) -> None:
        """Kill everything that still runs and leave nothing behind."""
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

    async def probe(self, uid: str, target: ProbeTarget, timeout_s: float) -> tuple[bool, str]:
        """(success, what was seen)"""
        ...

    async def set_names(self, namespace: str, names: Mapping[str, Sequence[str]]) -> None:
        """All DNS names of a namespace and their addresses, short (host.subdomain), replacing what was there."""
        ...
