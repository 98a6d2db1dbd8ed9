"""The process runtime: the runtime port on top of the node process. Translates, and keeps what the port promises.

Nothing is decided here but what a failure is called. See `node` for what is done, and `network.py` for the choice of
network.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal as signals
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec.structs import replace

from jobset.cluster.runtime.port import (
    CannotStart,
    ContainerConfig,
    ContainerId,
    ExecResult,
    Exit,
    FoundRun,
    FoundSandbox,
    OnExit,
    ProbeTarget,
    Sandbox,
    SandboxConfig,
)
from jobset.cluster.runtime.process import prober, surviving
from jobset.cluster.runtime.process.interactive import ProcessSession, connect, open_session
from jobset.cluster.runtime.process.node.wire import Message
from jobset.cluster.runtime.process.node_client import NodeClient, NodeError

Network: TypeAlias = Literal["auto", "pod", "host"]
EXEC_TIMED_OUT = 124
_EXEC_MARGIN_S = 5.0


@dataclass(frozen=True, slots=True)
class NetworkChoice:
    """Which network pods get. `sentence` says which and why; `limits` says what is enforced of their limits.

    `mounts`: whether volumes can be where the containers want them.
    """

    kind: Literal["pod", "host"]
    sentence: str
    limits: str = ""
    mounts: bool = True


async def choose_network(requested: Network, directory: Path) -> NetworkChoice:
    """What `ProcessRuntime(requested)` would choose, found by trying in a small process. Raises CannotStart.

    `directory` exists and is left as it was.
    """
    node = NodeClient(lambda _: None, lambda _: None)
    setup = {"directory": str(directory), "owns_directory": False, "network": requested, "only_choose": True}
    log = directory / "node.log"
    try:
        node.launch(setup, log)
        return _choice(await node.wait_ready())
    except NodeError as error:
        raise CannotStart(str(error)) from error
    finally:
        await node.close()
        log.unlink(missing_ok=True)


def _choice(ready: Message) -> NetworkChoice:
    if ready["problem"]:
        raise CannotStart(ready["problem"])
    return NetworkChoice(ready["network"], ready["sentence"], ready.get("limits", ""), ready.get("mounts", True))


class ProcessRuntime:
    """Runs containers as processes of this machine (the runtime port).

    `directory` exists and is private to this run; with `owns_directory` it is removed in the end, also when this
    program is killed. After `start`, `network` tells what was chosen. Ctrl-C reaches no pod by itself.

    With `survives` pods outlive this program, however it ends, and `close` only lets go of them. The next runtime in
    the same directory finds them, with all that happened meanwhile; `network` is then what it was. `end_pods`
    (surviving.py) ends them.
    """

    def __init__(
        self, directory: Path, *, network: Network = "auto", owns_directory: bool = False, survives: bool = False
    ) -> None:
        self.on_exit: OnExit = lambda _: None
        self.network: NetworkChoice | None = None
        self._directory = directory
        self._requested = network
        self._owns_directory = owns_directory
        self._node = NodeClient(self._event, self._gone)
        self._survives = survives
        self._launched = False
        self._running: dict[ContainerId, datetime] = {}
        self._found: dict[str, FoundSandbox] = {}

    def launch(self) -> None:
        """Start the node process. `start` does it too; earlier, it gets ready while the program is still loading."""
        if self._launched:
            return
        if not self._survives:
            self._launched = True
            self._node.launch(self._setup(), self._log)
        elif (launched := surviving.launch(self._directory)) is not None:
            self._use(launched)

    def _use(self, reached: surviving.Launched | socket.socket) -> None:
        self._launched = True
        if isinstance(reached, socket.socket):
            self._node.connect(reached, self._setup(), self._log)
        else:
            self._node.connect(reached.connection, self._setup(), self._log, reached.starter)

    @property
    def _log(self) -> Path:
        return self._directory / "node.log"

    def _setup(self) -> Message:
        return {
            "op": "attach",
            "directory": os.path.abspath(self._directory),
            "owns_directory": self._owns_directory,
            "network": self._requested,
            "only_choose": False,
        }

    async def start(self) -> None:
        self.launch()
        try:
            if not self._launched:
                self._use(await surviving.reach(self._directory))
            ready = await self._node.wait_ready()
            self.network = _choice(ready)
        except NodeError as error:
            raise CannotStart(str(error)) from error
        except CannotStart:
            await self._let_go()
            raise
        for pod in ready["pods"]:
            self._find(pod)

    async def _let_go(self) -> None:
        if self._survives:
            self._node.disconnect()
        else:
            await self._node.close()

    async def close(self) -> None:
        self._running.clear()
        await self._let_go()
        if self._survives:
            return
        left = self._directory if self._owns_directory else self._directory / "node"
        if left.exists():  # the node process was killed and could not clean up
            shutil.rmtree(left, ignore_errors=True)

    # -- pods of an earlier program -------------------------------------------------------------------------------

    def found(self) -> Sequence[str]:
        return list(self._found)

    def adopt(self, uid: str) -> FoundSandbox | None:
        return self._found.pop(uid, None)

    def _find(self, pod: Message) -> None:
        ended = [(_exit(message), message["signalled"]) for message in pod["ended"]]
        runs = [FoundRun(end.container, end.started_at, signal, end) for end, signal in ended]
        for (uid, name, attempt), started_ns, signal in pod["running"]:
            run = FoundRun((uid, name, attempt), _moment(started_ns), signal)
            runs.append(run)
            self._running[run.container] = run.started_at
        runs.sort(key=lambda run: run.container[2])
        sandbox = Sandbox(pod["uid"], pod["ip"])
        self._found[sandbox.uid] = FoundSandbox(sandbox, Path(pod["directory"]), tuple(runs))

    # -- requests -------------------------------------------------------------------------------------------------

    async def create_sandbox(self, config: SandboxConfig) -> Sandbox:
        fields = {
            "uid": config.uid,
            "namespace": config.namespace,
            "name": config.name,
            "node": config.node,
            "hostname": config.hostname,
            "fqdn": config.fqdn,
            "host_network": config.host_network,
            "directory": str(config.directory),
            "host_aliases": config.host_aliases,
            "dns_search": config.dns_search,
            "memory_limit_bytes": config.memory_limit_bytes,
            "cpu_limit_cores": config.cpu_limit_cores,
            "ip_hint": config.ip_hint,
        }
        return Sandbox(config.uid, await self._ask("create_sandbox", config=fields))

    async def remove_sandbox(self, uid: str) -> None:
        self._found.pop(uid, None)
        await self._tell("remove_sandbox", uid=uid)

    async def start_container(self, uid: str, config: ContainerConfig) -> None:
        fields = {
            "name": config.name,
            "attempt": config.attempt,
            "argv": config.argv,
            "env": dict(config.env),
            "working_dir": config.working_dir,
            "log_path": str(config.log_path),
            "mounts": [(str(mount.host_path), mount.container_path, mount.read_only) for mount in config.mounts],
            "termination_message_path": config.termination_message_path,
            "memory_limit_bytes": config.memory_limit_bytes,
            "cpu_limit_cores": config.cpu_limit_cores,
            "stdin": config.stdin,
            "tty": config.tty,
        }
        started_ns = await self._ask("start_container", uid=uid, config=fields)
        self._running[uid, config.name, config.attempt] = _moment(started_ns)

    async def signal_container(self, container: ContainerId, signal: int) -> None:
        await self._tell("signal", container=container, signal=int(signal))

    async def exec(self, container: ContainerId, argv: Sequence[str], timeout_s: float) -> ExecResult:
        request = self._node.request("exec", container=container, argv=list(argv), timeout_s=timeout_s)
        try:
            async with asyncio.timeout(timeout_s + _EXEC_MARGIN_S):
                exit_code, output = await request
        except TimeoutError:
            return ExecResult(EXEC_TIMED_OUT, "")
        except NodeError as error:
            return ExecResult(error.exit_code, str(error))
        return ExecResult(exit_code, output)

    async def open_session(
        self, container: ContainerId, argv: Sequence[str], *, tty: bool, stdin: bool
    ) -> ProcessSession:
        return await self._session(container=container, argv=list(argv), tty=tty, stdin=stdin)

    async def attach(self, container: ContainerId, *, stdin: bool, ends_stdin: bool) -> ProcessSession:
        return await self._session(container=container, argv=[], stdin=stdin, ends_stdin=ends_stdin)

    async def _session(self, **fields: Any) -> ProcessSession:
        try:
            _, opened = await self._node.request_socket("session", **fields)
        except NodeError as error:
            raise CannotStart(str(error), error.exit_code) from error
        assert opened is not None
        return await open_session(opened)

    async def dial(self, uid: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            address, opened = await self._node.request_socket("socket", uid=uid)
        except NodeError as error:
            raise OSError(str(error)) from error
        assert opened is not None and self.network is not None
        # in a network of its own a pod may listen on its loopback only; in a shared one that is everybody's
        hosts = ("127.0.0.1", address) if self.network.kind == "pod" else (address,)
        return await connect(opened, hosts, port)

    async def probe(self, uid: str, target: ProbeTarget, timeout_s: float) -> tuple[bool, str]:
        try:
            async with asyncio.timeout(timeout_s):
                address, opened = await self._node.request_socket("socket", uid=uid)
                assert opened is not None
                return await prober.probe(opened, address, target)
        except TimeoutError:
            return False, f"no answer within {timeout_s:g} s"
        except NodeError as error:
            return False, str(error)

    async def listen(self, port: int) -> socket.socket | None:
        """A listening socket, at the address of its own, where every pod reaches this program.

        None where pods share the machine's network: they reach what listens on its loopback. Raises CannotStart.
        """
        try:
            return (await self._node.request_socket("listen", port=port))[1]
        except NodeError as error:
            raise CannotStart(str(error)) from error

    async def set_names(self, namespace: str, names: Mapping[str, Sequence[str]]) -> None:
        plain = {name: list(addresses) for name, addresses in names.items()}
        await self._tell("set_names", namespace=namespace, names=plain)

    async def _ask(self, op: str, **fields: Any) -> Any:
        try:
            return await self._node.request(op, **fields)
        except NodeError as error:
            raise CannotStart(str(error), error.exit_code) from error

    async def _tell(self, op: str, **fields: Any) -> None:
        """For requests that are fulfilled when nothing runs any more."""
        try:
            await self._node.request(op, **fields)
        except NodeError as error:
            if not error.gone:
                raise CannotStart(str(error), error.exit_code) from error

    def _event(self, message: Message) -> None:
        self._ended(_exit(message))

    def _ended(self, end: Exit) -> None:
        self._running.pop(end.container, None)
        found = self._found.get(end.container[0])
        if found is None:
            self.on_exit(end)
            return
        ended = [replace(run, end=end) if run.container == end.container else run for run in found.runs]
        self._found[end.container[0]] = replace(found, runs=tuple(ended))

    def _gone(self, why: str) -> None:
        """The node process was killed, and with it everything that ran."""
        for container, started in list(self._running.items()):
            self._ended(Exit(container, 137, "Error", started, started, signals.SIGKILL, why))


def _exit(message: Message) -> Exit:
    uid, name, attempt = message["container"]
    return Exit(
        container=(uid, name, attempt),
        exit_code=message["exit_code"],
        reason=message["reason"],
        started_at=_moment(message["started_ns"]),
        finished_at=_moment(message["finished_ns"]),
        signal=message["signal"],
        message=message["message"],
    )


def _moment(nanoseconds: int) -> datetime:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC)
