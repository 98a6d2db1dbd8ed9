"""What carries a command's streams to a client, whatever the protocol: WebSocket messages or SPDY streams."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from jobset.api.meta import Object
from jobset.cluster.runtime.port import Session

STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
"""The channels of a command; ERROR carries its Status, once, at the end."""


class Channels(Protocol):
    async def feed(self, session: Session) -> None:
        """Hand on what the client sends; returns when it is gone."""
        ...

    async def send(self, channel: int, data: bytes) -> None:
        """STDOUT or STDERR; waits until there is room. Raises ConnectionError when the client is gone."""
        ...

    async def finish(self, status: Object) -> None:
        """The command has ended: say how, and close."""
        ...


def terminal_size(message: bytes) -> tuple[int, int] | None:
    """(columns, rows) of a resize message; None when it says neither."""
    try:
        size: Any = msgspec.json.decode(message)
        columns, rows = int(size["Width"]), int(size["Height"])
    except (msgspec.DecodeError, TypeError, KeyError, ValueError):
        return None
    return (columns, rows) if 0 < columns < 1 << 16 and 0 < rows < 1 << 16 else None
