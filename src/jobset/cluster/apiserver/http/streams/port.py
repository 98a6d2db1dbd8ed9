"""What the HTTP handlers of log, exec, attach and port-forward ask of whoever runs the pods (the kubelet).

A pod is given as the object that the API server has. Problems are `jobset.api.errors`.
"""

from __future__ import annotations

from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from jobset.api.meta import Object
from jobset.cluster.runtime.port import Session


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Which part of a log, and how. `since`: only lines that are not older."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since: datetime | None = None
    limit_bytes: int | None = None


class PodStreams(Protocol):
    def logs(self, pod: Object, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """The log as text. Raises BadRequest at once when there is no such log, not while iterating."""
        ...

    async def exec(self, pod: Object, container: str, argv: Sequence[str], *, tty: bool, stdin: bool) -> Session:
        """Start a command in a running container. Raises InternalError with the reason when it cannot start."""
        ...

    async def attach(self, pod: Object, container: str, *, stdin: bool) -> Session:
        """The streams of the container's own process, from now on."""
        ...

    async def dial(self, pod: Object, port: int) -> tuple[StreamReader, StreamWriter]:
        """Connect to a port in the pod's network. Raises OSError when nobody listens."""
        ...
