"""The supervisor of one container: starts its process, writes its log, reaps every descendant, reports its end.

A fork of the node process. With process namespaces it is process 1 of the container's own, so the kernel ends every
descendant, detached or not, when it ends; without, it adopts orphans and hunts them down. It talks to the node process
over one channel. In: `signal`, `exec`, `session`. Out: `started` or `failed`, then `exec-result`s, then one `exit`.
When the channel closes nobody is interested any more: it kills everything and ends.

It owns the log file and knows the exit, and needs nothing but the node process: so containers may outlive the program.
"""

from __future__ import annotations

import contextlib
import functools
import os
import selectors
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from jobset.cluster.runtime.process.node import linux, memory
from jobset.cluster.runtime.process.node.cgroups import Group
from jobset.cluster.runtime.process.node.launch import CannotLaunch, Launched, launch
from jobset.cluster.runtime.process.node.logs import LogStream
from jobset.cluster.runtime.process.node.process_tree import ProcessTree
from jobset.cluster.runtime.process.node.rootfs import BadMount, Bind, RootFilesystem
from jobset.cluster.runtime.process.node.sessions import STDERR, STDOUT, Sessions
from jobset.cluster.runtime.process.node.wire import Channel, Message

MESSAGE_LIMIT_BYTES = 4096
EXEC_OUTPUT_LIMIT_BYTES = 64 * 1024
READ_BYTES = 64 * 1024
DRAIN_LIMIT_S = 2.0
PUSH_EVERY_S = 0.01
MAX_FDS = 8
TIMED_OUT = 124


class ContainerSpec(NamedTuple):
    """All a supervisor needs to know. Paths are the node's, but for working_dir and the targets of binds."""

    argv: list[str]
    env: dict[str, str]
    working_dir: str
    log_path: str
    termination_log: str
    """The file that is bound over the termination message path, or nothing."""
    binds: list[Bind]
    namespaces: list[int]
    """Descriptors of the pod's namespaces, to be entered in this order."""
    own_mounts: bool
    own_processes: bool
    scratch: str
    group: Group | None
    watched_memory_bytes: int | None
    stdin: bool
    tty: bool


class _Exec:
    """A command that runs beside the container's process, for a probe, a hook or a user."""

    def __init__(self, id_: int, process: Launched, deadline: float) -> None:
        self.id = id_
        self.process = process
        self.deadline = deadline
        self.output = bytearray()
        self.timed_out = False


def supervise(spec: ContainerSpec, channel: Channel) -> NoReturn:
    """Does not return: the process ends here."""
    status = 1
    try:
        Supervisor(spec, channel).run()
        status = 0
    except Exception:
        sys.excepthook(*sys.exc_info())  # to the node's log: nobody above may handle it, we are a fork
    finally:
        os._exit(status)


