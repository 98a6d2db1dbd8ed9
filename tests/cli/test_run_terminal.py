"""`jobset run` on a terminal: the live view, and a real Ctrl-C, which the terminal sends to everything in front."""

import fcntl
import os
import re
import select
import struct
import subprocess
import termios
import time

from command import LIMIT_S, Place, jobset, new_mark

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Terminal:
    """A command in front of a terminal of 90 by 24."""

    def __init__(self, place: Place, *arguments: str) -> None:
        self.text = ""
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 90, 0, 0))
        self.process = subprocess.Popen(
            place.command(*arguments), stdin=slave, stdout=slave, stderr=slave, cwd=place.directory,
            env={**place.environment(), "TERM": "xterm"}, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(slave)

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def read_until(self, text: str) -> None:
        deadline = time.monotonic() + LIMIT_S
        while text not in self.text:
            assert time.monotonic() < deadline, self.text
            assert self._read(), f"ended without {text!r}: {self.text}"

    def end(self) -> int:
        while self._read():
            pass
        os.close(self._master)
        return self.process.wait(timeout=LIMIT_S)

    def _read(self) -> bool:
        if not select.select([self._master], [], [], LIMIT_S)[0]:
            return False
        try:
            came = os.read(self._master, 65536)
        except OSError:  # how Linux says that nobody is at the other side any more
            return False
        self.text += ESCAPES.sub("", came.decode(errors="replace"))
        return bool(came)


def test_the_live_view_ends_with_board_and_summary(place: Place) -> None:
    terminal = Terminal(place, "run", place.write(jobset("echo hello there", replicas=2)))
    assert terminal.end() == 0
    board, summary = terminal.text.rsplit("JobSet js: Completed after", 1)
    last = board[board.rindex("JobSet js  Completed") :]
    assert "2/2  2 succeeded" in last
    assert "js-w-1                       succeeded  ✔" in last
    assert "w-1-0 hello there" in last
    assert "logs: not kept" in summary


def test_ctrl_c_reaches_pods_as_a_request_to_end_only(place: Place) -> None:
    mark = new_mark()
    script = f"trap 'echo got INT' INT; trap 'echo got TERM; exit 0' TERM; echo up; sleep {mark} & wait"
    terminal = Terminal(place, "run", place.write(jobset(script)))
    terminal.read_until("w-0-0 up")
    terminal.press(b"\x03")
    assert terminal.end() == 130
    assert "press Ctrl-C again to kill them" in terminal.text
    assert "got TERM" in terminal.text
    assert "got INT" not in terminal.text
    assert place.left_behind(mark) == []
