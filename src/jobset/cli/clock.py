"""Spans of time as people read them."""

from __future__ import annotations


def clock(seconds: float) -> str:
    """12.3 s, then 1:05, then 1:02:03."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
