"""Starts one process of a container in the supervisor's namespaces and working directory, by posix_spawn.

Decides which executable `argv[0]` means, and what to tell a user when there is none.
"""

from __future__ import annotations

import errno
import os
import signal
from typing import Any

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NOT_FOUND, NOT_EXECUTABLE = 127, 126


class CannotLaunch(Exception):
    """The message tells the fix; the exit code is the shell's: 127 not found, 126 not executable."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Launched:
    """A process and our ends of its streams; -1 where there is none. `stdin` stays open as long as this lives."""

    __slots__ = ("pid", "stderr", "stdin", "stdout")

    def __init__(self, pid: int = -1, stdout: int = -1) -> None:
        self.pid = pid
        self.stdout = stdout
        self.stderr = -1
        self.stdin = -1


def launch(
    argv: list[str],
    env: dict[str, str],
    *,
    tty: bool = False,
    open_stdin: bool = False,
    merge_output: bool = False,
) -> Launched:
    """Start `argv` in a session of its own. Raises CannotLaunch."""
    path = find_executable(argv, env)
    if tty:
        env = {"TERM": "xterm", **env}
    opened: list[int] = []  # the process's ends, ours no longer once it runs
    try:
        if tty:
            main, terminal = os.openpty()
            opened.append(terminal)
            name = os.ttyname(terminal)
            # the first terminal a session leader opens becomes its controlling terminal
            actions: list[Any] = [(os.POSIX_SPAWN_OPEN, 0, name, os.O_RDWR, 0)]
            actions += [(os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]
            return Launched(_spawn(path, argv, env, actions), main)
        result = Launched()
        actions = [_stdin(result, opened, open_stdin)]
        result.stdout, out = os.pipe()
        opened.append(out)
        actions.append((os.POSIX_SPAWN_DUP2, out, 1))
        if merge_output:
            actions.append((os.POSIX_SPAWN_DUP2, 1, 2))
        else:
            result.stderr, err = os.pipe()
            opened.append(err)
            actions.append((os.POSIX_SPAWN_DUP2, err, 2))
        result.pid = _spawn(path, argv, env, actions)
        return result
    finally:
        for fd in opened:
            os.close(fd)


def _stdin(result: Launched, opened: list[int], open_stdin: bool) -> tuple[Any, ...]:
    if not open_stdin:
        return (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    reading, result.stdin = os.pipe()
    opened.append(reading)
    return (os.POSIX_SPAWN_DUP2, reading, 0)


def _spawn(path: str, argv: list[str], env: dict[str, str], actions: list[Any]) -> int:
    defaults = [signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD]
    try:
        return os.posix_spawn(path, argv, env, file_actions=actions, setsid=True, setsigmask=[], setsigdef=defaults)
    except ValueError as error:
        raise CannotLaunch(f"command or environment of {argv[0]!r}: {error}", NOT_EXECUTABLE) from error
    except OSError as error:
        raise CannotLaunch(_why_not(path, error), NOT_EXECUTABLE) from error


def _why_not(path: str, error: OSError) -> str:
    fixes = {
        errno.ENOEXEC: "it is neither a program of this machine nor a script that begins with #!",
        errno.EACCES: "it may not be executed: set its mode (chmod +x), and look for a noexec mount",
        errno.ENOENT: "the interpreter it asks for is not installed on this machine",
        errno.E2BIG: "command and environment are too long together",
    }
    return f"cannot run {path}: {fixes.get(error.errno or 0, error.strerror)}"


def find_executable(argv: list[str], env: dict[str, str]) -> str:
    """The file that `argv[0]` means, by the PATH of `env`. Raises CannotLaunch."""
    if not argv or not argv[0]:
        raise CannotLaunch("no command: set command in the container (images are not pulled here)", NOT_FOUND)
    name = argv[0]
    search = env.get("PATH", DEFAULT_PATH)
    candidates = [name] if "/" in name else [os.path.join(entry or ".", name) for entry in search.split(":")]
    found = [path for path in candidates if os.path.isfile(path)]
    for path in found:
        if os.access(path, os.X_OK):
            return path
    if found:
        raise CannotLaunch(_why_not(found[0], OSError(errno.EACCES, "")), NOT_EXECUTABLE)
    where = "does not exist" if "/" in name else f"is not in PATH ({search})"
    raise CannotLaunch(
        f"executable {name!r} {where}: the image is not pulled, commands run on this machine; "
        "install it, or change command",
        NOT_FOUND,
    )
