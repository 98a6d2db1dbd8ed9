"""CustomResourceDefinitions at work: one that is stored is served, one that is deleted takes its objects along.

Follows the definitions through `commits`, so that a resource is served when the request that defined it is answered.
What a definition means for its objects is model/kinds/custom.py; what is wrong with one, model/kinds/definitions.py.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from jobset.api.meta import Object, condition_of, format_time
from jobset.api.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from jobset.cluster.apiserver.commits import Commits
from jobset.cluster.apiserver.deletion import Deletion
from jobset.cluster.apiserver.options import DELETE
from jobset.cluster.apiserver.registry import Registry, Served
from jobset.cluster.model.kinds.copy_on_write import put
from jobset.cluster.model.kinds.custom import kind_from_definition
from jobset.cluster.store.port import Store

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


class Definitions:
    def __init__(
        self, store: Store, registry: Registry, commits: Commits, deletion: Deletion, now: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._registry = registry
        self._commits = commits
        self._deletion = deletion
        self._now = now
        self._versions: dict[str, list[Resource]] = {}
        commits.follow(str(CUSTOM_RESOURCE_DEFINITIONS), self._changed)
        for definition in store.list(str(CUSTOM_RESOURCE_DEFINITIONS)):
            self._serve(definition)

    def _changed(self, definition: Object, gone: bool) -> None:
        name = definition["metadata"]["name"]
        if gone:
            for resource in self._versions.pop(name, ()):
                self._registry.remove(resource)
            return
        if "deletionTimestamp" in definition["metadata"]:
            self._empty(definition)
            return
        self._serve(definition)
        established = self._established(definition)
        if established != definition:
            self._store.put(str(CUSTOM_RESOURCE_DEFINITIONS), established)

    def _serve(self, definition: Object) -> None:
        name = definition["metadata"]["name"]
        for resource in self._versions.pop(name, ()):
            self._registry.remove(resource)
        served = []
        for version in definition["spec"]["versions"]:
            kind = kind_from_definition(definition, version["name"])
            if version.get("served") and not self._registry.serves(kind.resource):
                self._show(self._registry.add(kind), definition)
                served.append(kind.resource)
        self._versions[name] = served
        self._commits.follow(name, partial(self._instance_changed, name))

    def _show(self, served: Served, definition: Object) -> None:
        """Objects are stored in one version and shown in each; only apiVersion differs."""
        group = definition["spec"]["group"]
        stored = next(one["name"] for one in definition["spec"]["versions"] if one.get("storage"))
        if stored != served.resource.version:
            shown_as, stored_as = served.resource.api_version, f"{group}/{stored}"
            served.outward = lambda obj: put(obj, "apiVersion", shown_as)
            served.inward = lambda obj: put(obj, "apiVersion", stored_as)

    def _established(self, definition: Object) -> Object:
        """The definition with the status and the finalizer of one that is served."""
        spec, status, metadata = definition["spec"], definition.get("status") or {}, definition["metadata"]
        accepted = spec["names"]
        stored = [one["name"] for one in spec["versions"] if one.get("storage")]
        versions = list(dict.fromkeys([*(status.get("storedVersions") or ()), *stored]))
        conditions = list(status.get("conditions") or ())
        for type_, reason, message in (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ):
            if condition_of(definition, type_) is None:
                moment = format_time(self._now())
                new = {"type": type_, "status": "True", "lastTransitionTime": moment}
                conditions.append({**new, "reason": reason, "message": message})
        finalizers = metadata.get("finalizers") or []
        if CLEANUP not in finalizers:
            definition = {**definition, "metadata": {**metadata, "finalizers": [*finalizers, CLEANUP]}}
        return {
            **definition,
            "status": {**status, "conditions": conditions, "acceptedNames": accepted, "storedVersions": versions},
        }

    def _empty(self, definition: Object) -> None:
        """Delete the objects of a definition that is being deleted; without any left it may go."""
        name = definition["metadata"]["name"]
        versions = [self._registry.of(resource) for resource in self._versions.get(name, ())]
        for served in versions:
            served.terminating = True
        for obj in self._store.list(name) if versions else ():
            if "deletionTimestamp" not in obj["metadata"]:
                self._deletion.mark(versions[0], versions[0].outward(obj), DELETE)
        self._release(name)

    def _instance_changed(self, name: str, _: Object, gone: bool) -> None:
        if gone:
            self._release(name)

    def _release(self, name: str) -> None:
        definition = self._store.get(str(CUSTOM_RESOURCE_DEFINITIONS), "", name)
        if definition is None or "deletionTimestamp" not in definition["metadata"] or self._store.list(name):
            return
        finalizers = [one for one in definition["metadata"].get("finalizers") or () if one != CLEANUP]
        metadata = {key: value for key, value in definition["metadata"].items() if key != "finalizers"}
        if finalizers == definition["metadata"].get("finalizers"):
            return
        served = self._registry.of(CUSTOM_RESOURCE_DEFINITIONS)
        if finalizers:
            self._commits.put(served, {**definition, "metadata": {**metadata, "finalizers": finalizers}})
        else:
            self._commits.remove(served, {**definition, "metadata": metadata})
