"""One step in the making: the state being built and the instructions collected. Pure as seen from outside `step`.

Handlers change containers through `update` and the pod through `change`; nothing of the state handed in is touched.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import msgspec

from jobset.cluster.model.pod_lifecycle.spec import ContainerSpec, PodSpec
from jobset.cluster.model.pod_lifecycle.state import Container, Instruction, PodState


class Turn:
    __slots__ = ("_containers", "_copied", "instructions", "now", "spec", "state")

    def __init__(self, state: PodState, now: datetime) -> None:
        self.state = state
        self.spec: PodSpec = state.spec
        self.now = now
        self.instructions: list[Instruction] = []
        self._containers = state.containers
        self._copied = False

    def __getitem__(self, name: str) -> Container:
        return self._containers[name]

    def __iter__(self) -> Iterator[tuple[ContainerSpec, Container]]:
        """All containers in start order, as they are when it is their turn."""
        for spec in self.spec.containers:
            yield spec, self._containers[spec.name]

    def update(self, name: str, **changes: Any) -> Container:
        changed = msgspec.structs.replace(self._containers[name], **changes)
        self.put(name, changed)
        return changed

    def put(self, name: str, container: Container) -> None:
        if not self._copied:
            self._containers = dict(self._containers)
            self._copied = True
        self._containers[name] = container

    def change(self, **changes: Any) -> None:
        self.state = msgspec.structs.replace(self.state, **changes)

    def emit(self, instruction: Instruction) -> None:
        self.instructions.append(instruction)

    def after(self, delay_s: float) -> datetime:
        return self.now + timedelta(seconds=delay_s)

    def result(self) -> tuple[PodState, tuple[Instruction, ...]]:
        if self._copied:
            self.change(containers=self._containers)
        return self.state, tuple(self.instructions)
