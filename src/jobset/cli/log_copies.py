"""Copies of what containers wrote, for `--logs DIR`: plain lines, one file a container, while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from jobset.local.follow import Source

MOST_OPEN_FILES = 200


class LogCopies:
    """Writes DIR/<pod>/<container>.log, or DIR/<namespace>/<pod>/<container>.log where there are several namespaces.

    A file of an earlier run is replaced. When the disk takes no more, `problem` says so, and no more is copied.
    """

    def __init__(self, directory: Path, *, by_namespace: bool = False) -> None:
        self.problem = ""
        self._directory = directory
        self._by_namespace = by_namespace
        self._begun: set[Path] = set()
        self._open: dict[Path, TextIO] = {}

    def write(self, source: Source, text: str) -> None:
        if self.problem:
            return
        try:
            self._file(source).write(text + "\n")
        except OSError as error:
            self.problem = f"copying logs to {self._directory} ended: {error.strerror or error}"

    def close(self) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()

    def _file(self, source: Source) -> TextIO:
        place = self._directory / source.namespace if self._by_namespace else self._directory
        path = place / source.pod / f"{source.container}.log"
        file = self._open.get(path)
        if file is None:
            if len(self._open) >= MOST_OPEN_FILES:
                self.close()
            path.parent.mkdir(parents=True, exist_ok=True)
            file = self._open[path] = path.open("a" if path in self._begun else "w", buffering=1, encoding="utf-8")
            self._begun.add(path)
        return file
