"""Which container of a pod a request means, and whether it can be talked to. Pure; the words are the API server's."""

from __future__ import annotations

from collections.abc import Iterable

from jobset.api.errors import BadRequest, NotFound
from jobset.api.meta import Object

_KINDS = (
    ("containers", "choose one of"),
    ("initContainers", "or one of the init containers"),
    ("ephemeralContainers", "or one of the ephemeral containers"),
)
_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


def choose_container(pod: Object, requested: str) -> str:
    """The name of the container, the only one if none is named. BadRequest."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    names = {kind: [container["name"] for container in spec.get(kind) or ()] for kind, _ in _KINDS}
    if requested:
        if not any(requested in listed for listed in names.values()):
            raise BadRequest(f"container {requested} is not valid for pod {name}")
        return requested
    if len(names["containers"]) == 1:
        return str(names["containers"][0])
    choices = [f"{words}: [{' '.join(names[kind])}]" for kind, words in _KINDS if names[kind]]
    first, *others = choices
    raise BadRequest(" ".join([f"a container name must be specified for pod {name}, {first}", *others]))


def require_node(pod: Object) -> None:
    if not pod["spec"].get("nodeName"):
        raise BadRequest(f"pod {pod['metadata']['name']} does not have a host assigned")


def require_running(pod: Object, container: str) -> None:
    """NotFound, in the words that a kubelet has for it."""
    status = status_of(pod, container)
    if status is None or "running" not in (status.get("state") or {}):
        raise NotFound(f'container not found ("{container}")')


def status_of(pod: Object, container: str) -> Object | None:
    """The entry of a container in the pod's status, if it has one yet."""
    return next((one for one in _all_statuses(pod) if one.get("name") == container), None)


def spec_of(pod: Object, container: str) -> Object:
    """The container as the pod's spec has it; it exists."""
    spec = pod["spec"]
    return next(one for kind, _ in _KINDS for one in spec.get(kind) or () if one["name"] == container)


def _all_statuses(pod: Object) -> Iterable[Object]:
    status = pod.get("status") or {}
    for field in _STATUSES:
        yield from status.get(field) or ()
