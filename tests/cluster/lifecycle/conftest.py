"""A pod's state machine played by hand: reports go in, a readable transcript of instructions comes out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobset.api.meta import Object
from jobset.cluster.model.pod_lifecycle.machine import next_wakeup, step
from jobset.cluster.model.pod_lifecycle.spec import read_pod
from jobset.cluster.model.pod_lifecycle.state import (
    BackOff,
    Begin,
    ConfirmDeletion,
    CreateSandbox,
    Event,
    Exited,
    HookDone,
    Instruction,
    Notice,
    Probed,
    RemoveSandbox,
    RunHook,
    RunProbe,
    SandboxReady,
    SignalContainer,
    StartContainer,
    Started,
    Tick,
    initial,
)
from jobset.cluster.model.pod_lifecycle.status import Place, build_status

START = datetime(2026, 1, 1, tzinfo=UTC)


def main(name: str = "main", **fields: Any) -> Object:
    return {"name": name, "image": "i", "command": ["run"], **fields}


def line(instruction: Instruction) -> str:
    match instruction:
        case CreateSandbox():
            return "create sandbox"
        case RemoveSandbox():
            return "remove sandbox"
        case ConfirmDeletion():
            return "confirm deletion"
        case StartContainer(container, attempt):
            return f"start {container}#{attempt}"
        case SignalContainer(container, attempt, signal):
            return f"signal {signal} to {container}#{attempt}"
        case RunHook(container, _, hook):
            return f"{hook} of {container}"
        case RunProbe(container, _, kind):
            return f"probe {kind} of {container}"
        case Notice(_, reason, message):
            return f"({reason}: {message})"
    raise AssertionError(instruction)


class Life:
    """Answers for sandbox and starts come by themselves unless `manual`. `heard` is the transcript since last taken."""

    def __init__(self, spec: Object, *, back_off: BackOff = BackOff(), manual: bool = False, **metadata: Any) -> None:
        self.pod: Object = {"metadata": {"name": "p", "namespace": "n", "uid": "u", **metadata}, "spec": spec}
        self.state = initial(read_pod(self.pod), back_off)
        self.now = START
        self.manual = manual
        self._lines: list[str] = []

    def begin(self) -> Life:
        self.tell(Begin())
        return self

    def tell(self, event: Event) -> None:
        events = [event]
        while events:
            self.state, instructions = step(self.state, events.pop(0), self.now)
            for instruction in instructions:
                if not isinstance(instruction, Notice) or instruction.reason not in ("Created", "Started", "Killing"):
                    self._lines.append(line(instruction))
                if not self.manual:
                    events += self._answer(instruction)

    def _answer(self, instruction: Instruction) -> list[Event]:
        match instruction:
            case CreateSandbox():
                return [SandboxReady("10.0.0.1")]
            case StartContainer(container, attempt):
                return [Started(container, attempt)]
        return []

    def wait(self, seconds: float) -> None:
        """Time passes; ticks come when the machine asked for them, and each writes its time to the transcript."""
        end = self.now + timedelta(seconds=seconds)
        while (due := next_wakeup(self.state, self.now)) is not None and due <= end:
            self.now = due
            before = len(self._lines)
            self.tell(Tick())
            at = (due - START).total_seconds()
            self._lines[before:] = [f"{at:g}s {text}" for text in self._lines[before:]]
        self.now = end

    def exit(self, container: str = "main", code: int = 0, reason: str = "", **fields: Any) -> None:
        run = self.state.containers[container]
        reason = reason or ("Completed" if code == 0 else "Error")
        self.tell(Exited(container, run.attempt, code, reason, run.started_at or self.now, self.now, **fields))

    def hook(self, container: str, hook: Any, ok: bool = True) -> None:
        self.tell(HookDone(container, self.state.containers[container].attempt, hook, ok, "" if ok else "boom"))

    def probe(self, kind: Any, ok: bool, container: str = "main") -> None:
        self.tell(Probed(container, self.state.containers[container].attempt, kind, ok, "seen"))

    def take(self) -> list[str]:
        """The transcript since the last call."""
        lines, self._lines = self._lines, []
        return lines

    def status(self) -> Object:
        status = build_status(self.state, self.pod, Place("192.0.2.1"), self.now)
        self.pod = {**self.pod, "status": status}
        return status

    def shown(self, container: str = "main") -> Object:
        status = self.status()
        listed = [*status.get("initContainerStatuses", ()), *status["containerStatuses"]]
        return next(c for c in listed if c["name"] == container)

    def phase(self) -> str:
        return str(self.status()["phase"])


@pytest.fixture
def life() -> Callable[..., Life]:
    """`life(spec)`: a pod that has begun; `life(spec, manual=True)` answers nothing by itself."""
    return lambda spec, **options: Life(spec, **options).begin()


@pytest.fixture
def container() -> Callable[..., Object]:
    return main
