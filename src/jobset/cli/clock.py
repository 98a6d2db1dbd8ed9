"""What time it is, and spans of time as people read them."""

from __future__ import annotations

from datetime import UTC, datetime


def clock(seconds: float) -> str:
    """12.3 s, then 1:05, then 1:02:03."""
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def now_utc() -> datetime:
    """The wall clock of the command line, the one place that owns it."""
    return datetime.now(UTC)  # noqa: TID251
