"""What every way of showing a run has in common, and the one that shows nothing."""

from __future__ import annotations

from typing import Protocol


class ShowsRun(Protocol):
    """The live view, the plain view, or none. Used as a context manager, with `redraw` running beside the run."""

    def __enter__(self) -> object: ...
    def __exit__(self, *_: object) -> None: ...
    async def redraw(self) -> None: ...
    def changed(self) -> None: ...
    def log(self, source: str, text: str) -> None: ...
    def notice(self, text: str, *, warning: bool = False) -> None: ...


class Silent:
    """Shows nothing: for --quiet and for machine-readable output."""

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    async def redraw(self) -> None:
        pass

    def changed(self) -> None:
        pass

    def log(self, source: str, text: str) -> None:
        pass

    def notice(self, text: str, *, warning: bool = False) -> None:
        pass
