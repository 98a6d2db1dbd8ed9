"""Deleting: preconditions, grace for pods, finalizers, and what is left for the garbage collector to do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from jobset.api.errors import Conflict, Forbidden
from jobset.api.meta import Object, format_time
from jobset.api.resources import NAMESPACES, Resource
from jobset.cluster.apiserver.commits import Commits
from jobset.cluster.apiserver.metadata import check_version, not_found, refusal
from jobset.cluster.apiserver.options import DeleteOptions
from jobset.cluster.apiserver.registry import Registry, Served
from jobset.cluster.store.port import Store

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
PROTECTED_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})
JOB_PODS_STAY = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)


class Deletion:
    def __init__(self, store: Store, registry: Registry, commits: Commits, now: Callable[[], datetime]) -> None:
        self._store = store
        self._registry = registry
        self._commits = commits
        self._now = now

    def delete(self, resource: Resource, namespace: str, name: str, options: DeleteOptions) -> Object:
        served = self._registry.of(resource)
        stored = self._store.get(served.storage, namespace, name)
        if stored is None:
            raise not_found(resource, name)
        if resource == NAMESPACES and name in PROTECTED_NAMESPACES:
            raise refusal(
                Forbidden, resource, name, f'namespaces "{name}" is forbidden: this namespace may not be deleted'
            )
        self._check_preconditions(resource, stored, options)
        return self.mark(served, served.outward(stored), options)

    def _check_preconditions(self, resource: Resource, stored: Object, options: DeleteOptions) -> None:
        metadata = stored["metadata"]
        if options.uid and options.uid != metadata["uid"]:
            name = metadata["name"]
            why = f"the UID in the precondition ({options.uid}) does not match the UID in record ({metadata['uid']})"
            text = f'Operation cannot be fulfilled on {resource.kind} "{name}": {why}'
            raise Conflict(text, group=resource.group, kind=resource.kind, name=name)
        check_version(resource, stored, options.resource_version)

    def mark(self, served: Served, current: Object, options: DeleteOptions) -> Object:
        """Remove the object, or mark it as being deleted as long as something holds it."""
        metadata = current["metadata"]
        if served.kind.orphans_by_default and options.propagation is None:
            options.warn(JOB_PODS_STAY)
        finalizers = finalizers_after(served, metadata.get("finalizers") or [], options)
        grace_s = _grace_s(served, current, options)
        marked = {**current, "metadata": self._marked(served, metadata, finalizers, grace_s)}
        if served.resource == NAMESPACES:
            marked["status"] = {**marked.get("status", {}), "phase": "Terminating"}
        if is_finished(marked):
            if not served.kind.graceful:
                return self._commits.remove(served, current, dry_run=options.dry_run)
            if "deletionTimestamp" in metadata and marked != current:
                marked = self._commits.put(served, marked, dry_run=options.dry_run)  # watchers see the grace end
            return self._commits.remove(served, marked, dry_run=options.dry_run)
        if marked == current:
            return current
        return self._commits.put(served, marked, dry_run=options.dry_run)

    def _marked(self, served: Served, metadata: Object, finalizers: list[str], grace_s: int) -> Object:
        """The metadata of an object under deletion. A later request can only shorten the grace."""
        marked = {key: value for key, value in metadata.items() if key != "finalizers"}
        if finalizers:
            marked["finalizers"] = finalizers
        if "deletionTimestamp" in metadata and grace_s >= metadata.get("deletionGracePeriodSeconds", 0):
            return marked
        marked["deletionTimestamp"] = format_time(self._now() + timedelta(seconds=grace_s))
        marked["deletionGracePeriodSeconds"] = grace_s
        if served.kind.generation and "deletionTimestamp" not in metadata:
            marked["generation"] = metadata.get("generation", 0) + 1
        return marked


def is_finished(obj: Object) -> bool:
    """Whether nothing holds back the removal of an object that is being deleted."""
    metadata = obj["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    if obj["kind"] == "Namespace" and obj.get("spec", {}).get("finalizers"):
        return False
    return not metadata.get("deletionGracePeriodSeconds")


def finalizers_after(served: Served, present: list[str], options: DeleteOptions) -> list[str]:
    """The finalizers after this request: its propagation policy replaces what an earlier one asked for."""
    policy = options.propagation
    if policy is None:
        if served.kind.orphans_by_default and not {FOREGROUND, ORPHAN} & set(present):
            return [*present, ORPHAN]
        return present
    kept = [finalizer for finalizer in present if finalizer not in (FOREGROUND, ORPHAN)]
    return kept + {"Foreground": [FOREGROUND], "Orphan": [ORPHAN], "Background": []}[policy]


def _grace_s(served: Served, current: Object, options: DeleteOptions) -> int:
    """Seconds the node's agent has; 0 when nobody needs any."""
    if not served.kind.graceful:
        return 0
    spec: dict[str, Any] = current.get("spec", {})
    if not spec.get("nodeName") or current.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    grace_s = options.grace_period_s
    if grace_s is None:
        grace_s = int(spec.get("terminationGracePeriodSeconds", 30))
    return 1 if grace_s < 0 else grace_s
