"""Requests about resources, answered by the API service: from the words of HTTP to the service's verbs, and back.

The rules of objects are the service's. Here are only queries, bodies, status codes, and which answers are a Status.
Nothing here waits: watches are in watching.py.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from jobset.api.errors import BadRequest
from jobset.api.meta import Object
from jobset.api.resources import PODS, Resource
from jobset.cluster.apiserver.http import bodies, queries
from jobset.cluster.apiserver.http.catalogue import Offer, offers_of
from jobset.cluster.apiserver.http.errors import NoSuchPage, method_not_allowed, unserved, warning_headers
from jobset.cluster.apiserver.http.negotiation import MEDIA_TYPES, encode, is_pretty, representation
from jobset.cluster.apiserver.http.paths import RequestInfo
from jobset.cluster.apiserver.http.representations import Shaper, list_object
from jobset.cluster.apiserver.http.requests import Answer, Request
from jobset.cluster.apiserver.http.reviews import Reviews
from jobset.cluster.apiserver.metadata import not_found
from jobset.cluster.apiserver.registry import Served
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.model.kinds.kind import Kind
from jobset.cluster.model.kinds.registry import KINDS

_ANSWERED_WITH_THE_OBJECT = {"pods", "services", "persistentvolumeclaims", "persistentvolumes", "serviceaccounts"}
"""Kinds whose DELETE answers with the object even when it is gone at once."""
_GROUPS = frozenset(resource.group for resource in KINDS)


class Verbs:
    def __init__(self, service: ApiService, now: Callable[[], datetime], reviews: Reviews) -> None:
        self._service = service
        self._shaper = Shaper(now)
        self._reviews = reviews
        self._offers: dict[Resource, dict[str, Offer]] = {}
        self._offers_of = -1

    def served(self, info: RequestInfo) -> Served:
        """The resource that a request is about. NotFound, NoSuchPage."""
        served = self._service.registry.find(info.group, info.version, info.resource)
        if served is None:
            if info.group in _GROUPS:
                raise unserved()
            raise NoSuchPage
        if served.resource.namespaced:
            if not info.namespace and info.name and info.verb not in ("list", "watch"):
                raise unserved()
        elif info.namespace and info.resource != "namespaces":
            raise unserved()
        return served

    def answer(self, request: Request) -> Answer:
        """Raises errors of jobset.api.errors, and NoSuchPage."""
        status, body, kind = self._route(request)
        return self._written(request, status, body, kind)

    def _written(self, request: Request, status: int, body: Object, kind: Kind | None) -> Answer:
        chosen = representation(request.accept)
        shaped = self._shaper.shape(kind, body, chosen, request.query.get("includeObject", ""))
        pretty = is_pretty(request.query.get("pretty"), request.user_agent)
        encoded = encode(shaped, chosen.encoding, pretty=pretty)
        return Answer(status, encoded, MEDIA_TYPES[chosen.encoding], warning_headers(request.warnings))

    def _route(self, request: Request) -> tuple[int, Object, Kind | None]:
        info = request.info
        representation(request.accept)  # before anything is done for an answer that cannot be given
        if info.verb == "create" and not info.name and (made := self._create_unstored(request)) is not None:
            return 201, made, None
        served = self.served(info)
        self._check_allowed(request, served)
        match info.verb:
            case "get":
                body = self._get(served, info)
                return 200, body, None if info.subresource == "scale" else served.kind
            case "list":
                return 200, self._list(served, request), served.kind
            case "create":
                return self._create(served, request)
            case "update":
                return self._update(served, request)
            case "patch":
                return self._patch(served, request)
            case "delete":
                return self._delete(served, request)
            case _:
                return self._delete_collection(served, request)

    def _check_allowed(self, request: Request, served: Served) -> None:
        """NotFound for a subresource that there is not, MethodNotAllowed for a verb that it does not have."""
        info, resource = request.info, served.resource
        offer = self._offer(served, info.subresource)
        if offer is None:
            raise unserved() if served.kind.definition or not info.name else not_found(resource, info.name)
        with_name = info.verb in ("get", "update", "patch", "delete") or bool(info.subresource)
        everywhere = resource.namespaced and not info.namespace and info.verb != "list"
        named = bool(info.name) or not with_name
        if info.verb not in offer.verbs or request.method == "HEAD" or everywhere or not named:
            raise method_not_allowed()
        if info.verb == "create" and info.name and not info.subresource:
            raise method_not_allowed()

    def _offer(self, served: Served, subresource: str) -> Offer | None:
        """What can be asked of the resource, or of a subresource; kept until what is served changes."""
        registry = self._service.registry
        if self._offers_of != registry.changes:
            self._offers, self._offers_of = {}, registry.changes
        resource = served.resource
        if resource not in self._offers:
            self._offers[resource] = {one.name.partition("/")[2]: one for one in offers_of(served.kind)}
        return self._offers[resource].get(subresource)

    def _create_unstored(self, request: Request) -> Object | None:
        """Resources that are answered instead of stored: reviews, and bindings that name their pod in the body."""
        info, service = request.info, self._service
        if info.resource == "bindings" and (info.group, info.version) == ("", "v1") and info.namespace:
            binding = _object(request, "Binding")
            name = (binding.get("metadata") or {}).get("name") or ""
            return service.create_subresource(PODS, info.namespace, name, "binding", binding)
        for resource in self._reviews.resources:
            if (resource.group, resource.version, resource.plural) == (info.group, info.version, info.resource):
                body = _object(request, resource.kind)
                return self._reviews.create(request.user, resource, info.namespace, body)
        return None

    def _get(self, served: Served, info: RequestInfo) -> Object:
        if info.subresource:
            return self._service.get_subresource(*_where(served, info), info.subresource)
        return self._service.get(*_where(served, info))

    def _list(self, served: Served, request: Request) -> Object:
        options = queries.list_options(request.query)
        found = self._service.list(served.resource, request.info.namespace, options)
        metadata: Object = {"resourceVersion": found.resource_version}
        if found.continue_token:
            metadata["continue"] = found.continue_token
            if found.remaining is not None:
                metadata["remainingItemCount"] = found.remaining
        return list_object(served.kind, found.items, metadata)

    def _create(self, served: Served, request: Request) -> tuple[int, Object, Kind | None]:
        info, resource = request.info, served.resource
        body = _object(request, resource.kind)
        if info.subresource:
            return 201, self._service.create_subresource(*_where(served, info), info.subresource, body), None
        options = queries.write_options(request, "CreateOptions")
        return 201, self._service.create(resource, info.namespace, body, options), served.kind

    def _update(self, served: Served, request: Request) -> tuple[int, Object, Kind | None]:
        info = request.info
        body = _object(request, served.resource.kind)
        options = queries.write_options(request, "UpdateOptions")
        where = _where(served, info)
        existed = self._service.exists(*where)
        written = self._service.update(*where, body, info.subresource, options)
        return 200 if existed else 201, written, None if info.subresource == "scale" else served.kind

    def _patch(self, served: Served, request: Request) -> tuple[int, Object, Kind | None]:
        info = request.info
        patch_type = bodies.patch_type(request.content_type)
        patch, twice = bodies.decode_patch(request.content_type, request.body)
        _tell_twice(request, served.resource.kind, served.resource.version, twice)
        options = queries.patch_options(request, patch_type)
        where = _where(served, info)
        existed = patch_type != "apply" or self._service.exists(*where)
        written = self._service.patch(*where, patch, patch_type, info.subresource, options)
        return 200 if existed else 201, written, None if info.subresource == "scale" else served.kind

    def _delete(self, served: Served, request: Request) -> tuple[int, Object, Kind | None]:
        info, resource = request.info, served.resource
        options = queries.delete_options(request.query, _delete_body(request), request.warnings.append)
        obj = self._service.delete(*_where(served, info), options)
        answered = resource.plural in _ANSWERED_WITH_THE_OBJECT and not resource.group
        if answered or "deletionTimestamp" in obj["metadata"]:
            return 200, obj, served.kind
        return 200, _deleted(served, obj), None

    def _delete_collection(self, served: Served, request: Request) -> tuple[int, Object, Kind | None]:
        options = queries.delete_options(request.query, _delete_body(request), request.warnings.append)
        chosen = queries.list_options(request.query)
        deleted = self._service.delete_collection(served.resource, request.info.namespace, chosen, options)
        metadata: Object = {"resourceVersion": str(self._service.store.revision)}
        return 200, list_object(served.kind, deleted, metadata), served.kind


def _where(served: Served, info: RequestInfo) -> tuple[Resource, str, str]:
    """How the service addresses the object. A Namespace is in none, though its path says so."""
    return served.resource, info.namespace if served.resource.namespaced else "", info.name


def _object(request: Request, kind: str) -> Object:
    """The body of a create or update."""
    body, twice = bodies.decode_object(request.content_type, request.body, kind)
    _tell_twice(request, kind, request.info.version, twice)
    if not isinstance(body, dict):
        raise BadRequest(f"the object provided is unrecognized (must be of type {kind}): it is no mapping of fields")
    return body


def _tell_twice(request: Request, kind: str, version: str, paths: list[str]) -> None:
    texts = [f'duplicate field "{path}"' for path in paths]
    validation = request.query.get("fieldValidation", "Warn")
    if texts and validation == "Strict":
        problem = "strict decoding error: " + ", ".join(texts)
        raise BadRequest(f'{kind} in version "{version}" cannot be handled as a {kind}: {problem}')
    if validation == "Warn":
        request.warnings.extend(texts)


def _delete_body(request: Request) -> Any:
    if not request.body.strip():
        return {}
    return bodies.decode_object(request.content_type, request.body, "DeleteOptions")[0]


def _deleted(served: Served, obj: Object) -> Object:
    resource = served.resource
    details = {"name": obj["metadata"]["name"], "kind": resource.plural, "uid": obj["metadata"]["uid"]}
    if resource.group:
        details["group"] = resource.group
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
