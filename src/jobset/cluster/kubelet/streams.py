"""What users see of running containers: logs, commands in them, their own streams, their ports (port PodStreams).

Stands between the API server's handlers and the runtime. Which run of a container is meant comes from the pod's status,
by its container id, since that is what the user knows; `find_pod` gives the newest version of a pod. Refusals are in
the words of a kubelet.
"""

from __future__ import annotations

from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from jobset.api.errors import BadRequest, InternalError
from jobset.api.meta import Object
from jobset.cluster.apiserver.http.streams.port import LogOptions
from jobset.cluster.apiserver.http.streams.targets import spec_of, status_of
from jobset.cluster.kubelet.file_growth import FileGrowth
from jobset.cluster.kubelet.log_text import READ_BYTES, LogText, tail_offset
from jobset.cluster.kubelet.pods import log_path, pod_directory
from jobset.cluster.runtime.port import CannotStart, ContainerId, Runtime, Session

_NOT_FOUND = 127


class KubeletStreams:
    """`root` is the kubelet's."""

    def __init__(self, runtime: Runtime, root: Path, find_pod: Callable[[str, str], Object | None]) -> None:
        self._runtime = runtime
        self._root = root
        self._find_pod = find_pod
        self._growth = FileGrowth()

    def logs(self, pod: Object, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        attempt = _logged_attempt(pod, container, previous=options.previous)
        path = log_path(pod_directory(self._root, pod), container, attempt)
        return self._read(path, options, lambda: not self._is_running(pod, container, attempt))

    async def exec(self, pod: Object, container: str, argv: Sequence[str], *, tty: bool, stdin: bool) -> Session:
        try:
            return await self._runtime.open_session(_running(pod, container), argv, tty=tty, stdin=stdin)
        except CannotStart as error:
            raise InternalError(_why_not(argv[0], error)) from error

    async def attach(self, pod: Object, container: str, *, stdin: bool) -> Session:
        ends_stdin = bool(spec_of(pod, container).get("stdinOnce"))
        try:
            return await self._runtime.attach(_running(pod, container), stdin=stdin, ends_stdin=ends_stdin)
        except CannotStart as error:
            raise InternalError(f"Internal error occurred: error attaching to container: {error}") from error

    async def dial(self, pod: Object, port: int) -> tuple[StreamReader, StreamWriter]:
        return await self._runtime.dial(pod["metadata"]["uid"], port)

    async def _read(self, path: Path, options: LogOptions, has_ended: Callable[[], bool]) -> AsyncIterator[bytes]:
        text = LogText(timestamps=options.timestamps, since=options.since, limit_bytes=options.limit_bytes)
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return  # it never ran, or its directory is gone
        with file:
            file.seek(0 if options.tail_lines is None else tail_offset(file, options.tail_lines))
            while not text.is_full:
                ended = not options.follow or has_ended()  # asked before reading: then this is all there will be
                if data := file.read(READ_BYTES):
                    if said := text.feed(data):
                        yield said
                elif ended:
                    return
                else:
                    await self._growth.wait(path, file.tell(), has_ended)

    def _is_running(self, pod: Object, container: str, attempt: int) -> bool:
        metadata = pod["metadata"]
        current = self._find_pod(metadata["namespace"], metadata["name"])
        if current is None or current["metadata"]["uid"] != metadata["uid"]:
            return False
        status = status_of(current, container)
        return status is not None and "running" in status["state"] and _attempt(status.get("containerID")) == attempt


def _running(pod: Object, container: str) -> ContainerId:
    """The run of the container that is going on. InternalError when there is none any more."""
    status = status_of(pod, container) or {}
    attempt = _attempt(status.get("containerID"))
    if attempt is None:
        raise InternalError(f'Internal error occurred: container not found ("{container}")')
    return pod["metadata"]["uid"], container, attempt


def _logged_attempt(pod: Object, container: str, *, previous: bool) -> int:
    """The run whose log is meant: the one now or, while none has begun again, the last. BadRequest."""
    name = pod["metadata"]["name"]
    status = status_of(pod, container)
    if status is None:
        raise BadRequest(f'container "{container}" in pod "{name}" is not available')
    state = status.get("state") or {}
    last = _attempt(((status.get("lastState") or {}).get("terminated") or {}).get("containerID"))
    if previous:
        if last is None:
            raise BadRequest(f'previous terminated container "{container}" in pod "{name}" not found')
        return last
    now = _attempt(status.get("containerID")) if "running" in state else _attempt_of(state.get("terminated"))
    found = last if now is None else now
    if found is not None:
        return found
    if "terminated" in state:
        raise BadRequest(f'container "{container}" in pod "{name}" is terminated')
    if reason := (state.get("waiting") or {}).get("reason"):
        raise BadRequest(f'container "{container}" in pod "{name}" is waiting to start: {reason}')
    raise BadRequest(f'container "{container}" in pod "{name}" is waiting to start - no logs yet')


def _attempt_of(terminated: Object | None) -> int | None:
    return _attempt((terminated or {}).get("containerID"))


def _attempt(container_id: str | None) -> int | None:
    """The number of the run that a container id of ours ends with."""
    number = (container_id or "").rpartition("-")[2]
    return int(number) if number.isdecimal() else None


def _why_not(command: str, error: CannotStart) -> str:
    why = str(error)
    if error.exit_code == _NOT_FOUND:
        missing = (
            f"stat {command}: no such file or directory" if "/" in command else "executable file not found in $PATH"
        )
        why = f'exec: "{command}": {missing} (no image is pulled: commands run on this machine)'
    return f"Internal error occurred: error executing command in container: failed to exec in container: {why}"
