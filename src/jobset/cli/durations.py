"""Durations as options take them. Pure."""

from __future__ import annotations

import re
from typing import Any

import click

_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?")


class Duration(click.ParamType[float]):
    """Seconds, or 90s, 15m, 1h30m."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        match = _DURATION.fullmatch(str(value).strip())
        if match is None or not any(match.groups()):
            self.fail(f"{value!r} is not a duration; write 90s, 15m or 1h30m", param, ctx)
        hours, minutes, seconds = (float(group or 0) for group in match.groups())
        return hours * 3600 + minutes * 60 + seconds
