"""The live view of a terminal: the board on top, the newest log lines below it, redrawn a few times a second."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from jobset.cli.board import GroupRow, JobRow, PodState, SetRow
from jobset.cli.clock import clock
from jobset.cli.columns import PREFIX_COLOURS

POD_MARKS: dict[PodState, tuple[str, str]] = {
    "gated": ("◌", "yellow"),
    "pending": ("○", "yellow"),
    "starting": ("◔", "cyan"),
    "running": ("◑", "cyan"),
    "ready": ("●", "green"),
    "terminating": ("◌", "bright_black"),
    "succeeded": ("✔", "green"),
    "failed": ("✖", "red"),
    "backing off": ("↻", "red"),
}
STATE_STYLES = {
    "Completed": "bold green", "Failed": "bold red", "Running": "green", "Restarting": "bold yellow",
    "Suspended": "yellow", "Starting": "cyan", "Deleted": "red",
}  # fmt: skip
BAR_WIDTH = 24
REMEMBERED_LINES = 200
LINES_LEFT_STANDING = 8
"""How many log lines stay below the last board, so that board and summary fit on one screen."""
SHORTEST_PAUSE_S = 0.125
PAUSE_PER_WORK = 4
"""Drawing takes at most a fifth of the time."""


class LiveView:
    """Draws while used as a context manager. `rows` is asked anew after `changed`."""

    def __init__(self, console: Console, rows: Callable[[], Sequence[SetRow]], elapsed_s: Callable[[], float]) -> None:
        self._console = console
        self._ask_rows = rows
        self._rows: Sequence[SetRow] = ()
        self._stale = True
        self._elapsed_s = elapsed_s
        self._lines: deque[Text] = deque(maxlen=REMEMBERED_LINES)
        self._most_lines = REMEMBERED_LINES
        self._colours: dict[str, str] = {}
        self._live = Live(get_renderable=self.picture, console=console, auto_refresh=False)

    def __enter__(self) -> LiveView:
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._most_lines = LINES_LEFT_STANDING
        self._live.__exit__(None, None, None)

    async def redraw(self) -> None:
        """Until cancelled. In the event loop, not in a thread of its own: what is drawn changes there."""
        now = asyncio.get_running_loop().time
        while True:
            begun = now()
            self._live.refresh()
            await asyncio.sleep(max(SHORTEST_PAUSE_S, PAUSE_PER_WORK * (now() - begun)))

    def changed(self) -> None:
        self._stale = True

    def log(self, source: str, text: str) -> None:
        colour = self._colours.setdefault(source, PREFIX_COLOURS[len(self._colours) % len(PREFIX_COLOURS)])
        self._lines.append(Text.assemble((f"{source} ", colour), Text.from_ansi(text)))

    def notice(self, text: str, *, warning: bool = False) -> None:
        self._lines.append(Text(f"· {text}", style="yellow" if warning else "bright_black"))

    def picture(self) -> RenderableType:
        if self._stale:
            self._rows, self._stale = self._ask_rows(), False
        rows = self._rows
        height = max(self._console.height - 2, 10)
        board = [line for row in rows for line in set_lines(row, self._elapsed_s(), height // 2 // max(len(rows), 1))]
        space = max(height - len(board) - 1, 3)
        lines: list[RenderableType] = []
        for line in list(self._lines)[-min(space, self._most_lines) :]:
            shown = line.copy()
            shown.truncate(self._console.width, overflow="ellipsis")
            lines.append(shown)
        return Group(*board, Text(), *lines)


def set_lines(row: SetRow, elapsed_s: float, most: int) -> list[RenderableType]:
    """The board of one JobSet in about `most` lines: Jobs share what its replicated jobs leave."""
    head = Text.assemble(
        (f"{row.kind} ", "bright_black"),
        (row.name, "bold"),
        "  ",
        (row.state, STATE_STYLES.get(row.state, "")),
        (f"  {clock(elapsed_s)}", "bright_black"),
    )
    if row.restarts:
        head.append(f"  attempt {row.restarts + 1}", style="yellow")
    share = max((most - 1 - len(row.groups)) // max(len(row.groups), 1), 0)
    lines: list[RenderableType] = [head]
    for group in row.groups:
        lines.append(group_line(group))
        if len(group.jobs) > 1:
            lines += job_lines(group.jobs, share)
    return lines


def job_lines(jobs: Sequence[JobRow], most: int) -> list[RenderableType]:
    """A line each; when there are too many, those in trouble first and the rest as a number."""
    if len(jobs) <= most:
        return [job_line(job) for job in jobs]
    calm = ("ready", "succeeded")
    chosen = sorted(jobs, key=lambda job: job.state in calm)[: max(most - 1, 0)]
    rest = Text(f"    … {len(jobs) - len(chosen)} more Jobs", style="bright_black")
    return [*(job_line(job) for job in chosen), rest]


def group_line(group: GroupRow) -> Text:
    up = group.ready + group.succeeded
    line = Text(f"  {group.name:<16}", style="bold")
    line = Text.assemble(line, bar(group), f" {up}/{group.wanted}")
    if group.succeeded:
        line.append(f"  {group.succeeded} succeeded", style="green")
    if group.failed:
        line.append(f"  {group.failed} failed", style="red")
    if group.note:
        line.append(f"  {group.note}", style="bright_black")
    if len(group.jobs) == 1:
        line.append("  ")
        line.append_text(pod_marks(group.jobs[0]))
    return line


def bar(group: GroupRow) -> Text:
    wanted = max(group.wanted, 1)
    done = BAR_WIDTH * min(group.succeeded, wanted) // wanted
    up = BAR_WIDTH * min(group.ready + group.succeeded, wanted) // wanted - done
    return Text.assemble(("█" * done, "green"), ("█" * up, "cyan"), ("░" * (BAR_WIDTH - done - up), "bright_black"))


def job_line(job: JobRow) -> Text:
    line = Text(f"    {job.name:<28} {job.state:<10} ")
    line.append_text(pod_marks(job))
    return line


def pod_marks(job: JobRow) -> Text:
    marks = Text()
    for pod in job.pods[:64]:
        mark, colour = POD_MARKS[pod.state]
        marks.append(mark + (str(pod.restarts) if pod.restarts else ""), style=colour)
    if len(job.pods) > 64:
        marks.append(f" +{len(job.pods) - 64}", style="bright_black")
    notes = sorted({pod.note for pod in job.pods if pod.note})
    if notes:
        marks.append(f"  {notes[0]}", style="yellow")
    return marks
