"""Memory and CPU limits by control groups, where the machine lets us make some. Without them memory.py does its best.

Version 2 is used where the kernel's memory controller is there and a place is writable (root, or a delegated group that
only holds our own processes); version 1 as root. Both count out-of-memory kills, which is how `OOMKilled` is told.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import NamedTuple

GROUP_PREFIX = "jobset-"
"""Before the id of the node process."""
CPU_PERIOD_US = 100_000
_MYSELF = "0"
_MOUNTS = "/proc/self/mountinfo"


class Limits(NamedTuple):
    memory_bytes: int | None = None
    cpu_cores: float | None = None

    def __bool__(self) -> bool:
        return self.memory_bytes is not None or self.cpu_cores is not None


class Group(NamedTuple):
    """One control group: a directory in each hierarchy that limits something (a single one in version 2).

    `homes` are the groups that our own processes are in, one for each directory.
    """

    directories: tuple[str, ...]
    homes: tuple[str, ...]
    version: int

    def join(self) -> None:
        for directory in self.directories:
            _write(directory, "cgroup.procs", _MYSELF)

    def leave(self) -> None:
        """Back to where the node process is."""
        for home in self.homes:
            _write(home, "cgroup.procs", _MYSELF)

    def out_of_memory_kills(self) -> int:
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        for directory in self.directories:
            match = re.search(r"^oom_kill (\d+)$", _read(directory, name), re.MULTILINE)
            if match:
                return int(match[1])
        return 0

    def remove(self) -> None:
        for directory in self.directories:
            with contextlib.suppress(OSError):  # a process may still be ending in it; our own end removes what is left
                os.rmdir(directory)


class Cgroups:
    """Where groups can be made: a base directory in each hierarchy. `enforced` names what they can limit."""

    def __init__(self, bases: dict[str, str], homes: dict[str, str], version: int) -> None:
        self._bases = bases  # controller -> directory
        self._homes = homes  # base -> the group of our own processes in that hierarchy
        self._version = version

    @property
    def enforced(self) -> tuple[str, ...]:
        return tuple(sorted(self._bases))

    def create(self, name: str, limits: Limits, parent: Group | None = None) -> Group | None:
        """A group with these limits, or None when there is nothing to limit here."""
        wanted = {"memory": limits.memory_bytes is not None, "cpu": limits.cpu_cores is not None}
        bases = sorted({base for controller, base in self._bases.items() if wanted[controller] or parent is not None})
        if not bases or not (limits or parent):
            return None
        above = {os.path.dirname(directory): directory for directory in parent.directories} if parent else {}
        directories = tuple(os.path.join(above.get(base, base), name) for base in bases)
        for directory in directories:
            os.makedirs(directory, exist_ok=True)
        group = Group(directories, tuple(self._homes[base] for base in bases), self._version)
        self._limit(group, limits)
        if self._version == 2 and parent is None:
            _try_write(directories[0], "cgroup.subtree_control", " ".join(f"+{name}" for name in self.enforced))
        return group

    def _limit(self, group: Group, limits: Limits) -> None:
        for directory in group.directories:
            if self._version == 2:
                _limit_v2(directory, limits)
            else:
                _limit_v1(directory, limits)

    def close(self) -> None:
        for base in self._bases.values():
            _remove_tree(base)


def _limit_v2(directory: str, limits: Limits) -> None:
    if limits.memory_bytes is not None:
        _try_write(directory, "memory.max", str(limits.memory_bytes))
        _try_write(directory, "memory.swap.max", "0")
        _try_write(directory, "memory.oom.group", "1")
    if limits.cpu_cores is not None:
        _try_write(directory, "cpu.max", f"{_quota_us(limits.cpu_cores)} {CPU_PERIOD_US}")


def _limit_v1(directory: str, limits: Limits) -> None:
    if limits.memory_bytes is not None:
        _try_write(directory, "memory.limit_in_bytes", str(limits.memory_bytes))
        _try_write(directory, "memory.memsw.limit_in_bytes", str(limits.memory_bytes))
    if limits.cpu_cores is not None:
        _try_write(directory, "cpu.cfs_period_us", str(CPU_PERIOD_US))
        _try_write(directory, "cpu.cfs_quota_us", str(_quota_us(limits.cpu_cores)))


def _quota_us(cores: float) -> int:
    return max(1000, round(cores * CPU_PERIOD_US))


def find(name: str, own_pids: tuple[int, ...]) -> Cgroups | None:
    """Make this run's base groups, called `name`, wherever that is allowed. None when it is allowed nowhere."""
    unified, legacy = _hierarchies()
    own = _own_groups()
    in_v2 = _base_v2(unified, own.get("", "/"), name, own_pids) if unified else None
    if in_v2:
        return in_v2
    bases: dict[str, str] = {}
    homes: dict[str, str] = {}
    for controller, needed in (("memory", "memory.limit_in_bytes"), ("cpu", "cpu.cfs_quota_us")):
        if controller in legacy:
            home = os.path.normpath(legacy[controller] + own.get(controller, "/"))
            _sweep(home)
            base = os.path.join(home, name)
            if _make(base) and os.path.exists(os.path.join(base, needed)):
                bases[controller], homes[base] = base, home
    return Cgroups(bases, homes, 1) if bases else None


