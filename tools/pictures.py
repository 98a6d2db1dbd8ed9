"""Draw the README's pictures from the real program: run it in a terminal of our own and keep what it shows, as SVG.

    python tools/pictures.py            # all pictures, into docs/pictures/
    python tools/pictures.py run-live   # one of them

Needs pyte (a terminal emulator in Python) and rich. Nothing is retouched: a picture is a screen the program has shown.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyte
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "docs/pictures"
LIMIT_S = 60.0

SVG = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g></svg>
"""


@dataclass(frozen=True, slots=True)
class Picture:
    """`until` says, from the text of the screen, when to keep it; without it the last screen is kept."""

    command: tuple[str, ...]
    rows: int
    columns: int = 104
    until: Callable[[str], bool] | None = None
    alone: bool = True


PICTURES = {
    "run-live": Picture(("jobset", "run", "examples/ring-allreduce/jobset.yaml"), 24, until=lambda s: "step  9" in s),
    "run-end": Picture(("jobset", "run", "examples/ring-allreduce/jobset.yaml"), 30),
    "explain": Picture(("jobset", "explain", "examples/ring-allreduce/jobset.yaml"), 13),
    "validate": Picture(("jobset", "validate", "docs/pictures/wrong.yaml"), 8),
}


def draw(name: str, picture: Picture) -> None:
    screen = pyte.Screen(picture.columns, picture.rows)
    stream = pyte.ByteStream(screen)
    prompt = "$ " + " ".join(picture.command) + "\r\n"
    stream.feed(prompt.encode())
    _play(picture, screen, stream)
    console = Console(record=True, width=picture.columns, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115
    lines = [_line(screen, row) for row in range(picture.rows)]
    while lines and not lines[-1].plain.strip():
        lines.pop()
    for line in lines:
        console.print(line, soft_wrap=True)
    OUT.mkdir(parents=True, exist_ok=True)
    console.save_svg(str(OUT / f"{name}.svg"), title="", code_format=SVG, unique_id=name)
    print(f"docs/pictures/{name}.svg: {len(lines)} lines")


def _play(picture: Picture, screen: pyte.Screen, stream: pyte.ByteStream) -> None:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", picture.rows - 1, picture.columns, 0, 0))
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(picture.columns), "LINES": str(picture.rows - 1)}
    binary = Path(sys.executable).parent / picture.command[0]
    command = [str(binary), *picture.command[1:]]
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdin=slave, stdout=slave, stderr=slave, close_fds=True)
    os.close(slave)
    end = time.monotonic() + LIMIT_S
    try:
        while time.monotonic() < end:
            ready, _, _ = select.select([master], [], [], 0.1)
            if ready:
                try:
                    data = os.read(master, 1 << 16)
                except OSError:
                    return
                if not data:
                    return
                stream.feed(data)
                if picture.until and picture.until("\n".join(screen.display)):
                    return
    finally:
        os.close(master)
        process.terminate()
        process.wait()


def _line(screen: pyte.Screen, row: int) -> Text:
    line = Text()
    for column in range(screen.columns):
        char = screen.buffer[row][column]
        line.append(char.data, style=_style(char))
    line.rstrip()
    return line


def _style(char: pyte.screens.Char) -> str:
    parts = ["bold"] if char.bold else []
    if char.fg != "default":
        colour = char.fg.replace("brown", "yellow").replace("bright", "bright_")
        parts.append(f"#{colour}" if len(colour) == 6 and all(c in "0123456789abcdef" for c in colour) else colour)
    return " ".join(parts)


def main() -> None:
    for name in sys.argv[1:] or PICTURES:
        draw(name, PICTURES[name])


if __name__ == "__main__":
    main()
