"""A runtime without processes: containers behave as a script says. For tests, benchmarks and simulations.

Deterministic and cheap: a container that runs until it is signalled costs one small record and no timer. What takes
time is a timer of the event loop, so it works with virtual time. By default a container runs until a signal ends it, at
once, with 128 + the signal's number.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import IPv4Address
from typing import TypeAlias

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

FIRST_ADDRESS = IPv4Address("10.88.0.2")
SIGKILL = 9


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What one run of a container does. Times in seconds from its start."""

    run_s: float | None = None
    """It ends by itself after this; None: it runs until it is signalled."""
    exit_code: int = 0
    reason: str = ""
    """Reason of its end by itself; empty: Completed or Error, by the exit code."""
    message: str = ""
    start_delay_s: float = 0.0
    """How long its start takes. It keeps one of the kubelet's workers for that time."""
    ready_after_s: float | None = 0.0
    """When probes and exec begin to succeed; None: never."""
    cannot_start: str = ""
    """Message of the CannotStart that its start raises."""
    ignores_signals: bool = False
    """Only SIGKILL ends it."""
    stop_s: float = 0.0
    """How long it takes to end after a signal (SIGKILL is at once)."""
    stop_exit_code: int | None = None
    """Exit code after a signal other than SIGKILL; None: 128 + its number."""


RUNS_UNTIL_SIGNALLED = Behaviour()

Script: TypeAlias = Callable[[SandboxConfig, ContainerConfig], Behaviour]


def always(behaviour: Behaviour = RUNS_UNTIL_SIGNALLED) -> Script:
    """Every run of every container behaves like this."""
    return lambda _sandbox, _container: behaviour


def by_container(behaviours: Mapping[str, Sequence[Behaviour]]) -> Script:
    """By container name, one behaviour per attempt, the last one for all later attempts; others run until signalled."""

    def script(_: SandboxConfig, container: ContainerConfig) -> Behaviour:
        listed = behaviours.get(container.name)
        return listed[min(container.attempt, len(listed) - 1)] if listed else RUNS_UNTIL_SIGNALLED

    return script


@dataclass(slots=True)
class _Run:
    behaviour: Behaviour
    started_at: datetime
    timer: asyncio.TimerHandle | None = None
    signal: int = 0


@dataclass(slots=True)
class _Pod:
    config: SandboxConfig
    ip: str
    runs: dict[tuple[str, int], _Run]
    ends: dict[str, list[FoundRun]] = field(default_factory=dict)
    """Of each container the last two, in a runtime whose pods survive."""
    abandoned: bool = False


class ScriptedSession:
    """Repeats its input as its output, and has succeeded when that ends."""

    def __init__(self) -> None:
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._ended = asyncio.Event()
        self.size = (0, 0)

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        while chunk := await self._chunks.get():
            yield 1, chunk
        self._ended.set()

    async def send_stdin(self, data: bytes) -> None:
        if data:
            self._chunks.put_nowait(data)

    async def close_stdin(self) -> None:
        self._chunks.put_nowait(b"")

    def resize(self, columns: int, rows: int) -> None:
        self.size = (columns, rows)

    async def wait(self) -> int:
        await self._ended.wait()
        return 0

    async def close(self) -> None:
        self._ended.set()