def remove_left_by(pid: int) -> bool:
    """Remove what a node process left that was killed outright. False while something is still ending in it."""
    unified, legacy = _hierarchies()
    own = _own_groups()
    places = [(mount, own.get(controller, "/")) for controller, mount in sorted(legacy.items())]
    if unified:
        places += [(unified, "/"), (unified, own.get("", "/"))]
    bases = [os.path.join(os.path.normpath(mount + group), f"{GROUP_PREFIX}{pid}") for mount, group in places]
    for base in bases:
        _remove_tree(base)
    return not any(map(os.path.exists, bases))


def _base_v2(mount: str, own: str, name: str, own_pids: tuple[int, ...]) -> Cgroups | None:
    for parent in dict.fromkeys((mount, os.path.normpath(mount + own))):
        available = [c for c in ("cpu", "memory") if c in _read(parent, "cgroup.controllers").split()]
        if not available or not os.access(parent, os.W_OK):
            continue
        if not set(available) <= set(_read(parent, "cgroup.subtree_control").split()):
            _vacate(parent, name, own_pids)
            if not _try_write(parent, "cgroup.subtree_control", " ".join(f"+{c}" for c in available)):
                continue
        base = os.path.join(parent, name)
        _sweep(parent)
        if _make(base) and _try_write(base, "cgroup.subtree_control", " ".join(f"+{c}" for c in available)):
            home = os.path.normpath(mount + _own_groups().get("", "/"))
            return Cgroups(dict.fromkeys(available, base), {base: home}, 2)
    return None


def _vacate(group: str, name: str, own_pids: tuple[int, ...]) -> None:
    """A group that hands controllers down may hold no process: ours step into a leaf, if nobody else is there."""
    pids = {int(pid) for pid in _read(group, "cgroup.procs").split()}
    leaf = os.path.join(group, f"{name}-main")
    if pids and pids <= set(own_pids) and _make(leaf):
        for pid in sorted(pids):
            _try_write(leaf, "cgroup.procs", str(pid))


def _hierarchies() -> tuple[str, dict[str, str]]:
    """(mount point of version 2 or nothing, mount points of version 1 by controller)"""
    unified = ""
    legacy: dict[str, str] = {}
    for line in _read("/", _MOUNTS[1:]).splitlines():
        before, _, after = line.partition(" - ")
        mount_point, (kind, _, options) = before.split()[4], after.split(maxsplit=2)
        if kind == "cgroup2":
            unified = unified or mount_point
        elif kind == "cgroup":
            legacy.update((name, mount_point) for name in options.split(",") if name in ("memory", "cpu"))
    return unified, legacy


def _own_groups() -> dict[str, str]:
    groups: dict[str, str] = {}
    for line in _read("/proc/self", "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        groups.update(dict.fromkeys(controllers.split(","), path))
    return groups


def _remove_tree(base: str) -> None:
    for directory, _, _ in os.walk(base, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(directory)


def _sweep(parent: str) -> None:
    """Remove the empty groups of earlier runs whose node process was killed outright."""
    for name in os.listdir(parent):
        match = re.fullmatch(rf"{GROUP_PREFIX}(\d+)", name)
        if match and not os.path.exists(f"/proc/{match[1]}"):
            _remove_tree(os.path.join(parent, name))


def _make(directory: str) -> bool:
    try:
        os.mkdir(directory)
    except OSError:
        return False
    return True


def _read(directory: str, name: str) -> str:
    try:
        with open(os.path.join(directory, name)) as file:
            return file.read()
    except OSError:
        return ""


def _write(directory: str, name: str, value: str) -> None:
    with open(os.path.join(directory, name), "w") as file:
        file.write(value)


def _try_write(directory: str, name: str, value: str) -> bool:
    try:
        _write(directory, name, value)
    except OSError:
        return False
    return True
