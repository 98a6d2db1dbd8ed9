"""Requests in the shape of HTTP, answered by the API service in process: method, path and query to a verb, and back.

Only what the recorded conversations need. Whoever reads this to write the HTTP server: the rules of objects are the
service's; here are only words of HTTP (paths, query, media types, status codes, which answers are a Status).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

from conformance.replay import AGENT
from jobset.api.errors import ApiError, BadRequest, Cause, Invalid, MethodNotAllowed, NotFound, UnsupportedMediaType
from jobset.api.meta import Object
from jobset.api.resources import PODS, Resource
from jobset.cluster.apiserver.managed_fields import field_manager
from jobset.cluster.apiserver.options import DeleteOptions, ListOptions, WatchOptions, WriteOptions
from jobset.cluster.apiserver.service import ApiService

PATCH_TYPES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}
ANSWERED_WITH_THE_OBJECT = {"pods", "services", "persistentvolumeclaims", "persistentvolumes", "serviceaccounts"}
"""Kinds whose DELETE answers with the object even when it is gone at once."""


@dataclass(frozen=True)
class Target:
    """What a path names."""

    resource: Resource
    namespace: str
    name: str
    subresource: str
    watch: bool = False


@dataclass(frozen=True)
class Answer:
    status: int
    body: Object | str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    media_type: str
    user_agent: str
    body: bytes

    @staticmethod
    def of(method: str, url: str, headers: dict[str, str] | None, body: bytes | None) -> Request:
        parts = urlsplit(url)
        query = {key: values[0] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
        media_type = (headers or {}).get("Content-Type", "application/json").split(";")[0]
        user_agent = (headers or {}).get("User-Agent", AGENT)
        return Request(method, unquote(parts.path), query, media_type, user_agent, body or b"")

    def json(self) -> Any:
        if self.media_type == "text/plain":
            raise UnsupportedMediaType("the body of the request was in an unknown format")
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise BadRequest(f"the object provided is unrecognized (must be of type Object): {error}") from error


class NoSuchPage(Exception):
    """The path belongs to no API."""


class Router:
    def __init__(self, service: ApiService) -> None:
        self._service = service

    def target(self, path: str) -> Target:
        """The resource a path names. NotFound."""
        parts = [part for part in path.split("/") if part]
        if parts[:1] == ["api"] and len(parts) > 2:
            group, version, rest = "", parts[1], parts[2:]
        elif parts[:1] == ["apis"] and len(parts) > 3:
            group, version, rest = parts[1], parts[2], parts[3:]
        else:
            raise NotFound("the server could not find the requested resource")
        watch = rest[0] == "watch"
        rest = rest[watch:]
        namespace = ""
        if rest[-1] == "bindings":
            rest = [*rest[:-1], "pods"]
        if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
            namespace, rest = rest[1], rest[2:]
        resource = self._find(group, version, rest[0], bool(namespace))
        name = rest[1] if len(rest) > 1 else ""
        return Target(resource, namespace, name, "/".join(rest[2:]), watch)

    def _find(self, group: str, version: str, plural: str, namespaced: bool) -> Resource:
        all_served = self._service.registry.all()
        for served in all_served:
            resource = served.resource
            if (resource.group, resource.version, resource.plural) == (group, version, plural):
                if namespaced and not resource.namespaced:
                    break
                return resource
        if not any((served.resource.group, served.resource.version) == (group, version) for served in all_served):
            raise NoSuchPage
        raise NotFound("the server could not find the requested resource")

    def handle(self, request: Request) -> Answer:
        warnings: list[str] = []
        status: int
        body: Object | str
        try:
            status, body = self._route(request, warnings)
        except NoSuchPage:
            return Answer(404, "404 page not found\n")
        except ApiError as error:
            status, body = error.code, error.to_status()
        return Answer(status, body, tuple(warnings))

    def _route(self, request: Request, warnings: list[str]) -> tuple[int, Object]:
        target = self.target(request.path)
        match request.method:
            case "GET" if target.name:
                return 200, self._get(target)
            case "GET":
                return 200, self._list(target, request)
            case "POST":
                return self._post(target, request, warnings)
            case "PUT" if target.name:
                return self._put(target, request, warnings)
            case "PATCH" if target.name:
                return self._patch(target, request, warnings)
            case "DELETE":
                return self._delete(target, request, warnings)
        raise MethodNotAllowed("the server does not allow this method on the requested resource")

    def watch_options(self, request: Request, target: Target) -> WatchOptions:
        query = request.query
        initial = query.get("sendInitialEvents")
        selector = query.get("fieldSelector", "")
        if target.name:
            selector = f"metadata.name={target.name}"
        return WatchOptions(
            query.get("labelSelector", ""),
            selector,
            query.get("resourceVersion", ""),
            query.get("resourceVersionMatch", ""),
            query.get("allowWatchBookmarks") == "true",
            None if initial is None else initial == "true",
        )

    def _get(self, target: Target) -> Object:
        if target.subresource:
            return self._service.get_subresource(target.resource, target.namespace, target.name, target.subresource)
        return self._service.get(target.resource, target.namespace, target.name)

    def _list(self, target: Target, request: Request) -> Object:
        found = self._service.list(target.resource, target.namespace, _list_options(request))
        metadata: Object = {"resourceVersion": found.resource_version}
        if found.continue_token:
            metadata["continue"] = found.continue_token
            if found.remaining is not None:
                metadata["remainingItemCount"] = found.remaining
        elif target.resource in self._service.custom_resources():
            metadata["continue"] = ""
        return _list_object(target.resource, list(found.items), metadata)

    def _post(self, target: Target, request: Request, warnings: list[str]) -> tuple[int, Object]:
        body = request.json()
        options = _write_options(request, warnings)
        service, resource = self._service, target.resource
        if request.path.endswith("/bindings"):
            return 201, service.create_subresource(PODS, target.namespace, body["metadata"]["name"], "binding", body)
        if target.subresource:
            return 201, service.create_subresource(resource, target.namespace, target.name, target.subresource, body)
        if target.name:
            raise MethodNotAllowed("the server does not allow this method on the requested resource")
        return 201, service.create(resource, target.namespace, body, options)

    def _put(self, target: Target, request: Request, warnings: list[str]) -> tuple[int, Object]:
        body = request.json()
        options = _write_options(request, warnings)
        where = (target.resource, target.namespace, target.name)
        existed = self._service.exists(*where)
        written = self._service.update(*where, body, target.subresource, options)
        return 200 if existed else 201, written

    def _patch(self, target: Target, request: Request, warnings: list[str]) -> tuple[int, Object]:
        patch_type = PATCH_TYPES.get(request.media_type)
        if patch_type is None:
            raise UnsupportedMediaType("the body of the request was in an unknown format")
        options = _write_options(request, warnings)
        where = (target.resource, target.namespace, target.name)
        existed = self._service.exists(*where)
        body = yaml.safe_load(request.body) if patch_type == "apply" else request.json()
        patched = self._service.patch(*where, body, patch_type, target.subresource, options)
        return 200 if existed else 201, patched

    def _delete(self, target: Target, request: Request, warnings: list[str]) -> tuple[int, Object]:
        options = _delete_options(request, warnings)
        resource, namespace, name = target.resource, target.namespace, target.name
        if not name:
            deleted = self._service.delete_collection(resource, namespace, _list_options(request), options)
            return 200, _list_object(resource, deleted, {"resourceVersion": str(self._service.store.revision)})
        obj = self._service.delete(resource, namespace, name, options)
        if resource.plural in ANSWERED_WITH_THE_OBJECT and not resource.group:
            return 200, obj
        still_there = "deletionTimestamp" in obj["metadata"]
        return 200, obj if still_there else _deleted(resource, obj)


def _list_object(resource: Resource, items: list[Object], metadata: Object) -> Object:
    return {
        "kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": metadata,
        "items": [{k: v for k, v in item.items() if k not in ("kind", "apiVersion")} for item in items]
        if "." not in resource.group or resource.group.endswith(".k8s.io") else items,
    }  # fmt: skip


def _deleted(resource: Resource, obj: Object) -> Object:
    details = {"name": obj["metadata"]["name"], "kind": resource.plural, "uid": obj["metadata"]["uid"]}
    if resource.group:
        details["group"] = resource.group
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _dry_run(query: dict[str, str], kind: str) -> bool:
    value = query.get("dryRun")
    if value not in (None, "", "All"):
        cause = Cause("FieldValueNotSupported", f'Unsupported value: "{value}": supported values: "All"', "dryRun")
        raise Invalid(
            f'{kind}.meta.k8s.io "" is invalid: dryRun: {cause.message}',
            causes=[cause],
            group="meta.k8s.io",
            kind=kind,
        )
    return value == "All"


def _write_options(request: Request, warnings: list[str]) -> WriteOptions:
    kind = {"POST": "CreateOptions", "PUT": "UpdateOptions"}.get(request.method, "PatchOptions")
    validation = request.query.get("fieldValidation", "Warn")
    manager = request.query.get("fieldManager", "")
    if request.media_type != "application/apply-patch+yaml":
        manager = field_manager(manager, request.user_agent)
    return WriteOptions(
        _dry_run(request.query, kind),
        validation,  # type: ignore[arg-type]
        warnings.append,
        manager,
        request.query.get("force") == "true",
    )


def _list_options(request: Request) -> ListOptions:
    query = request.query
    return ListOptions(
        query.get("labelSelector", ""),
        query.get("fieldSelector", ""),
        int(query.get("limit") or 0),
        query.get("continue", ""),
        query.get("resourceVersion", ""),
        query.get("resourceVersionMatch", ""),
    )


def _delete_options(request: Request, warnings: list[str]) -> DeleteOptions:
    body: Object = request.json() if request.body else {}
    if body.get("kind", "DeleteOptions") != "DeleteOptions":
        version = body.get("apiVersion", "")
        raise BadRequest(
            f'no kind "{body["kind"]}" is registered for version "{version}" in scheme '
            '"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"'
        )
    grace = body.get("gracePeriodSeconds", request.query.get("gracePeriodSeconds"))
    if isinstance(body.get("gracePeriodSeconds"), str):
        raise BadRequest(
            "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64"
        )
    preconditions = body.get("preconditions") or {}
    policy = body.get("propagationPolicy", request.query.get("propagationPolicy"))
    orphan = body.get("orphanDependents")
    _check_policy(policy, orphan)
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    dry_run = {"dryRun": body["dryRun"][0]} if body.get("dryRun") else request.query
    return DeleteOptions(
        preconditions.get("uid", ""),
        preconditions.get("resourceVersion", ""),
        policy,
        None if grace is None else int(grace),
        _dry_run(dry_run, "DeleteOptions"),
        warnings.append,
    )


def _check_policy(policy: str | None, orphan: bool | None) -> None:
    if policy is not None and orphan is not None:
        cause = Cause(
            "FieldValueInvalid",
            f'Invalid value: "{policy}": orphanDependents and deletionPropagation cannot be both set',
            "propagationPolicy",
        )
    elif policy not in (None, "Foreground", "Background", "Orphan"):
        supported = '"Foreground", "Background", "Orphan", "nil"'
        cause = Cause(
            "FieldValueNotSupported",
            f'Unsupported value: "{policy}": supported values: {supported}',
            "propagationPolicy",
        )
    else:
        return
    raise Invalid(
        f'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: {cause.message}',
        causes=[cause],
        group="meta.k8s.io",
        kind="DeleteOptions",
    )
