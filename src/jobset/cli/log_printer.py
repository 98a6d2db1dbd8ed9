"""Lines of logs as they are shown: each with its source, one colour a source; or as JSON, one object a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import click

from jobset.cli.columns import PREFIX_COLOURS
from jobset.cli.log_sources import LogSource


class LogPrinter:
    """Takes lines as the API server gives them when times are asked for: `<time> <text>`."""

    def __init__(self, *, timestamps: bool, as_json: bool, prefix: bool) -> None:
        self._timestamps = timestamps
        self._as_json = as_json
        self._prefix = prefix
        self._width = 0
        self._colours: dict[str, str] = {}

    def expect(self, sources: Iterable[LogSource]) -> None:
        """Make room for their names, and give them colours."""
        for source in sources:
            self._width = max(self._width, len(source.short_name))
            self._colours.setdefault(source.short_name, PREFIX_COLOURS[len(self._colours) % len(PREFIX_COLOURS)])

    def show(self, lines: Sequence[tuple[LogSource, str]]) -> None:
        if lines:
            click.echo("\n".join(self._shown(source, line) for source, line in lines))

    def _shown(self, source: LogSource, line: str) -> str:
        time, _, text = line.partition(" ")
        if self._as_json:
            return json.dumps(
                {
                    "time": time,
                    "namespace": source.namespace,
                    "pod": source.pod,
                    "container": source.container,
                    "replicatedJob": source.replicated_job,
                    "jobIndex": source.job_index,
                    "attempt": source.attempt,
                    "line": text,
                },
                ensure_ascii=False,
            )
        shown = line if self._timestamps else text
        if not self._prefix:
            return shown
        name = click.style(f"{source.short_name.ljust(self._width)} |", fg=self._colours.get(source.short_name))
        return f"{name} {shown}"
