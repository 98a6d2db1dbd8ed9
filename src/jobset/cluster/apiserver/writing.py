"""Create, update and patch: the order of a write from body to stored object.

Defaults, admission, metadata rules, the kind's own preparation and validation, then the store. What a request did not
change keeps being shared with the previous version and is not looked at again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime
from typing import Any

from jobset.api.errors import AlreadyExists, BadRequest, Forbidden, NotFound, UnsupportedMediaType
from jobset.api.merge_patch import apply_merge_patch
from jobset.api.meta import Object, format_time
from jobset.api.resources import NAMESPACES, Resource
from jobset.cluster.apiserver.deletion import Deletion
from jobset.cluster.apiserver.metadata import address, check_preconditions, invalid, not_found, refusal
from jobset.cluster.apiserver.options import WriteOptions
from jobset.cluster.apiserver.registry import Registry, Served
from jobset.cluster.store.port import Store

NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
SYSTEM_FIELDS = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "generateName",
)


class Writing:
    def __init__(
        self,
        store: Store,
        registry: Registry,
        deletion: Deletion,
        now: Callable[[], datetime],
        chance: random.Random,
    ) -> None:
        self._store = store
        self._registry = registry
        self._deletion = deletion
        self._now = now
        self._chance = chance

    def create(self, resource: Resource, namespace: str, body: Object, options: WriteOptions) -> Object:
        served = self._registry.of(resource)
        kind = served.kind
        obj = kind.default(address(resource, namespace, body))
        self._check_namespace(resource, namespace)
        for hook in served.hooks:
            obj = hook(obj)
        if served.admission is not None:
            obj = served.admission.create(obj)
        obj = kind.prepare_create(self._identify(served, obj))
        name = obj["metadata"]["name"]
        if causes := kind.validate(obj):
            raise invalid(resource, name, causes)
        if self._store.get(served.storage, namespace, name) is not None:
            raise refusal(AlreadyExists, resource, name, f'{resource} "{name}" already exists')
        return obj if options.dry_run else self._store.put(served.storage, obj)

    def update(
        self, resource: Resource, namespace: str, name: str, body: Object, subresource: str, options: WriteOptions
    ) -> Object:
        served = self._registry.of(resource)
        new = address(resource, namespace, body)
        current = self._store.get(served.storage, namespace, name)
        if current is None:
            if served.kind.creates_on_update and not subresource:
                return self.create(resource, namespace, body, options)
            raise not_found(resource, name)
        return self._replace(served, current, new, subresource, options)

    def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Any,
        patch_type: str,
        subresource: str,
        options: WriteOptions,
    ) -> Object:
        served = self._registry.of(resource)
        current = self._store.get(served.storage, namespace, name)
        if current is None:
            raise not_found(resource, name)
        if patch_type != "merge":
            raise UnsupportedMediaType(f"patches of type {patch_type} are not supported")
        if not isinstance(patch, dict):
            raise BadRequest("a merge patch must be an object")
        return self._replace(served, current, apply_merge_patch(current, patch), subresource, options)

    def _replace(self, served: Served, current: Object, new: Object, subresource: str, options: WriteOptions) -> Object:
        resource, kind = served.resource, served.kind
        old_metadata, metadata = current["metadata"], new["metadata"]
        if metadata is not old_metadata:
            check_preconditions(resource, current, metadata.get("uid", ""), metadata.get("resourceVersion", ""))
            kept = {key: old_metadata[key] for key in SYSTEM_FIELDS if key in old_metadata}
            new = {**new, "metadata": {**metadata, **kept, "resourceVersion": old_metadata["resourceVersion"]}}
        if subresource:
            rule = kind.subresources.get(subresource)
            if rule is None:
                raise NotFound("the server could not find the requested resource")
            new = rule.merge(new, current)
            causes = rule.validate_update(new, current)
        else:
            new = kind.prepare_update(kind.default(new), current)
            if served.admission is not None:
                new = served.admission.update(new, current)
            if kind.generation and _specified(new) != _specified(current):
                new = {**new, "metadata": {**new["metadata"], "generation": old_metadata.get("generation", 0) + 1}}
            causes = kind.validate_update(new, current)
        if causes:
            raise invalid(resource, old_metadata["name"], causes)
        if self._deletion.finished(new):
            return new if options.dry_run else self._store.remove(served.storage, new)
        if new == current:
            return current
        return new if options.dry_run else self._store.put(served.storage, new)

    def _identify(self, served: Served, obj: Object) -> Object:
        """The object with name, uid, creation time and first generation."""
        metadata = {key: value for key, value in obj["metadata"].items() if key not in SYSTEM_FIELDS[:-1]}
        if not metadata.get("name") and metadata.get("generateName"):
            suffix = "".join(self._chance.choices(NAME_LETTERS, k=5))
            metadata["name"] = metadata["generateName"][:58] + suffix
        if not metadata.get("name"):
            raise BadRequest("name or generateName is required")
        metadata.pop("resourceVersion", None)
        metadata["uid"] = self._uid()
        metadata["creationTimestamp"] = format_time(self._now())
        if served.kind.generation:
            metadata["generation"] = 1
        return {**obj, "metadata": metadata}

    def _uid(self) -> str:
        bits = self._chance.getrandbits(128) & ~(0xF << 76) & ~(0x3 << 62) | 4 << 76 | 2 << 62
        text = f"{bits:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def _check_namespace(self, resource: Resource, namespace: str) -> None:
        if not resource.namespaced:
            return
        if not namespace:
            raise BadRequest(f"{resource} live in a namespace: metadata.namespace is missing")
        space = self._store.get("namespaces", "", namespace)
        if space is None:
            raise not_found(NAMESPACES, namespace)
        if "deletionTimestamp" in space["metadata"]:
            raise Forbidden(f"unable to create new content in namespace {namespace} because it is being terminated")


def _specified(obj: Object) -> Object:
    """What generation counts: everything but metadata and status."""
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}
