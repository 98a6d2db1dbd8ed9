"""What a session is to do. Apart from the session, which takes time to load."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from jobset.api.meta import Object

OutputFormat: TypeAlias = Literal["text", "json", "events"]


class SessionOptions(Struct, frozen=True):
    documents: Sequence[Object]
    output: OutputFormat = "text"
    quiet: bool = False
    timeout_s: float | None = None
    logs: Path | None = None
    """Directory that gets a copy of every container's output."""
    kept: Path | None = None
    """Where everything is left, for the summary."""
    notes: Sequence[str] = ()
    """What the user should know before it starts."""
