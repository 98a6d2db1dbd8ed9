"""The Linux system calls that Python has no name for. Nothing is loaded before the first call: macOS imports it too."""

from __future__ import annotations

import errno
import functools
import os
from typing import Any

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_BIND = 0x1000
MS_MOVE = 0x2000
MS_REC = 0x4000
MS_PRIVATE = 0x40000

_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_AT_EMPTY_PATH = 0x1000
_OPEN_TREE_CLONE_CLOEXEC = 0x1 | os.O_CLOEXEC
_MOVE_MOUNT_F_EMPTY_PATH = 0x4
_MOUNT_ATTR_RDONLY = 0x1
_SYS_OPEN_TREE = 428
_SYS_MOVE_MOUNT = 429
_SYS_MOUNT_SETATTR = 442
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}


@functools.cache
def _libc() -> Any:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result < 0:
        import ctypes

        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    _check(_libc().unshare(flags), f"unshare({flags:#x})")


def setns(fd: int, kind: int = 0) -> None:
    _check(_libc().setns(fd, kind), "setns")


def mount(source: str, target: str, filesystem: str = "", flags: int = 0, options: str = "") -> None:
    result = _libc().mount(
        os.fsencode(source), os.fsencode(target), filesystem.encode() or None, flags, options.encode() or None
    )
    _check(result, f"mount {source or filesystem or 'none'} on {target}")


def bind(source: str, target: str) -> None:
    """Bind with everything mounted below: an unprivileged namespace may not take a part of what it inherited."""
    mount(source, target, flags=MS_BIND | MS_REC)


def clone_mount(source: str, read_only: bool) -> int:
    """A file descriptor of a copy of what is mounted at `source` and below, not attached anywhere yet (Linux 5.2)."""
    flags = _OPEN_TREE_CLONE_CLOEXEC | _AT_RECURSIVE
    fd: int = _libc().syscall(_SYS_OPEN_TREE, _AT_FDCWD, os.fsencode(source), flags)
    _check(fd, f"copy the mount of {source}")
    if read_only and not _set_read_only(fd):
        number = errno.ENOSYS
        raise OSError(number, "this kernel cannot make a mount read-only for an unprivileged user (Linux 5.12 can)")
    return fd


def attach_mount(fd: int, target: str) -> None:
    """Attach what `clone_mount` gave."""
    result = _libc().syscall(_SYS_MOVE_MOUNT, fd, b"", _AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH)
    _check(result, f"mount on {target}")


def _set_read_only(fd: int) -> bool:
    import ctypes

    attributes = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_RDONLY, 0, 0, 0)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    flags = _AT_EMPTY_PATH | _AT_RECURSIVE
    return bool(_libc().syscall(_SYS_MOUNT_SETATTR, fd, b"", flags, ctypes.byref(attributes), size) == 0)


def unmount(target: str) -> None:
    """Take a mount away now and free it when its last user is gone."""
    _check(_libc().umount2(os.fsencode(target), _MNT_DETACH), f"unmount {target}")


def pivot_root(new_root: str) -> None:
    """Make `new_root`, a mount point, the root directory; the old root is gone afterwards."""
    number = _SYS_PIVOT_ROOT[os.uname().machine]
    os.chdir(new_root)
    _check(_libc().syscall(number, b".", b"."), "pivot_root")
    unmount(".")
    os.chdir("/")


def die_with_parent(signal_number: int) -> None:
    _check(_libc().prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl")


def adopt_orphans() -> None:
    """Descendants whose parents ended become our children."""
    _check(_libc().prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")
