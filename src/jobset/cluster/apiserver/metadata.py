"""The rules of metadata, the same for every kind: identity on create, what an update may not change. Pure."""

from __future__ import annotations

from jobset.api.errors import ApiError, BadRequest, Cause, Conflict, Invalid, NotFound
from jobset.api.meta import Object
from jobset.api.resources import Resource

STALE = "the object has been modified; please apply your changes to the latest version and try again"


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


def check_preconditions(resource: Resource, current: Object, uid: str, resource_version: str) -> None:
    """Conflict unless the given (non-empty) uid and resourceVersion are the object's."""
    metadata = current["metadata"]
    if uid and uid != metadata["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {metadata['uid']}"
        raise conflict(resource, metadata["name"], why)
    if resource_version and resource_version != metadata["resourceVersion"]:
        raise conflict(resource, metadata["name"], STALE)


def address(resource: Resource, namespace: str, body: Object) -> Object:
    """`body` with apiVersion, kind and namespace as the request's path says. BadRequest where it says otherwise."""
    metadata = body.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        raise BadRequest(f"{resource.kind} in version {resource.version!r} cannot be handled: metadata is no object")
    said = metadata.get("namespace") or ""
    if said != namespace:
        if said:
            raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
        metadata = {**metadata, "namespace": namespace}
    typed = body.get("kind") == resource.kind and body.get("apiVersion") == resource.api_version
    if typed and body.get("metadata") is metadata:
        return body
    return {**body, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
