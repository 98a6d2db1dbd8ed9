"""From a body to an object of its kind: JSON types, unknown fields, nulls. Pure.

The first step of a write. What is not of the right type is a BadRequest (or Invalid, when a patch led to it); unknown
fields are refused, warned of and dropped, or dropped, as the request asks. Parts that a write shares with the stored
version are not looked at again.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from jobset.api.errors import ApiError, BadRequest, Invalid
from jobset.api.field_errors import invalid as invalid_cause
from jobset.api.meta import Object
from jobset.api.resources import Resource
from jobset.api.structure import Structure, structure_of
from jobset.cluster.apiserver.options import WriteOptions
from jobset.cluster.model.kinds.kind import Kind


def addressed(kind: Kind, namespace: str, body: Any) -> Object:
    """`body` with apiVersion, kind and namespace as the request's path says. BadRequest where it says otherwise."""
    resource = kind.resource
    if not isinstance(body, dict):
        raise BadRequest(f"the object provided is unrecognized (must be of type {resource.kind})")
    if not kind.definition:
        _check_custom_type(resource, body)
    said = (body.get("kind") or resource.kind, body.get("apiVersion") or resource.api_version)
    if said != (resource.kind, resource.api_version):
        raise BadRequest(f'{said[0]} in version "{said[1]}" cannot be handled as a {resource.kind}')
    metadata = body.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        raise BadRequest(f"{_handled(resource)}: metadata: must be a mapping of fields (type object)")
    if (metadata.get("namespace") or "") != namespace:
        if metadata.get("namespace"):
            raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
        metadata = {**metadata, "namespace": namespace}
    typed = body.get("kind") == resource.kind and body.get("apiVersion") == resource.api_version
    if typed and body.get("metadata") is metadata:
        return body
    return {**body, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


def _check_custom_type(resource: Resource, body: Object) -> None:
    """A custom resource must say what it is."""
    name = (body.get("metadata") or {}).get("name", "")
    kind, version = body.get("kind"), body.get("apiVersion")
    if not kind or not version:
        missing = "Kind" if not kind else "apiVersion"
        raise BadRequest(
            f"the object provided is unrecognized (must be of type {resource.kind}): Object '{missing}' is missing"
        )
    if version != resource.api_version:
        expected = f"does not match the expected API version ({resource.api_version})"
        raise BadRequest(f"the API version in the data ({version}) {expected}")
    if kind != resource.kind:
        cause = invalid_cause("kind", kind, f"must be {resource.kind}")
        text = f'{kind}.{resource.group} "{name}" is invalid: kind: {cause.message}'
        raise Invalid(text, causes=[cause], group=resource.group, kind=kind, name=name)


def decoded(kind: Kind, obj: Object, options: WriteOptions, current: Object | None = None) -> Object:
    """`obj` as its schema has it. `current` is the stored version that a patch has started from."""
    if not kind.definition:
        return _custom(kind, obj, options, is_patch=current is not None)
    structure = _structure(kind.definition)
    if _is_clean(structure, obj) if current is None else _is_clean_change(structure, obj, current):
        return obj
    if problems := structure.type_problems(obj, ""):
        texts = [f"{cause.field}: {cause.message}" for cause in problems]
        raise _undecodable(kind.resource, obj, texts, is_patch=current is not None)
    unknown = [cause.field for cause in structure.unknown(obj, "")]
    _tell_unknown(kind, obj, unknown, options, is_patch=current is not None)
    known: Object = structure.pruned(obj) if unknown else obj
    result: Object = _without_empty(structure, structure.without_nulls(known))
    return result


def _custom(kind: Kind, obj: Object, options: WriteOptions, *, is_patch: bool) -> Object:
    """A custom resource: its kind prunes and checks it; here only what that drops is told."""
    if options.field_validation != "Ignore":
        _tell_unknown(kind, obj, sorted(kind.unknown_fields(obj)), options, is_patch=is_patch)
    return obj


def _tell_unknown(kind: Kind, obj: Object, paths: list[str], options: WriteOptions, *, is_patch: bool) -> None:
    texts = [f'unknown field "{path}"' for path in paths]
    if texts and options.field_validation == "Strict":
        text = "strict decoding error: " + ", ".join(texts)
        raise _undecodable(kind.resource, obj, [text], is_patch=is_patch)
    if options.field_validation == "Warn":
        for text in texts:
            options.warn(text)


@cache
def _structure(name: str) -> Structure:
    return structure_of({"$ref": f"#{name}"})


KEPT_NULLS = frozenset(("lastProbeTime",))
"""Pods' conditions are stored with this time as null: no reason to look at every status of every pod in full."""
_PLAIN_TEXT = structure_of({"type": "string"}).scalar


def _is_clean(structure: Structure, value: Any) -> bool:
    """Whether nothing below is of a wrong type, unknown, null or empty: one pass, for the many that are in order."""
    if structure.scalar is not None:
        return value is not None and not structure.scalar(value)
    if structure.kind == "object":
        return isinstance(value, dict) and _is_clean_object(structure, value)
    if structure.kind == "array":
        each = structure.each()
        return isinstance(value, list) and (each is None or all(_is_clean(each, item) for item in value))
    return value is not None


def _is_clean_object(structure: Structure, value: Object) -> bool:
    each = structure.each()
    for name, item in value.items():
        child = structure.child(name) or each
        if child is None:
            if not structure.free:
                return False
        elif item is None and name in KEPT_NULLS:
            continue
        elif child.scalar is _PLAIN_TEXT:
            if type(item) is not str:
                return False
        elif not _is_clean(child, item) or (not item and _is_dropped(structure, name, child, item)):
            return False
    return True


def _is_clean_change(structure: Structure, value: Any, old: Any) -> bool:
    """As `_is_clean`, but what `value` shares with `old`, which is clean, is not looked at."""
    if value is old:
        return True
    if structure.kind != "object" or not isinstance(value, dict) or not isinstance(old, dict) or not value:
        return _is_clean(structure, value)
    each = structure.each()
    for name, item in value.items():
        before = old.get(name)
        if item is before and item is not None:
            continue
        child = structure.child(name) or each
        if child is None:
            if not structure.free:
                return False
        elif not _is_clean_change(child, item, before) or (not item and _is_dropped(structure, name, child, item)):
            return False
    return True


def _is_dropped(parent: Structure, name: str, child: Structure, item: Any) -> bool:
    """Whether the server leaves the field out: an empty list or map that is not required."""
    if name in parent.required or name not in parent.properties:
        return False
    return item == [] or (item == {} and child.kind == "object" and not child.properties and child.each() is not None)


def _without_empty(structure: Structure, value: Any) -> Any:
    """`value` without the empty lists and maps that are not kept; itself when there are none."""
    each = structure.each()
    if isinstance(value, list):
        items = [_without_empty(each, item) for item in value] if each is not None else value
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if not isinstance(value, dict) or structure.kind != "object":
        return value
    kept: Object = {}
    for name, item in value.items():
        child = structure.child(name) or each
        if child is None:
            kept[name] = item
        elif item or not _is_dropped(structure, name, child, item):
            kept[name] = _without_empty(child, item)
    same = len(kept) == len(value) and all(kept[name] is item for name, item in value.items())
    return value if same else kept


def _undecodable(resource: Resource, obj: Object, problems: list[str], *, is_patch: bool) -> ApiError:
    text = "; ".join(problems)
    return patch_invalid(obj, text) if is_patch else BadRequest(f"{_handled(resource)}: {text}")


def patch_invalid(patched: Any, detail: str) -> ApiError:
    """What a patch led to is no object of the kind."""
    cause = invalid_cause("patch", patched, detail)
    return Invalid(f' "" is invalid: patch: {cause.message}', causes=[cause])


def _handled(resource: Resource) -> str:
    return f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
