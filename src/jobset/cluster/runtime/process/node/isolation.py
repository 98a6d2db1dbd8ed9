"""What this machine lets us isolate, found by really trying, and entering it.

Everything is tried in a child that ends afterwards, because a namespace that can be made is not yet one that can be
used (AppArmor on Ubuntu, masked /proc in containers). Mounts (and host names) are the least; processes and network
need them.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import NamedTuple

from jobset.cluster.runtime.process.node import linux
from jobset.cluster.runtime.process.node.netlink import LOOPBACK_INDEX, Netlink
from jobset.cluster.runtime.process.node.rootfs import private_dev


class Isolation(NamedTuple):
    """What works. `problem` is what stopped the first thing that did not."""

    user_namespace: bool = False
    mounts: bool = False
    processes: bool = False
    network: bool = False
    problem: str = ""


def try_out(directory: str) -> Isolation:
    """`directory` is an empty one that mounts are tried on."""
    if sys.platform != "linux":
        return Isolation(problem=f"{sys.platform} has no namespaces")
    as_is = _try(directory, user_namespace=False) if os.geteuid() == 0 else Isolation()
    return as_is if as_is.mounts else _try(directory, user_namespace=True)


def _try(directory: str, user_namespace: bool) -> Isolation:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _trial(directory, user_namespace, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        lines = pipe.read().decode(errors="replace").splitlines()
    os.waitpid(child, 0)
    works = {level: level in lines for level in ("mounts", "processes", "network")}
    problem = next((line.removeprefix("problem ") for line in lines if line.startswith("problem ")), "")
    return Isolation(user_namespace, **works, problem=problem)


def _trial(directory: str, user_namespace: bool, report_fd: int) -> None:
    try:
        enter(directory, user_namespace=user_namespace, network=False, processes=False)
        os.close(linux.clone_mount("/", read_only=False))
        os.write(report_fd, b"mounts\n")
        _try_network(report_fd)
        _try_processes(report_fd)
    except (OSError, KeyError) as error:
        os.write(report_fd, f"problem {error}\n".encode())
    finally:
        os._exit(0)


def _try_network(report_fd: int) -> None:
    try:
        linux.unshare(linux.CLONE_NEWNET)
        netlink = Netlink()
        netlink.up(LOOPBACK_INDEX)
        netlink.add_bridge("try0")
        with open("/proc/self/ns/net", "rb") as namespace:
            netlink.add_veth("try1", "try2", namespace.fileno(), 0)
        os.write(report_fd, b"network\n")
    except OSError as error:
        os.write(report_fd, f"problem {error}\n".encode())


def _try_processes(report_fd: int) -> None:
    linux.unshare(linux.CLONE_NEWPID)
    child = os.fork()
    if child == 0:
        try:
            linux.mount("proc", "/proc", "proc")
            os.write(report_fd, b"processes\n")
        except OSError as error:
            os.write(report_fd, f"problem {error}\n".encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def enter(scratch: str, *, user_namespace: bool, network: bool, processes: bool, kept_open: Sequence[int] = ()) -> None:
    """Put this process, and all it will start, into namespaces of its own; `scratch` becomes a private tmpfs.

    In a user namespace we keep our user and group, and are all-powerful over what we make in it. With `processes` it is
    a child that returns, as process 1: whatever ends it ends all that it started. The parent waits for that and keeps
    nothing open but `kept_open`.
    """
    user, group = os.geteuid(), os.getegid()
    flags = linux.CLONE_NEWNS | linux.CLONE_NEWUTS | linux.CLONE_NEWIPC
    linux.unshare(flags | (linux.CLONE_NEWUSER if user_namespace else 0) | (linux.CLONE_NEWNET if network else 0))
    if user_namespace:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    if processes:
        _become_first_process(kept_open)
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
    linux.mount("tmpfs", scratch, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=755")
    os.mkdir(os.path.join(scratch, "mirror"))
    private_dev(scratch)


def _become_first_process(kept_open: Sequence[int]) -> None:
    linux.unshare(linux.CLONE_NEWPID)
    child = os.fork()
    if child == 0:
        linux.die_with_parent(signal.SIGKILL)
        return
    close_all_but(kept_open)
    _, status = os.waitpid(child, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def fork_with_namespace() -> int:
    """Fork a child that is process 1 of a new process namespace."""
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        linux.unshare(linux.CLONE_NEWPID)
        child = os.fork()
        if child:
            linux.setns(own, linux.CLONE_NEWPID)
        return child
    finally:
        os.close(own)


def close_all_but(keep: Sequence[int]) -> None:
    """What a forked child inherits and must not hold: the other containers' channels and namespaces."""
    start = 3
    for fd in sorted(set(keep)):
        os.closerange(start, fd)
        start = max(start, fd + 1)
    os.closerange(start, 1 << 20)


def ignore_signals() -> None:
    """The node process ends when its channel closes, not when a terminal or a user says so."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
