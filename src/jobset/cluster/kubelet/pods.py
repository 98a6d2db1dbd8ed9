"""What the kubelet keeps of one pod on its nodes: the machine's state, its inbox, what is still to be done."""

from __future__ import annotations

from collections import deque
from pathlib import Path

from jobset.api.meta import Object
from jobset.cluster.kubelet.volumes import Volume
from jobset.cluster.model.pod_lifecycle.spec import read_pod
from jobset.cluster.model.pod_lifecycle.state import BackOff, Event, Instruction, PodState, initial
from jobset.reconcile.informer import Key, resource_version_of

LOGS = "logs"
FINAL_PHASES = ("Succeeded", "Failed")


class PodRun:
    """Written only by the pass that works on it, except for `inbox` and `pod`, which reports add to and replace."""

    __slots__ = ("directory", "inbox", "key", "pending", "pod", "state", "volumes")

    def __init__(self, pod: Object, key: Key, root: Path, back_off: BackOff) -> None:
        self.pod = pod
        self.key = key
        self.state: PodState = initial(read_pod(pod), back_off)
        self.inbox: deque[Event] = deque()
        self.pending: deque[Instruction] = deque()
        """Instructions given and not yet carried out; one that fails unexpectedly is tried again."""
        self.directory = pod_directory(root, pod)
        self.volumes: dict[str, Volume] | None = {}
        """None: of a pod that an earlier kubelet began, and not looked for yet."""

    @property
    def uid(self) -> str:
        return self.state.spec.uid

    @property
    def node(self) -> str:
        return str(self.pod["spec"]["nodeName"])

    def see(self, pod: Object) -> None:
        """A version of the Pod came by; the newest one counts."""
        if resource_version_of(pod) > resource_version_of(self.pod):
            self.pod = pod

    def container(self, name: str) -> Object:
        spec = self.pod["spec"]
        return next(c for c in (*spec["containers"], *(spec.get("initContainers") or ())) if c["name"] == name)

    def log_path(self, container: str, attempt: int) -> Path:
        return log_path(self.directory, container, attempt)


def pod_directory(root: Path, pod: Object) -> Path:
    """Where everything of a pod lies."""
    metadata = pod["metadata"]
    return root / "pods" / f"{metadata['namespace']}_{metadata['name']}_{metadata['uid']}"


def log_path(directory: Path, container: str, attempt: int) -> Path:
    """The log of one run of a container below its pod's directory."""
    return directory / LOGS / container / f"{attempt}.log"


def key_of_run(pod: Object) -> Key:
    """A pod's key in the kubelet's queue: by UID, since a successor of the same name may come before its end."""
    metadata = pod["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}", metadata["uid"]


def is_final(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in FINAL_PHASES
