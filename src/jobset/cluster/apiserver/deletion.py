"""Deleting: preconditions, grace for pods, finalizers, and what is left for the garbage collector to do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from jobset.api.meta import Object, format_time
from jobset.api.resources import Resource
from jobset.cluster.apiserver.metadata import check_preconditions, not_found
from jobset.cluster.apiserver.options import DeleteOptions
from jobset.cluster.apiserver.registry import Registry, Served
from jobset.cluster.store.port import Store

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class Deletion:
    def __init__(self, store: Store, registry: Registry, now: Callable[[], datetime]) -> None:
        self._store = store
        self._registry = registry
        self._now = now

    def delete(self, resource: Resource, namespace: str, name: str, options: DeleteOptions) -> Object:
        served = self._registry.of(resource)
        current = self._store.get(served.storage, namespace, name)
        if current is None:
            raise not_found(resource, name)
        check_preconditions(resource, current, options.uid, options.resource_version)
        return self._mark(served, current, options)

    def _mark(self, served: Served, current: Object, options: DeleteOptions) -> Object:
        metadata = current["metadata"]
        finalizers = _finalizers(served, metadata.get("finalizers") or [], options)
        grace_s = _grace_s(served, current, options)
        if not finalizers and not grace_s:
            return current if options.dry_run else self._store.remove(served.storage, current)
        wanted = {**metadata, "deletionGracePeriodSeconds": grace_s}
        if "deletionTimestamp" not in metadata or grace_s < metadata.get("deletionGracePeriodSeconds", 0):
            wanted["deletionTimestamp"] = format_time(self._now() + timedelta(seconds=grace_s))
        else:
            wanted["deletionGracePeriodSeconds"] = metadata.get("deletionGracePeriodSeconds", 0)
        if finalizers:
            wanted["finalizers"] = finalizers
        if wanted == metadata:
            return current
        if served.kind.generation and "deletionTimestamp" not in metadata:
            wanted["generation"] = metadata.get("generation", 0) + 1
        marked = {**current, "metadata": wanted}
        return marked if options.dry_run else self._store.put(served.storage, marked)

    def finished(self, obj: Object) -> bool:
        """Whether nothing holds back the removal of an object that is being deleted."""
        metadata = obj["metadata"]
        return (
            "deletionTimestamp" in metadata
            and not metadata.get("finalizers")
            and not metadata.get("deletionGracePeriodSeconds")
        )


def _finalizers(served: Served, present: list[str], options: DeleteOptions) -> list[str]:
    """The finalizers after this request: its propagation policy replaces what an earlier one asked for."""
    policy = options.propagation
    if policy is None:
        if served.kind.orphans_by_default and FOREGROUND not in present:
            return present if ORPHAN in present else [*present, ORPHAN]
        return present
    kept = [finalizer for finalizer in present if finalizer not in (FOREGROUND, ORPHAN)]
    return kept + {"Foreground": [FOREGROUND], "Orphan": [ORPHAN], "Background": []}[policy]


def _grace_s(served: Served, current: Object, options: DeleteOptions) -> int:
    """Seconds the node's agent has; 0 when nobody needs any."""
    if not served.kind.graceful:
        return 0
    spec, status = current.get("spec", {}), current.get("status", {})
    grace_s = options.grace_period_s
    if grace_s is None:
        grace_s = int(spec.get("terminationGracePeriodSeconds", 30))
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    return max(grace_s, 1) if grace_s < 0 else grace_s
