"""The rules of metadata, the same for every kind: identity, labels, finalizers, owners, what may not change. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from jobset.api.errors import ApiError, Cause, Conflict, Invalid, NotFound
from jobset.api.field_errors import forbidden, required, shown
from jobset.api.field_errors import invalid as invalid_cause
from jobset.api.meta import Object
from jobset.api.name_rules import (
    dns_label_1035_problems,
    dns_label_problems,
    dns_subdomain_problems,
    label_value_problems,
    qualified_name_problems,
)
from jobset.api.resources import NAMESPACES, Resource
from jobset.cluster.model.kinds.kind import Kind, NameRule

STALE = "the object has been modified; please apply your changes to the latest version and try again"
ANNOTATIONS_LIMIT_BYTES = 256 * 1024
STANDARD_FINALIZERS = frozenset({"foregroundDeletion", "orphan", "kubernetes"})
SERVER_SET = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion",
              "managedFields", "selfLink")  # fmt: skip
"""What only the server writes: dropped from a new object."""
KEPT = (*SERVER_SET[1:], "generation", "generateName")
"""What an update leaves as it was, whatever the body says."""


def refusal(error: type[ApiError], resource: Resource, name: str, message: str) -> ApiError:
    """An error about one object."""
    return error(message, group=resource.group, kind=resource.plural, name=name)


def not_found(resource: Resource, name: str) -> ApiError:
    return refusal(NotFound, resource, name, f'{resource} "{name}" not found')


def invalid(resource: Resource, name: str, causes: list[Cause]) -> Invalid:
    """All problems of an object as one error, worded as Kubernetes words it."""
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    text = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    return Invalid(
        f'{kind} "{name}" is invalid: {text}', causes=causes, group=resource.group, kind=resource.kind, name=name
    )


def conflict(resource: Resource, name: str, why: str) -> ApiError:
    return refusal(Conflict, resource, name, f'Operation cannot be fulfilled on {resource} "{name}": {why}')


def check_uid(resource: Resource, current: Object, uid: str) -> None:
    """Conflict unless the given uid, if any, is the object's."""
    metadata = current["metadata"]
    if uid and uid != metadata["uid"]:
        why = (
            "StorageError: invalid object, Code: 4, "
            f"Key: /registry/{resource.plural}/{metadata.get('namespace', '')}/{metadata['name']}, ResourceVersion: 0, "
            f"AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, "
            f"UID in object meta: {metadata['uid']}"
        )
        raise conflict(resource, metadata["name"], why)


def check_version(resource: Resource, current: Object, resource_version: str) -> None:
    """Conflict unless the given resourceVersion, if any, is the object's."""
    if resource_version and resource_version != current["metadata"]["resourceVersion"]:
        raise conflict(resource, current["metadata"]["name"], STALE)


def version_required(resource: Resource, name: str) -> Invalid:
    """Updates of some kinds must say which version they are made from."""
    cause = invalid_cause("metadata.resourceVersion", 0, "must be specified for an update")
    text = f'{resource} "{name}" is invalid: {cause.field}: {cause.message}'
    return Invalid(text, causes=[cause], group=resource.group, kind=resource.plural, name=name)


def tidied(metadata: Object) -> Object:
    """Without what the server does not keep empty."""
    empty = [key for key in _NEVER_EMPTY if key in metadata and not metadata[key]]
    return {key: value for key, value in metadata.items() if key not in empty} if empty else metadata


_NEVER_EMPTY = ("labels", "annotations", "finalizers", "ownerReferences")


def carried_over(metadata: Object, old: Object) -> Object:
    """The metadata of an update: identity that the body left out, and what only the server writes, as it was."""
    kept = {key: old[key] for key in KEPT if key in old}
    if not metadata.get("uid"):
        kept["uid"] = old["uid"]
    said = {key: value for key, value in metadata.items() if key not in KEPT}
    return tidied({**said, **kept})


def metadata_problems(kind: Kind, metadata: Object) -> list[Cause]:
    """All problems of new metadata."""
    causes = list(_name_problems(kind, metadata.get("name", "")))
    if "labels" in metadata:
        causes += map_problems("metadata.labels", metadata["labels"], values=True)
    if "annotations" in metadata:
        causes += map_problems("metadata.annotations", metadata["annotations"], values=False)
        causes += _annotation_size_problems(metadata["annotations"])
    if "finalizers" in metadata:
        causes += _finalizer_problems(metadata["finalizers"])
    if "ownerReferences" in metadata:
        causes += _owner_problems(metadata["ownerReferences"])
    return causes


