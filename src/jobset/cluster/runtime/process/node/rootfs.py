"""The file system as one container sees it: the host's, with the container's mounts in it.

Runs in the container's supervisor, in a mount namespace of its own. Binding over a path that exists is all there is to
most mounts. Where a mount point is missing, the deepest directory that exists is *mirrored*: a small tmpfs takes its
place, holding a bind of each of its entries, and the mount point is made there; the host never sees it. Mirroring `/`
itself makes a new root directory. Nothing here needs more than a user namespace.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from typing import NamedTuple

from jobset.cluster.runtime.process.node import linux

_TERMINALS_AND_DISKS = ("tty0", "tty1", "tty2", "tty3", "tty4", "tty5", "tty6", "tty7", "tty8", "tty9", "ttyS", "vcs")
_NOT_FOR_CONTAINERS = (*_TERMINALS_AND_DISKS, "loop", "ram", "zram", "shm")
TERMINATION_LOG = "/dev/termination-log"


class BadMount(Exception):
    """A mount cannot be made. The message names the path and the fix."""


class Bind(NamedTuple):
    source: str
    target: str
    read_only: bool = False


class RootFilesystem:
    """Arranges the current mount namespace. `scratch` is a directory, private to the node, to build in."""

    def __init__(self, scratch: str) -> None:
        self._scratch = scratch
        self._made: set[str] = (
            set()
        )  # directories of tmpfs that we made ourselves: mount points may be made right in them
        self._volumes: set[str] = set()  # what the container's mounts cover: mount points may be made anywhere below

    def bind_all(self, binds: Iterable[Bind]) -> None:
        """Outer mounts first, whatever their order. All sources are taken first: a mount may hide another's source."""
        ordered = sorted(binds, key=lambda bind: bind.target.count("/"))
        if any(_lacks_top_level(bind.target) for bind in ordered):
            self._mirror_root()
        self._scratch = f"/proc/self/fd/{os.open(self._scratch, os.O_PATH | os.O_CLOEXEC)}"
        for bind, is_directory, source in [(bind, *_take_source(bind)) for bind in ordered]:
            self._bind(bind, is_directory, source)

    def mount_proc(self) -> None:
        linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)

    def _bind(self, bind: Bind, is_directory: bool, source: int) -> None:
        try:
            target = self._mount_point(os.path.realpath(bind.target), is_directory)
            linux.attach_mount(source, target)
        except OSError as error:
            raise BadMount(f"cannot mount {bind.source} at {bind.target}: {error}") from error
        finally:
            os.close(source)
        if is_directory:
            self._volumes.add(target)

    def _mount_point(self, target: str, is_directory: bool) -> str:
        if target == "/":
            raise BadMount("cannot mount at /: the container runs on this machine's file system; mount below it")
        if os.path.exists(target):
            if os.path.isdir(target) != is_directory:
                kinds = ("a directory", "a file") if is_directory else ("a file", "a directory")
                raise BadMount(f"cannot mount {kinds[0]} at {target}: there is {kinds[1]}; choose another mountPath")
            return target
        anchor = os.path.dirname(target)
        while not os.path.isdir(anchor):
            if os.path.lexists(anchor):
                raise BadMount(f"cannot mount at {target}: {anchor} is not a directory; choose another mountPath")
            anchor = os.path.dirname(anchor)
        if anchor not in self._made and not self._in_volume(anchor):
            self._mirror(anchor)
        self._make_directories(anchor, target if is_directory else os.path.dirname(target))
        if not is_directory:
            _make_file(target)
        return target

    def _make_directories(self, anchor: str, directory: str) -> None:
        for name in os.path.relpath(directory, anchor).split(os.sep):
            if name != os.curdir:
                anchor = os.path.join(anchor, name)
                os.mkdir(anchor)
                self._made.add(anchor)

    def _in_volume(self, directory: str) -> bool:
        while directory != "/":
            if directory in self._volumes:
                return True
            directory = os.path.dirname(directory)
        return False

    def _mirror(self, directory: str) -> None:
        place = os.path.join(self._scratch, "mirror")
        linux.mount("tmpfs", place, "tmpfs", 0, f"mode={stat.S_IMODE(os.stat(directory).st_mode):o}")
        mirror_entries(directory, place)
        linux.mount(place, directory, flags=linux.MS_MOVE)
        self._made.add(directory)

    def _mirror_root(self) -> None:
        place = os.path.join(self._scratch, "mirror")
        linux.mount("tmpfs", place, "tmpfs", 0, "mode=755")
        mirror_entries("/", place)
        linux.pivot_root(place)
        self._made.add("/")


def _lacks_top_level(target: str) -> bool:
    top = os.path.realpath(target).split("/", 2)[1]
    return bool(top) and not os.path.lexists(f"/{top}")


def _take_source(bind: Bind) -> tuple[bool, int]:
    """(whether it is a directory, a descriptor of its mount)"""
    if not bind.target.startswith("/"):
        raise BadMount(f"mount path {bind.target!r} is not absolute: start it with /")
    try:
        is_directory = stat.S_ISDIR(os.stat(bind.source).st_mode)
        return is_directory, linux.clone_mount(bind.source, bind.read_only)
    except OSError as error:
        raise BadMount(f"cannot mount {bind.source} at {bind.target}: {error}") from error


def mirror_entries(source: str, target: str, skip: tuple[str, ...] = ()) -> None:
    """Make every entry of one directory appear in another by binds; entries that begin as in `skip` are left out."""
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.name.startswith(skip):
                continue
            place = os.path.join(target, entry.name)
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), place)
                continue
            if entry.is_dir(follow_symlinks=False):
                os.mkdir(place)
            else:
                _make_file(place)
            try:
                linux.bind(entry.path, place)
            except OSError:
                continue  # gone meanwhile, or not ours to see: stays empty


def _make_file(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))


def private_dev(scratch: str) -> None:
    """Give this mount namespace a /dev of its own: the host's devices, own terminals, a place for termination logs.

    Made once for the node; containers inherit it and get their own /dev/shm and termination log over it.
    """
    place = os.path.join(scratch, "dev")
    os.mkdir(place)
    linux.mount("tmpfs", place, "tmpfs", linux.MS_NOSUID, "mode=755")
    mirror_entries("/dev", place, skip=_NOT_FOR_CONTAINERS)
    _make_file(os.path.join(place, os.path.basename(TERMINATION_LOG)))
    os.mkdir(os.path.join(place, "shm"))
    linux.mount(place, "/dev", flags=linux.MS_MOVE)
    try:
        options = "newinstance,ptmxmode=0666,mode=620"
        linux.mount("devpts", "/dev/pts", "devpts", linux.MS_NOSUID | linux.MS_NOEXEC, options)
        linux.bind("/dev/pts/ptmx", "/dev/ptmx")
    except OSError:
        pass  # the host's terminals serve as well
