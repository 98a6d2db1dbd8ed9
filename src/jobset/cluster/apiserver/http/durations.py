"""How long ago, in as few characters as kubectl's columns have. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from jobset.api.meta import parse_time

UNKNOWN = "<unknown>"
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def age(moment: str | None, now: datetime) -> str:
    """The time since an RFC 3339 moment."""
    if not moment:
        return UNKNOWN
    try:
        return short_duration(now - parse_time(moment))
    except ValueError:
        return "<invalid>"


def short_duration(duration: timedelta) -> str:
    """Two units while small, such as 3m20s, then one: 42m, 5h, 17d, 3y. Clocks may differ by a second."""
    seconds = int(duration.total_seconds())
    if seconds < -1:
        return "<invalid>"
    if seconds < 2 * _MINUTE:
        return f"{max(seconds, 0)}s"
    if seconds < 10 * _MINUTE:
        return _two(seconds, _MINUTE, "m", 1, "s")
    if seconds < 3 * _HOUR:
        return f"{seconds // _MINUTE}m"
    if seconds < 8 * _HOUR:
        return _two(seconds, _HOUR, "h", _MINUTE, "m")
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR}h"
    if seconds < 8 * _DAY:
        return _two(seconds, _DAY, "d", _HOUR, "h")
    if seconds < 2 * _YEAR:
        return f"{seconds // _DAY}d"
    if seconds < 8 * _YEAR:
        return _two(seconds, _YEAR, "y", _DAY, "d")
    return f"{seconds // _YEAR}y"


def _two(seconds: int, large: int, large_sign: str, small: int, small_sign: str) -> str:
    rest = seconds % large // small
    return f"{seconds // large}{large_sign}" + (f"{rest}{small_sign}" if rest else "")
