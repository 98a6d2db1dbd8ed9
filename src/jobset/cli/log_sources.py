"""Whose output can be read: the runs of the containers of pods. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from jobset.api import labels
from jobset.api.meta import Object
from jobset.cli.pod_paths import attempt_of


class Selection(Struct, frozen=True):
    """Which of the pods' containers. `attempt` is counted from 1; None and empty: all."""

    attempt: int | None = None
    container: str = ""
    previous: bool = False

    def chooses(self, pod: Object) -> bool:
        return self.attempt is None or attempt_of(pod) == self.attempt


class LogSource(Struct, frozen=True):
    """One run of a container, the latest or, where previous ones are asked for, the one before."""

    namespace: str
    pod: str
    uid: str
    container: str
    run: int
    short_name: str
    """What stands before its lines."""
    replicated_job: str
    job_index: str
    attempt: int


def sources_of(pods: Iterable[Object], selection: Selection) -> list[LogSource]:
    """The runs that have begun, so that there is something to read."""
    return [source for pod in pods if selection.chooses(pod) for source in _of_pod(pod, selection)]


def _of_pod(pod: Object, selection: Selection) -> list[LogSource]:
    metadata, status = pod["metadata"], pod.get("status") or {}
    found = metadata.get("labels") or {}
    statuses = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    sources = []
    for container in statuses:
        name, run = container["name"], container.get("restartCount", 0) - selection.previous
        if selection.container not in ("", name) or run < 0 or not _has_begun(container, selection):
            continue
        sources.append(
            LogSource(
                metadata.get("namespace", ""),
                metadata["name"],
                metadata["uid"],
                name,
                run,
                _short_name(pod, name),
                found.get(labels.REPLICATED_JOB_NAME, ""),
                found.get(labels.JOB_INDEX, ""),
                attempt_of(pod),
            )
        )
    return sources


def is_running(pod: Object, source: LogSource) -> bool:
    """Whether this very run may write more."""
    status = pod.get("status") or {}
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        if container["name"] == source.container and container.get("restartCount", 0) == source.run:
            return "running" in (container.get("state") or {})
    return False


def _has_begun(container: Object, selection: Selection) -> bool:
    if selection.previous:
        return True
    state = container.get("state") or {}
    return "running" in state or bool((state.get("terminated") or {}).get("startedAt"))


def _short_name(pod: Object, container: str) -> str:
    """The pod's host name without the JobSet's name, and the container where there are several."""
    name = str(pod["spec"].get("hostname") or pod["metadata"]["name"])
    name = name.removeprefix(f"{(pod['metadata'].get('labels') or {}).get(labels.JOBSET_NAME, '')}-")
    containers = len(pod["spec"].get("containers") or ()) + len(pod["spec"].get("initContainers") or ())
    return f"{name}/{container}" if containers > 1 else name
