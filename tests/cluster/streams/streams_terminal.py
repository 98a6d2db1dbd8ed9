"""kubectl on a terminal that a test types into and reads from."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import struct
import termios
from collections.abc import AsyncIterator, Mapping

from streams_rig import KUBECTL, LIMIT_S, Rig


class Terminal:
    def __init__(self, fd: int, process: asyncio.subprocess.Process) -> None:
        self._fd = fd
        self.process = process
        self.shown = ""

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def resize(self, columns: int, rows: int) -> None:
        """As a window does; the kernel then signals kubectl."""
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def wait_shown(self, text: str) -> None:
        """Until this is on the screen, after what was waited for last."""
        async with asyncio.timeout(LIMIT_S):
            while text not in self.shown:
                self._read()
                await asyncio.sleep(0.005)
        self.shown = self.shown.partition(text)[2]

    async def wait_exit(self) -> int:
        async with asyncio.timeout(LIMIT_S):
            while self.process.returncode is None:
                self._read()  # a terminal that is not read keeps its program from ending
                await asyncio.sleep(0.005)
        return self.process.returncode

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            self.shown += os.read(self._fd, 65536).decode(errors="replace")


@contextlib.asynccontextmanager
async def on_terminal(rig: Rig, *words: str, env: Mapping[str, str] = {}) -> AsyncIterator[Terminal]:
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = await asyncio.create_subprocess_exec(
        KUBECTL,
        *rig.flags,
        *words,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={"PATH": os.environ["PATH"], "HOME": str(rig.root), "KUBECONFIG": "/dev/null", "TERM": "xterm", **env},
        preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)),
    )
    os.close(theirs)
    try:
        yield Terminal(ours, process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(ours)
