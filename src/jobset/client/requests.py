"""The verbs of the client port as HTTP requests, built without sending them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct, field

from jobset.api.meta import Object
from jobset.api.resources import Resource
from jobset.client.port import PatchType, Propagation

JSON = "application/json"
PATCH_MEDIA_TYPES: Mapping[PatchType, str] = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}


class Request(Struct, frozen=True):
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    media_type: str = JSON

    @property
    def target(self) -> str:
        """Path and query as they stand in the request line."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


class Scope(Struct, frozen=True):
    """Which objects of a resource a list or a watch is about."""

    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""

    def query(self) -> dict[str, str]:
        return _given(labelSelector=self.label_selector, fieldSelector=self.field_selector)


def path_of(resource: Resource, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """The path of a resource, of one object of it, or of a subresource of that."""
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    where = f"/namespaces/{quote(namespace, safe=':')}" if namespace and resource.namespaced else ""
    named = f"/{quote(name, safe=':')}" if name else ""
    return f"{root}{where}/{resource.plural}{named}" + (f"/{subresource}" if subresource else "")


def get(resource: Resource, namespace: str, name: str) -> Request:
    return Request("GET", path_of(resource, namespace, name))


def list_(resource: Resource, scope: Scope, limit: int, continue_token: str) -> Request:
    query = {**scope.query(), **_given(limit=str(limit or ""), **{"continue": continue_token})}
    return Request("GET", path_of(resource, scope.namespace), query)


def watch(resource: Resource, scope: Scope, resource_version: str, timeout_s: int) -> Request:
    query = {
        **scope.query(),
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": resource_version,
        "timeoutSeconds": str(timeout_s),
    }
    return Request("GET", path_of(resource, scope.namespace), query)


def streamed_list(resource: Resource, scope: Scope, timeout_s: int) -> Request:
    """A watch that begins with everything there is and says where that ends (KEP-3157)."""
    asked = watch(resource, scope, "", timeout_s)
    return Request(
        "GET", asked.path, {**asked.query, "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    )


def create(resource: Resource, body: Object, *, dry_run: bool) -> Request:
    path = path_of(resource, body["metadata"].get("namespace", ""))
    return Request("POST", path, _dry_run(dry_run), msgspec.json.encode(body))


def create_subresource(resource: Resource, namespace: str, name: str, subresource: str, body: Object) -> Request:
    return Request("POST", path_of(resource, namespace, name, subresource), {}, msgspec.json.encode(body))


def update(resource: Resource, body: Object, subresource: str, *, dry_run: bool) -> Request:
    metadata = body["metadata"]
    path = path_of(resource, metadata.get("namespace", ""), metadata["name"], subresource)
    return Request("PUT", path, _dry_run(dry_run), msgspec.json.encode(body))


def patch(
    resource: Resource,
    namespace: str,
    name: str,
    patch: Any,
    *,
    patch_type: PatchType,
    subresource: str,
    field_manager: str,
    force: bool,
    dry_run: bool,
) -> Request:
    query = {"fieldManager": field_manager, **_given(force="true" if force else ""), **_dry_run(dry_run)}
    path = path_of(resource, namespace, name, subresource)
    return Request("PATCH", path, query, msgspec.json.encode(patch), PATCH_MEDIA_TYPES[patch_type])


def delete(
    resource: Resource,
    namespace: str,
    name: str,
    *,
    uid: str,
    propagation: Propagation | None,
    grace_period_s: int | None,
    dry_run: bool,
) -> Request:
    options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if uid:
        options["preconditions"] = {"uid": uid}
    if propagation is not None:
        options["propagationPolicy"] = propagation
    if grace_period_s is not None:
        options["gracePeriodSeconds"] = grace_period_s
    if dry_run:
        options["dryRun"] = ["All"]
    return Request("DELETE", path_of(resource, namespace, name), {}, msgspec.json.encode(options))


def _dry_run(asked: bool) -> dict[str, str]:
    return {"dryRun": "All"} if asked else {}


def _given(**query: str) -> dict[str, str]:
    return {name: value for name, value in query.items() if value}