class ScriptedRuntime:
    """The Runtime port, played. `started` counts starts of containers, all pods together.

    With `survives` pods go on when their kubelet is forgotten (`abandon`), and another one finds them.
    """

    def __init__(self, now: Callable[[], datetime], script: Script | None = None, *, survives: bool = False) -> None:
        self.on_exit: OnExit = lambda _: None
        self.started = 0
        self.names: dict[str, dict[str, tuple[str, ...]]] = {}
        self._now = now
        self._script = script or always()
        self._pods: dict[str, _Pod] = {}
        self._next_address = FIRST_ADDRESS
        self._survives = survives

    @property
    def sandboxes(self) -> int:
        return len(self._pods)

    def running(self) -> list[ContainerId]:
        """What runs now, by pod in the order of their sandboxes."""
        return [(uid, *key) for uid, pod in self._pods.items() for key in pod.runs]

    async def start(self) -> None:
        """There is nothing to prepare."""

    async def close(self) -> None:
        for uid in list(self._pods):
            await self.remove_sandbox(uid)

    def abandon(self) -> None:
        """The kubelet is gone; nobody hears anything until somebody else finds the pods."""
        self.on_exit = lambda _: None
        for pod in self._pods.values():
            pod.abandoned = True

    def lose_everything(self) -> None:
        """As when the machine is switched off: nothing runs any more, and nobody is told."""
        for pod in self._pods.values():
            for run in pod.runs.values():
                if run.timer is not None:
                    run.timer.cancel()
        self._pods.clear()

    def found(self) -> Sequence[str]:
        return [uid for uid, pod in self._pods.items() if pod.abandoned]

    def adopt(self, uid: str) -> FoundSandbox | None:
        pod = self._pods.get(uid)
        if pod is None or not pod.abandoned:
            return None
        pod.abandoned = False
        ended = [run for ends in pod.ends.values() for run in ends]
        running = [FoundRun((uid, *key), run.started_at, run.signal) for key, run in pod.runs.items()]
        runs = sorted([*ended, *running], key=lambda run: run.container[2])
        return FoundSandbox(Sandbox(uid, pod.ip), pod.config.directory, tuple(runs))

    async def create_sandbox(self, config: SandboxConfig) -> Sandbox:
        known = self._pods.get(config.uid)
        if known is None:
            ip = str(self._next_address)
            self._next_address += 1
            known = self._pods[config.uid] = _Pod(config, ip, {})
        return Sandbox(config.uid, known.ip)

    async def remove_sandbox(self, uid: str) -> None:
        pod = self._pods.get(uid)
        if pod is None:
            return
        for name, attempt in list(pod.runs):
            self._end((uid, name, attempt), 128 + SIGKILL, signal=SIGKILL)
        del self._pods[uid]

    async def start_container(self, uid: str, config: ContainerConfig) -> None:
        pod = self._pods.get(uid)
        if pod is None:
            raise CannotStart(f"pod {uid} has no sandbox")
        behaviour = self._script(pod.config, config)
        if behaviour.start_delay_s:
            await asyncio.sleep(behaviour.start_delay_s)
        if behaviour.cannot_start:
            raise CannotStart(behaviour.cannot_start)
        self.started += 1
        run = pod.runs[config.name, config.attempt] = _Run(behaviour, self._now())
        if behaviour.run_s is not None:
            self._end_later((uid, config.name, config.attempt), run, behaviour.run_s, behaviour.exit_code)

    async def signal_container(self, container: ContainerId, signal: int) -> None:
        run = self._run(container)
        if run is None:
            return
        run.signal = signal
        behaviour = run.behaviour
        if signal == SIGKILL:
            self._end(container, 128 + SIGKILL, signal=SIGKILL)
        elif not behaviour.ignores_signals:
            code = behaviour.stop_exit_code
            if code is None:
                code = 128 + signal
            self._end_later(container, run, behaviour.stop_s, code)

    async def exec(self, container: ContainerId, argv: Sequence[str], timeout_s: float) -> ExecResult:
        """Succeeds once the container is ready; the command itself is not looked at."""
        run = self._run(container)
        if run is None:
            return ExecResult(1, "container is not running")
        ready = self._is_ready(run)
        return ExecResult(0 if ready else 1, "" if ready else "not ready yet")

    async def open_session(
        self, container: ContainerId, argv: Sequence[str], *, tty: bool, stdin: bool
    ) -> ScriptedSession:
        """A command that repeats its input or, without any, prints its words; then it succeeds."""
        self._must_run(container)
        session = ScriptedSession()
        if not stdin:
            await session.send_stdin(f"{' '.join(argv)}\n".encode())
            await session.close_stdin()
        return session

    async def attach(self, container: ContainerId, *, stdin: bool, ends_stdin: bool) -> ScriptedSession:
        """A scripted container says nothing but what it is told."""
        self._must_run(container)
        return ScriptedSession()

    async def dial(self, uid: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise ConnectionRefusedError(f"nothing listens on port {port} of a scripted pod")

    def _must_run(self, container: ContainerId) -> None:
        if self._run(container) is None:
            raise CannotStart("the container has ended")

    async def probe(self, uid: str, target: ProbeTarget, timeout_s: float) -> tuple[bool, str]:
        """Succeeds when all containers of the pod that run are ready."""
        pod = self._pods.get(uid)
        if pod is None or not pod.runs:
            return False, "connection refused"
        ready = all(self._is_ready(run) for run in pod.runs.values())
        return ready, "HTTP 200" if ready else "connection refused"

    async def set_names(self, namespace: str, names: Mapping[str, Sequence[str]]) -> None:
        self.names[namespace] = {name: tuple(addresses) for name, addresses in names.items()}

    def finish(self, container: ContainerId, exit_code: int) -> None:
        """End a container that runs, as if by itself."""
        self._end(container, exit_code)

    def _run(self, container: ContainerId) -> _Run | None:
        uid, name, attempt = container
        pod = self._pods.get(uid)
        return None if pod is None else pod.runs.get((name, attempt))

    def _is_ready(self, run: _Run) -> bool:
        after_s = run.behaviour.ready_after_s
        return after_s is not None and self._now() >= run.started_at + timedelta(seconds=after_s)

    def _end_later(self, container: ContainerId, run: _Run, delay_s: float, exit_code: int) -> None:
        if delay_s <= 0:
            self._end(container, exit_code)
            return
        if run.timer is not None:
            run.timer.cancel()
        loop = asyncio.get_running_loop()
        run.timer = loop.call_later(delay_s, self._end, container, exit_code)

    def _end(self, container: ContainerId, exit_code: int, signal: int = 0) -> None:
        uid, name, attempt = container
        pod = self._pods.get(uid)
        run = None if pod is None else pod.runs.pop((name, attempt), None)
        if pod is None or run is None:
            return
        if run.timer is not None:
            run.timer.cancel()
        reason = run.behaviour.reason if exit_code == run.behaviour.exit_code else ""
        reason = reason or ("Completed" if exit_code == 0 else "Error")
        message = run.behaviour.message if exit_code == run.behaviour.exit_code else ""
        end = Exit(container, exit_code, reason, run.started_at, self._now(), signal, message)
        if self._survives:
            pod.ends[name] = [*pod.ends.get(name, ())[-1:], FoundRun(container, run.started_at, run.signal, end)]
        if not pod.abandoned:
            self.on_exit(end)