class Supervisor:
    def __init__(self, spec: ContainerSpec, channel: Channel) -> None:
        self._spec = spec
        self._channel = channel
        self._selector = selectors.DefaultSelector()
        self._tree = ProcessTree(spec.own_processes)
        self._sessions = Sessions(self._tree, self._listen, lambda fd: self._selector.unregister(fd))
        self._streams: dict[int, LogStream] = {}
        self._passed: deque[int] = deque()  # descriptors that came with requests, in their order
        self._execs: dict[int, _Exec] = {}  # by process id
        self._main: Launched | None = None
        self._status: int | None = None  # of the main process, once it has ended
        self._killed_for_memory = False
        self._next_memory_look = time.monotonic()

    def run(self) -> None:
        self._die_with_the_node()
        message_fd = os.open(self._spec.termination_log, os.O_RDONLY) if self._spec.termination_log else -1
        try:
            log_fd = self._open_log()
            self._enter()
            self._watch_children()
            self._launch_main(log_fd)
        except (CannotLaunch, BadMount, OSError) as error:
            exit_code = error.exit_code if isinstance(error, CannotLaunch) else 128
            self._channel.send({"event": "failed", "message": str(error), "exit_code": exit_code})
            return
        started = time.time_ns()
        self._channel.send({"event": "started", "started_ns": started})
        while self._status is None:
            self._turn()
        self._end_everything()
        self._report(started, time.time_ns(), message_fd)

    def _die_with_the_node(self) -> None:
        if sys.platform == "linux":
            # a process 1 can be killed outright, its namespace goes with it; without one, there is a tree to kill first
            linux.die_with_parent(signal.SIGKILL if self._spec.own_processes else signal.SIGTERM)
            if not self._spec.own_processes:
                linux.adopt_orphans()

    def _open_log(self) -> int:
        os.makedirs(os.path.dirname(self._spec.log_path), exist_ok=True)
        return os.open(self._spec.log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def _enter(self) -> None:
        spec = self._spec
        for fd in spec.namespaces:
            linux.setns(fd)
            os.close(fd)
        if spec.own_mounts:
            linux.unshare(linux.CLONE_NEWNS)
            root = RootFilesystem(spec.scratch)
            root.bind_all(spec.binds)
            if spec.own_processes:
                root.mount_proc()
        try:
            os.chdir(spec.working_dir or "/")
        except OSError as error:
            raise CannotLaunch(
                f"working directory {spec.working_dir}: {error.strerror}: create it on this machine, mount a volume "
                "there, or change workingDir",
                127,
            ) from error

    def _watch_children(self) -> None:
        receiver, sender = socket.socketpair()
        for end in (receiver, sender):
            end.setblocking(False)
        self._wakeup = (receiver, sender)
        signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._tree.kill_all())
        self._listen(receiver.fileno(), lambda: self._reap(receiver))
        self._listen(self._channel.fileno(), self._receive)

    def _launch_main(self, log_fd: int) -> None:
        spec = self._spec
        if spec.group:
            spec.group.join()  # what we start is born into the group; we ourselves must not be its victim
        try:
            self._main = launch(spec.argv, spec.env, tty=spec.tty, open_stdin=spec.stdin)
        finally:
            if spec.group:
                spec.group.leave()
        self._tree.main = self._main.pid
        for fd, name in ((self._main.stdout, STDOUT), (self._main.stderr, STDERR)):
            if fd >= 0:
                self._streams[fd] = LogStream(log_fd, name)
                self._listen(fd, functools.partial(self._pump, fd))

    def _listen(self, fd: int, callback: Callable[[], object]) -> None:
        self._selector.register(fd, selectors.EVENT_READ, callback)

    def _turn(self) -> None:
        for key, _ in self._selector.select(self._timeout()):
            key.data()
        if self._sessions.waits:
            self._sessions.push()
        now = time.monotonic()
        for command in self._execs.values():
            if now >= command.deadline and not command.timed_out:
                command.timed_out = True
                self._tree.kill_group(command.process.pid)
        if self._spec.watched_memory_bytes is not None and now >= self._next_memory_look:
            self._next_memory_look = now + memory.LOOK_EVERY_S
            if memory.is_over(self._tree.pids(), self._spec.watched_memory_bytes):
                self._killed_for_memory = True
                self._tree.kill_all()

    def _timeout(self) -> float | None:
        times = [command.deadline for command in self._execs.values() if not command.timed_out]
        if self._spec.watched_memory_bytes is not None:
            times.append(self._next_memory_look)
        if self._sessions.waits:
            times.append(time.monotonic() + PUSH_EVERY_S)
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _pump(self, fd: int) -> None:
        """Move what has arrived from a pipe to the log."""
        try:
            data = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return  # a client has made the terminal non-blocking, for all
        except OSError:
            data = b""  # a terminal reports its end as an error
        if data:
            self._write_down(fd, data)
        else:
            self._streams.pop(fd).finish()
            self._forget(fd)
            if self._main is not None and fd == self._main.stdout:
                self._main.stdout = -1

    def _write_down(self, fd: int, data: bytes) -> None:
        stream = self._streams[fd]
        stream.write(data)
        self._sessions.tell(stream.name, data)

    def _forget(self, fd: int) -> None:
        self._selector.unregister(fd)
        os.close(fd)

    def _receive(self) -> None:
        received = self._channel.receive_with_fds(MAX_FDS)
        if received is None:
            self._tree.kill_all()
            self._tree.reap_all()
            os._exit(0)
        messages, fds = received
        self._passed.extend(fds)
        for message in messages:
            match message["op"]:
                case "signal":
                    self._signal(message["signal"])
                case "exec":
                    self._exec(message)
                case "session":
                    self._session(message, self._passed.popleft())

    def _signal(self, number: int) -> None:
        if number == signal.SIGKILL:
            self._tree.kill_all()
        else:
            self._tree.signal_main(number)

    def _exec(self, message: Message) -> None:
        spec = self._spec
        if spec.group:
            spec.group.join()
        try:
            process = launch(message["argv"], spec.env, merge_output=True)
        except CannotLaunch as error:
            self._answer(message["id"], error.exit_code, str(error))
            return
        finally:
            if spec.group:
                spec.group.leave()
        command = _Exec(message["id"], process, time.monotonic() + message["timeout_s"])
        self._execs[process.pid] = command
        self._listen(process.stdout, lambda: self._collect(command))

    def _session(self, message: Message, fd: int) -> None:
        """A command whose streams a user has, or without one those of the main process."""
        spec = self._spec
        if not message["argv"]:
            assert self._main is not None
            self._sessions.attach(message, fd, self._main, spec.tty)
            return
        if spec.group:
            spec.group.join()
        try:
            self._sessions.exec(message, fd, spec.env)
        finally:
            if spec.group:
                spec.group.leave()

    def _collect(self, command: _Exec) -> bool:
        if command.process.stdout < 0:
            return False  # its end was seen earlier in this turn
        data = os.read(command.process.stdout, READ_BYTES)
        if not data:
            self._forget(command.process.stdout)
            command.process.stdout = -1
            return False
        room = EXEC_OUTPUT_LIMIT_BYTES - len(command.output)
        command.output += data[: max(0, room)]
        return True

    def _reap(self, receiver: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            receiver.recv(4096)
        for pid, status in self._tree.reap():
            if self._main is not None and pid == self._main.pid:
                self._status = status
            elif pid in self._execs:
                self._finish_exec(self._execs.pop(pid), status)
            else:
                self._sessions.reaped(pid, _exit_code(status))

    def _finish_exec(self, command: _Exec, status: int) -> None:
        if command.process.stdout >= 0:
            os.set_blocking(command.process.stdout, False)
            try:
                while command.process.stdout >= 0 and self._collect(command):
                    pass
            except BlockingIOError:
                self._forget(command.process.stdout)  # something it left behind holds the pipe
        code = TIMED_OUT if command.timed_out else _exit_code(status)
        self._answer(command.id, code, command.output.decode(errors="replace"))

    def _answer(self, exec_id: int, exit_code: int, output: str) -> None:
        self._channel.send({"event": "exec-result", "id": exec_id, "exit_code": exit_code, "output": output})

    def _end_everything(self) -> None:
        """The main process has ended: so do its descendants, and what they wrote is written down."""
        self._tree.kill_all()
        for pid, status in self._tree.reap_all():
            if pid in self._execs:
                self._finish_exec(self._execs.pop(pid), status)
            else:
                self._sessions.reaped(pid, _exit_code(status))
        deadline = time.monotonic() + DRAIN_LIMIT_S
        for fd in list(self._streams):
            os.set_blocking(fd, False)
            while self._pump_now(fd) and time.monotonic() < deadline:
                pass
        self._sessions.finish(_exit_code(self._status or 0))

    def _pump_now(self, fd: int) -> bool:
        try:
            data = os.read(fd, READ_BYTES)
        except OSError:
            data = b""
        self._write_down(fd, data) if data else self._streams[fd].finish()
        return bool(data)

    def _report(self, started: int, finished: int, message_fd: int) -> None:
        status = self._status if self._status is not None else 0
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        out_of_memory = self._killed_for_memory or (
            number == signal.SIGKILL and self._spec.group is not None and self._spec.group.out_of_memory_kills() > 0
        )
        code = _exit_code(status)
        report: dict[str, Any] = {
            "event": "exit",
            "exit_code": code,
            "signal": number,
            "reason": "OOMKilled" if out_of_memory else "Error" if code else "Completed",
            "started_ns": started,
            "finished_ns": finished,
            "message": "",
        }
        if message_fd >= 0:
            report["message"] = os.read(message_fd, MESSAGE_LIMIT_BYTES).decode(errors="replace")
        self._channel.send(report)


def _exit_code(status: int) -> int:
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
