"""Which pods are a Job's own: those whose controller it is, by UID, and orphans that its selector chooses. Pure.

A pod whose labels were changed away from the selector is given up, so that a user can keep it for a look; an orphan
with the right labels is taken in. Labels alone never make a pod count: only the owner reference does, once written.
"""

from __future__ import annotations

from collections.abc import Sequence

from jobset.api.labels import JOB_TRACKING_FINALIZER
from jobset.api.meta import Object
from jobset.api.resources import PODS
from jobset.api.selectors import label_selector_of
from jobset.cluster.model.job.template import controller_reference
from jobset.core.actions import PatchObject, Why


def claims(job: Object, pods: Sequence[Object], orphans: Sequence[Object]) -> tuple[PatchObject, ...]:
    """The patches that make owner references agree with the selector, as a step of its own; mostly none."""
    selector = label_selector_of(job["spec"].get("selector"))
    if selector is None or "deletionTimestamp" in job["metadata"]:
        return ()
    strays = [pod for pod in pods if not selector.matches(pod["metadata"].get("labels"))]
    found = [
        pod
        for pod in orphans
        if "deletionTimestamp" not in pod["metadata"] and selector.matches(pod["metadata"].get("labels"))
    ]
    return (*(_release(job, pod) for pod in strays), *(_adopt(job, pod) for pod in found))


def _adopt(job: Object, pod: Object) -> PatchObject:
    metadata = pod["metadata"]
    owners = [*(metadata.get("ownerReferences") or ()), controller_reference(job)]
    finalizers = [*others(metadata), JOB_TRACKING_FINALIZER]
    why = Why("Adopted", f"Took over pod {metadata['name']}, which matches the selector and has no controller")
    return _patch(pod, {"ownerReferences": owners, "finalizers": finalizers}, why)


def _release(job: Object, pod: Object) -> PatchObject:
    metadata = pod["metadata"]
    uid = job["metadata"]["uid"]
    owners = [owner for owner in metadata.get("ownerReferences") or () if owner["uid"] != uid]
    why = Why("Released", f"Gave up pod {metadata['name']}, which no longer matches the selector")
    return _patch(pod, {"ownerReferences": owners, "finalizers": others(metadata)}, why)


def untrack(pod: Object, why: Why) -> PatchObject:
    """Remove the tracking finalizer from a raw pod and leave the others."""
    return _patch(pod, {"finalizers": others(pod["metadata"])}, why)


def others(metadata: Object) -> list[str]:
    return [finalizer for finalizer in metadata.get("finalizers") or () if finalizer != JOB_TRACKING_FINALIZER]


def _patch(pod: Object, changed: Object, why: Why) -> PatchObject:
    """Lists go as a whole, empty ones as null. The UID must hold; the version need not, as agents write pods often."""
    metadata = pod["metadata"]
    patch = {"metadata": {key: value or None for key, value in changed.items()}}
    return PatchObject(PODS, metadata["namespace"], metadata["name"], patch, why, uid=metadata["uid"])
