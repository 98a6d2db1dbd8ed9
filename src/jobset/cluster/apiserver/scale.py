"""The scale subresource of custom resources: replicas at the paths that the definition names. Pure."""

from __future__ import annotations

from typing import Any

from jobset.api.errors import BadRequest
from jobset.api.meta import Object
from jobset.cluster.model.kinds.kind import ScalePaths


def scale_of(paths: ScalePaths, obj: Object) -> Object:
    """The Scale object of a custom resource."""
    metadata = obj["metadata"]
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Object = {"replicas": _at(obj, paths.status_replicas) or 0}
    if paths.selector and (selector := _at(obj, paths.selector)):
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in shown if key in metadata},
        "spec": {"replicas": _at(obj, paths.spec_replicas) or 0},
        "status": status,
    }


def scaled(paths: ScalePaths, obj: Object, scale: Any) -> Object:
    """The custom resource with the replicas that a Scale object asks for. BadRequest."""
    replicas = scale.get("spec", {}).get("replicas", 0) if isinstance(scale, dict) else None
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
        raise BadRequest(f"spec.replicas: {replicas!r} must be a whole number, 0 or more")
    new = _with(obj, _steps(paths.spec_replicas), replicas)
    version = scale.get("metadata", {}).get("resourceVersion")
    return {**new, "metadata": {**new["metadata"], "resourceVersion": version}} if version else new


def _steps(path: str) -> list[str]:
    return path.removeprefix(".").split(".")


def _at(obj: Object, path: str) -> Any:
    value: Any = obj
    for step in _steps(path):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _with(obj: Object, steps: list[str], value: Any) -> Object:
    inner = value if len(steps) == 1 else _with(obj.get(steps[0]) or {}, steps[1:], value)
    return {**obj, steps[0]: inner}