def metadata_change_problems(metadata: Object, old: Object) -> list[Cause]:
    """All problems of changed metadata; what did not change is not looked at."""
    causes: list[Cause] = []
    for key, values in (("labels", True), ("annotations", False)):
        if metadata.get(key) is not old.get(key) and key in metadata:
            causes += map_problems(f"metadata.{key}", metadata[key], values=values)
    if metadata.get("finalizers") != old.get("finalizers"):
        causes += _finalizer_problems(metadata.get("finalizers") or [])
        causes += _added_finalizer_problems(metadata, old)
    if metadata.get("ownerReferences") != old.get("ownerReferences"):
        causes += _owner_problems(metadata.get("ownerReferences") or [])
    if metadata["uid"] != old["uid"]:  # said twice: by the rules of all objects and by those of the kind
        causes += [invalid_cause("metadata.uid", metadata["uid"], "field is immutable")] * 2
    return causes


def _added_finalizer_problems(metadata: Object, old: Object) -> Iterator[Cause]:
    if "deletionTimestamp" not in old:
        return
    added = sorted(set(metadata.get("finalizers") or ()) - set(old.get("finalizers") or ()))
    if added:
        detail = "no new finalizers can be added if the object is being deleted, found new finalizers " + shown(added)
        yield forbidden("metadata.finalizers", detail)


def map_problems(path: str, values_by_key: dict[str, str], *, values: bool) -> list[Cause]:
    """Problems of labels, or (without `values`) of annotations; all stand at the whole map."""
    causes: list[Cause] = []
    for key, value in values_by_key.items():
        causes += _key_problems(path, key if values else key.lower())
        if values:
            causes += _value_problems(path, value)
    return causes


@lru_cache(maxsize=4096)
def _key_problems(path: str, key: str) -> tuple[Cause, ...]:
    return tuple(invalid_cause(path, key, detail) for detail in qualified_name_problems(key))


@lru_cache(maxsize=16384)
def _value_problems(path: str, value: str) -> tuple[Cause, ...]:
    return tuple(invalid_cause(path, value, detail) for detail in label_value_problems(value))


def _annotation_size_problems(annotations: dict[str, str]) -> Iterator[Cause]:
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > ANNOTATIONS_LIMIT_BYTES:
        detail = f"Too long: may not be more than {ANNOTATIONS_LIMIT_BYTES} bytes"
        yield Cause("FieldValueTooLong", detail, "metadata.annotations")


def _finalizer_problems(finalizers: list[str]) -> Iterator[Cause]:
    for index, name in enumerate(finalizers):
        path = f"metadata.finalizers[{index}]"
        details = [cause.message for cause in _key_problems(path, name)]
        if details:
            yield from _key_problems(path, name)
        elif "/" not in name and name not in STANDARD_FINALIZERS:
            yield invalid_cause(path, name, "name is neither a standard finalizer name nor is it fully qualified")


def _owner_problems(owners: list[Object]) -> Iterator[Cause]:
    path = "metadata.ownerReferences"
    for owner in owners:
        for key in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(key):
                yield invalid_cause(f"{path}.{key}", owner.get(key, ""), "must not be empty")
    controllers = [f"{owner.get('kind')}/{owner.get('name')}" for owner in owners if owner.get("controller")]
    if len(controllers) > 1:
        found = f'Found "true" in references for {" and ".join(controllers[:2])}'
        yield invalid_cause(path, owners, f"Only one reference can have Controller set to true. {found}")


_NAME_RULES: dict[NameRule, Callable[[str], list[str]]] = {
    "dns-subdomain": dns_subdomain_problems,
    "dns-label": dns_label_problems,
    "dns-label-1035": dns_label_1035_problems,
    "path-segment": lambda name: _path_segment_problems(name),
}


def _path_segment_problems(name: str) -> list[str]:
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{sign}'" for sign in "/%" if sign in name]


def _name_problems(kind: Kind, name: str) -> Iterator[Cause]:
    if not name:
        yield required("metadata.name", "name or generateName is required")
        return
    details = _NAME_RULES[kind.name_rule](name)
    if kind.resource == NAMESPACES and "." in name and not dns_subdomain_problems(name):
        details = ["must not contain dots"]
    for detail in details:
        yield invalid_cause("metadata.name", name, detail)
