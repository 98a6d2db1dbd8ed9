"""Create, update and patch: the order of a write from body to stored object.

Decoding, defaults, admission, metadata rules, the kind's own preparation and validation, then the store. What a request
did not change keeps being shared with the previous version and is not looked at again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime
from typing import Any

from jobset.api.errors import AlreadyExists, BadRequest, Cause, Forbidden
from jobset.api.meta import Object, format_time
from jobset.api.resources import NAMESPACES, Resource
from jobset.cluster.apiserver.apply import apply_patch
from jobset.cluster.apiserver.commits import Commits
from jobset.cluster.apiserver.decoding import addressed, decoded, patch_invalid
from jobset.cluster.apiserver.deletion import is_finished
from jobset.cluster.apiserver.field_sets import FieldSet, of_paths
from jobset.cluster.apiserver.managed_fields import Author, after_update, unmanaged
from jobset.cluster.apiserver.metadata import (
    SERVER_SET,
    carried_over,
    check_uid,
    check_version,
    conflict,
    invalid,
    metadata_change_problems,
    metadata_problems,
    not_found,
    refusal,
    tidied,
    version_required,
)
from jobset.cluster.apiserver.options import WriteOptions
from jobset.cluster.apiserver.patches import check_supported, patched
from jobset.cluster.apiserver.registry import Registry, Served, unserved
from jobset.cluster.apiserver.scale import scale_of, scaled
from jobset.cluster.model.kinds.kind import Kind, ScalePaths
from jobset.cluster.store.port import Store

NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
GENERATED_LENGTH = 5
GENERATED_PREFIX_MAX = 63 - GENERATED_LENGTH
GENERATED_ATTEMPTS = 8
SCALE = "scale"
RESET_STATUS = of_paths(("status",))
"""What writes of the object itself leave as it is, where the status is written apart."""
RESET_BY_SUBRESOURCE = of_paths(("spec",), ("metadata", "deletionTimestamp"), ("metadata", "ownerReferences"))


class Writing:
    def __init__(
        self,
        store: Store,
        registry: Registry,
        commits: Commits,
        now: Callable[[], datetime],
        chance: random.Random,
    ) -> None:
        self._store = store
        self._registry = registry
        self._commits = commits
        self._now = now
        self._chance = chance

    def create(self, resource: Resource, namespace: str, body: Object, options: WriteOptions) -> Object:
        """AlreadyExists, Invalid, BadRequest, Forbidden; NotFound for the namespace."""
        return self._create(self._registry.of(resource), namespace, body, options)

    def _create(
        self, served: Served, namespace: str, body: Object, options: WriteOptions, managed: list[Object] | None = None
    ) -> Object:
        """`managed` are the managedFields of an object that comes into being by being applied."""
        resource, kind = served.resource, served.kind
        self._check_scope(resource, namespace)
        obj = kind.default(decoded(kind, addressed(kind, namespace, body), options))
        if managed is None and options.field_manager:
            managed = self._managed_by_creator(served, obj, options)
        self._check_namespace(resource, namespace, obj["metadata"].get("name", ""))
        self._check_open(served, obj["metadata"].get("name", ""))
        for hook in served.hooks:
            obj = hook(obj)
        if served.admission is not None:
            self._check(served, obj, kind.validate(obj))
            obj = served.admission.create(obj)
        obj = self._identified(served, namespace, obj)
        if managed:
            obj["metadata"]["managedFields"] = managed
        if not obj["metadata"].get("name"):
            self._check(served, obj, metadata_problems(kind, obj["metadata"]))
        obj = kind.prepare_create(obj)
        self._check(served, obj, metadata_problems(kind, obj["metadata"]) + kind.validate(obj))
        self._check_absent(served, namespace, obj["metadata"]["name"])
        _warn(kind, obj, options)
        for step in served.last_steps:
            obj = step(obj, options.dry_run)
        return self._commits.put(served, obj, dry_run=options.dry_run)

    def update(
        self, resource: Resource, namespace: str, name: str, body: Object, subresource: str, options: WriteOptions
    ) -> Object:
        served = self._registry.of(resource)
        self._check_scope(resource, namespace)
        if subresource == SCALE and served.kind.scale is not None:
            current = self._current(served, namespace, name)
            return self._rescale(served, served.kind.scale, current, body, options)
        new = decoded(served.kind, addressed(served.kind, namespace, body), options)
        new = _named(new, name)
        stored = self._store.get(served.storage, namespace, name)
        if stored is None:
            if served.kind.creates_on_update and not subresource:
                return self.create(resource, namespace, new, options)
            raise not_found(resource, name)
        current, metadata = served.outward(stored), new["metadata"]
        if served.needs_version and not metadata.get("resourceVersion"):
            raise version_required(resource, name)
        check_uid(resource, current, metadata.get("uid", ""))
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
        check_supported(served.kind, patch_type)
        if patch_type == "apply" and subresource != SCALE:
            return self._apply(served, namespace, name, patch, subresource, options)
        current = self._current(served, namespace, name)
        if subresource == SCALE and (paths := served.kind.scale) is not None:
            as_merge = "merge" if patch_type == "apply" else patch_type
            scale = patched(served.kind, scale_of(paths, current), patch, as_merge)
            return self._rescale(served, paths, current, scale, options)
        new = patched(served.kind, current, patch, patch_type)
        if new is current:
            return current
        if new.get("kind") != current["kind"] or new.get("apiVersion") != current["apiVersion"]:
            raise patch_invalid(new, f"cannot be handled as a {resource.kind}")
        new = decoded(served.kind, new, options, current)
        if new["metadata"] is not current["metadata"]:
            new = _named(addressed(served.kind, namespace, new), name)
        return self._replace(served, current, new, subresource, options)

    def _apply(
        self, served: Served, namespace: str, name: str, config: Any, subresource: str, options: WriteOptions
    ) -> Object:
        """Server-side apply: merge a configuration into the object, or create it."""
        stored = self._store.get(served.storage, namespace, name)
        current = None if stored is None else served.outward(stored)
        author = self._author(served, subresource, options)
        applied = apply_patch(current, config, served.merge_type, author, force=options.force)
        if current is not None:
            if applied.object is current or applied.object == unmanaged(current):
                new = current
            else:
                new = decoded(served.kind, applied.object, options, current)
                new = _named(addressed(served.kind, namespace, new), name)
            return self._replace(served, current, new, subresource, options, applied.managed_fields)
        if subresource:
            raise not_found(served.resource, name)
        metadata = applied.object.get("metadata") or {}
        if metadata.get("name") != name:
            raise BadRequest(
                f"the name of the object ({metadata.get('name', '')}) does not match the name on the URL ({name})"
            )
        if metadata.get("uid"):
            said = (
                f"uid mismatch: the provided object specified uid {metadata['uid']}, and no existing object was found"
            )
            raise conflict(served.resource, name, said)
        return self._create(served, namespace, applied.object, options, applied.managed_fields)

    def _author(self, served: Served, subresource: str, options: WriteOptions) -> Author:
        reset: FieldSet = {}
        if subresource and subresource != SCALE:
            reset = RESET_BY_SUBRESOURCE
        elif "status" in served.kind.subresources:
            reset = RESET_STATUS
        api_version, custom = served.resource.api_version, not served.kind.definition
        return Author(options.field_manager, api_version, subresource, self._now(), reset, custom)

    def _managed_by_creator(self, served: Served, obj: Object, options: WriteOptions) -> list[Object]:
        author = self._author(served, "", options)
        said = obj["metadata"].get("managedFields")
        return after_update({}, obj, said, served.merge_type, author, creating=True)

    def _current(self, served: Served, namespace: str, name: str) -> Object:
        stored = self._store.get(served.storage, namespace, name)
        if stored is None:
            raise not_found(served.resource, name)
        return served.outward(stored)

    def _rescale(self, served: Served, paths: ScalePaths, current: Object, scale: Any, options: WriteOptions) -> Object:
        written = self._replace(served, current, scaled(paths, current, scale), "", options, recorded_as=SCALE)
        return scale_of(paths, written)

    def _replace(
        self,
        served: Served,
        current: Object,
        new: Object,
        subresource: str,
        options: WriteOptions,
        managed: list[Object] | None = None,
        recorded_as: str = "",
    ) -> Object:
        """Write `new` in the place of `current`; unchanged, it keeps its version.

        `managed`: as an apply leaves it. `recorded_as`: the subresource that owners are told of, if it is another one.
        """
        old_metadata = current["metadata"]
        said = new["metadata"].get("managedFields")
        if new["metadata"] is not old_metadata:
            metadata = new["metadata"]
            check_version(served.resource, current, metadata.get("resourceVersion", ""))
            metadata = carried_over(metadata, old_metadata)
            new = {**new, "metadata": old_metadata if metadata == old_metadata else metadata}
        if subresource:
            new, causes = self._change_of_subresource(served, current, new, subresource)
        else:
            new, causes = self._change(served, current, new)
        if new["metadata"] is not old_metadata:
            causes = metadata_change_problems(new["metadata"], old_metadata) + causes
        if causes:
            raise invalid(served.judged_as, old_metadata["name"], causes)
        if not subresource:
            _warn(served.kind, new, options)
        if is_finished(new):
            return self._commits.remove(served, new, dry_run=options.dry_run)
        entries = old_metadata.get("managedFields")
        if new == current and managed is None and (not said or said == entries):
            return current
        if managed is None and (said or entries):
            author = self._author(served, subresource or recorded_as, options)
            managed = after_update(current, new, said, served.merge_type, author)
        if managed is not None:
            new = _with_managed(new, managed)
            if new == current:
                return current
        return self._commits.put(served, new, dry_run=options.dry_run)

    def _change(self, served: Served, current: Object, new: Object) -> tuple[Object, list[Cause]]:
        kind = served.kind
        if kind.resource == NAMESPACES or not _only_metadata(new, current):  # a namespace has defaults in metadata
            new = kind.prepare_update(kind.default(new), current)
        if served.admission is not None:
            if causes := kind.validate_update(new, current):
                return new, causes
            new = served.admission.update(new, current)
        for step in served.last_steps:
            new = step(new, True)
        if kind.generation and _specified(kind, new) != _specified(kind, current):
            generation = current["metadata"].get("generation", 0) + 1
            new = {**new, "metadata": {**new["metadata"], "generation": generation}}
        return new, kind.validate_update(new, current)

    def _change_of_subresource(
        self, served: Served, current: Object, new: Object, subresource: str
    ) -> tuple[Object, list[Cause]]:
        rule = served.kind.subresources.get(subresource)
        if rule is None:
            raise unserved()
        new = rule.merge(new, current)
        return new, rule.validate_update(new, current)

    def _identified(self, served: Served, namespace: str, obj: Object) -> Object:
        """The object with name, uid, creation time and first generation."""
        metadata = {key: value for key, value in tidied(obj["metadata"]).items() if key not in SERVER_SET}
        if obj["metadata"].get("resourceVersion"):
            raise BadRequest("resourceVersion should not be set on objects to be created")
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = self._generated(served, namespace, metadata["generateName"])
        metadata["uid"] = self._uid()
        metadata["creationTimestamp"] = format_time(self._now())
        if served.kind.generation:
            metadata["generation"] = 1
        return {**obj, "metadata": metadata}

    def _generated(self, served: Served, namespace: str, prefix: str) -> str:
        for _ in range(GENERATED_ATTEMPTS):
            letters = "".join(self._chance.choices(NAME_LETTERS, k=GENERATED_LENGTH))
            name = prefix[:GENERATED_PREFIX_MAX] + letters
            if self._store.get(served.storage, namespace, name) is None:
                break
        return name

    def _uid(self) -> str:
        """A random UUID (version 4)."""
        bits = self._chance.getrandbits(128) & ~(0xF << 76) & ~(0x3 << 62) | 4 << 76 | 2 << 62
        text = f"{bits:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def _check(self, served: Served, obj: Object, causes: list[Cause]) -> None:
        if causes:
            raise invalid(served.judged_as, obj["metadata"].get("name", ""), causes)

    def _check_absent(self, served: Served, namespace: str, name: str) -> None:
        present = self._store.get(served.storage, namespace, name)
        if present is None:
            return
        text = f'{served.resource} "{name}" already exists'
        if "deletionTimestamp" in present["metadata"]:
            text = f"object is being deleted: {text}"
        raise refusal(AlreadyExists, served.resource, name, text)

    def _check_scope(self, resource: Resource, namespace: str) -> None:
        if resource.namespaced and not namespace:
            raise BadRequest(f"{resource} live in a namespace: metadata.namespace is missing")

    def _check_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        """Nothing is created in a namespace that is absent or going."""
        if not resource.namespaced:
            return
        space = self._store.get("namespaces", "", namespace)
        if space is None:
            raise not_found(NAMESPACES, namespace)
        if "deletionTimestamp" in space["metadata"]:
            going = Cause("NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace")
            reason = f"unable to create new content in namespace {namespace} because it is being terminated"
            text = f'{resource} "{name}" is forbidden: {reason}'
            raise Forbidden(text, causes=[going], group=resource.group, kind=resource.plural, name=name)

    def _check_open(self, served: Served, name: str) -> None:
        """Nothing is created of a kind whose definition is going."""
        if served.terminating:
            why = "create not allowed while custom resource definition is terminating"
            raise refusal(Forbidden, served.resource, name, f'{served.resource} "{name}" is forbidden: {why}')


def _named(obj: Object, name: str) -> Object:
    """`obj` under the name that the request's path says. BadRequest where it says otherwise."""
    said = obj["metadata"].get("name") or ""
    if said == name:
        return obj
    if said:
        raise BadRequest(f"the name of the object ({said}) does not match the name on the URL ({name})")
    return {**obj, "metadata": {**obj["metadata"], "name": name}}


def _warn(kind: Kind, obj: Object, options: WriteOptions) -> None:
    if kind.warnings is not None:
        for text in kind.warnings(obj):
            options.warn(text)


def _with_managed(obj: Object, managed: list[Object]) -> Object:
    """`obj` with these managedFields; those it has, if they are the same."""
    metadata = obj["metadata"]
    if metadata.get("managedFields", []) == managed:
        return obj
    others = {key: value for key, value in metadata.items() if key != "managedFields"}
    return {**obj, "metadata": {**others, "managedFields": managed} if managed else others}


def _only_metadata(new: Object, old: Object) -> bool:
    """Whether a change leaves everything else shared with the stored version, which has its defaults."""
    return len(new) == len(old) and all(new.get(key) is value for key, value in old.items() if key != "metadata")


def _specified(kind: Kind, obj: Object) -> Object:
    """What generation counts: everything but metadata and the status that is written apart."""
    apart = "status" if "status" in kind.subresources else ""
    return {key: value for key, value in obj.items() if key not in ("metadata", apart)}
