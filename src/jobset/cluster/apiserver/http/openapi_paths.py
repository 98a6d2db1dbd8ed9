"""The operations of a resource as OpenAPI describes them: kubectl looks here for what a server can do. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jobset.api.meta import Object
from jobset.cluster.apiserver.http.bodies import PATCH_TYPES
from jobset.cluster.apiserver.http.catalogue import Offer, offers_of
from jobset.cluster.model.kinds.kind import Kind

DELETE_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
_TEXT, _FLAG, _NUMBER = "string", "boolean", "integer"
_WRITING = {"dryRun": _TEXT, "fieldManager": _TEXT, "fieldValidation": _TEXT}
_CHOOSING = {"labelSelector": _TEXT, "fieldSelector": _TEXT, "limit": _NUMBER, "continue": _TEXT,
             "resourceVersion": _TEXT, "resourceVersionMatch": _TEXT, "timeoutSeconds": _NUMBER,
             "sendInitialEvents": _FLAG}  # fmt: skip
_WATCHING = {"watch": _FLAG, "allowWatchBookmarks": _FLAG}
_DELETING = {"dryRun": _TEXT, "gracePeriodSeconds": _NUMBER, "orphanDependents": _FLAG, "propagationPolicy": _TEXT}
_DESCRIBED = ("status", "scale", "finalize")
"""Subresources whose operations are described; the others are streams, or take what is no object."""
_MODES = {
    "create": ("post", "post", _WRITING),
    "deletecollection": ("delete", "deletecollection", _DELETING | _CHOOSING),
    "list": ("get", "list", _CHOOSING | _WATCHING),
    "get": ("get", "get", {}),
    "update": ("put", "put", _WRITING),
    "patch": ("patch", "patch", _WRITING | {"force": _FLAG}),
    "delete": ("delete", "delete", _DELETING),
}
"""Verb: (method, what Kubernetes calls the action, query parameters)."""
_OF_ALL = ("list", "create", "deletecollection")


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one version of OpenAPI writes parameters, bodies and answers."""

    swagger: bool

    def parameter(self, name: str, type_: str, place: str) -> Object:
        described: Object = {"name": name, "in": place}
        if place == "path":
            described["required"] = True
        if self.swagger:
            return {**described, "type": type_, "uniqueItems": True}
        return {**described, "schema": {"type": type_, "uniqueItems": True}}

    def reference(self, name: str) -> Object:
        return {"$ref": ("#/definitions/" if self.swagger else "#/components/schemas/") + name}

    def body(self, media_types: list[str], schema: Object) -> Object:
        """What is added to an operation that takes a body."""
        if self.swagger:
            described = {"name": "body", "in": "body", "required": True, "schema": schema}
            return {"parameters": [described], "consumes": media_types}
        return {"requestBody": {"required": True, "content": {one: {"schema": schema} for one in media_types}}}

    def answers(self, verb: str, schema: Object) -> Object:
        if self.swagger:
            answer: Object = {"description": "OK", "schema": schema}
        else:
            answer = {"description": "OK", "content": {"application/json": {"schema": schema}}}
        codes = {"create": ("200", "201", "202"), "update": ("200", "201"), "patch": ("200", "201")}
        return dict.fromkeys(codes.get(verb, ("200",)), answer)


def operations_of(kind: Kind, definition: str, dialect: Dialect) -> Object:
    """Paths to their operations. `definition` names the schema of the kind's objects."""
    paths: Object = {}
    resource = kind.resource
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    home = f"{root}/namespaces/{{namespace}}" if resource.namespaced else root
    main, *others = offers_of(kind)
    collection, item = f"{home}/{resource.plural}", f"{home}/{resource.plural}/{{name}}"
    paths[collection] = _path(kind, main, definition, dialect, [verb for verb in _OF_ALL if verb in main.verbs])
    paths[item] = _path(kind, main, definition, dialect, [v for v in main.verbs if v not in (*_OF_ALL, "watch")])
    if resource.namespaced:
        everywhere = {"get": _operation(kind, main, definition, dialect, "list", "ForAllNamespaces")}
        paths[f"{root}/{resource.plural}"] = everywhere
    for offer in others:
        subresource = offer.name.partition("/")[2]
        if subresource in _DESCRIBED:
            paths[f"{item}/{subresource}"] = _path(kind, offer, definition, dialect, list(offer.verbs))
    return paths


def _path(kind: Kind, offer: Offer, definition: str, dialect: Dialect, verbs: list[str]) -> Object:
    described: Object = {}
    for verb in verbs:
        described[_MODES[verb][0]] = _operation(kind, offer, definition, dialect, verb)
    parameters = [dialect.parameter("name", _TEXT, "path")] if set(verbs).isdisjoint(_OF_ALL) else []
    if kind.resource.namespaced:
        parameters.append(dialect.parameter("namespace", _TEXT, "path"))
    return {**described, "parameters": parameters}


def _operation(kind: Kind, offer: Offer, definition: str, dialect: Dialect, verb: str, scope: str = "") -> Object:
    resource = kind.resource
    _, action, query = _MODES[verb]
    subresource = offer.name.partition("/")[2].capitalize()
    group = "".join(part.capitalize() for part in resource.group.split(".")) or "Core"
    operation: dict[str, Any] = {
        "operationId": f"{verb}{group}{resource.version.capitalize()}{resource.kind}{subresource}{scope}",
        "responses": dialect.answers(verb, _answer(dialect, offer, definition, verb)),
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {
            "group": offer.group or resource.group,
            "version": offer.version or resource.version,
            "kind": offer.kind,
        },
    }
    parameters = [dialect.parameter(name, type_, "query") for name, type_ in {"pretty": _TEXT, **query}.items()]
    body = _body(kind, dialect, offer, definition, verb)
    operation |= body
    operation["parameters"] = [*body.get("parameters", ()), *parameters]
    return operation


def _answer(dialect: Dialect, offer: Offer, definition: str, verb: str) -> Object:
    if offer.group or verb in ("delete", "deletecollection"):
        return {"type": "object"}
    return dialect.reference(f"{definition}List" if verb == "list" else definition)


def _body(kind: Kind, dialect: Dialect, offer: Offer, definition: str, verb: str) -> Object:
    schema: Object = {"type": "object"} if offer.group else dialect.reference(definition)
    match verb:
        case "create" | "update":
            return dialect.body(["application/json", "application/yaml"], schema)
        case "patch":
            # kubectl apply sends a strategic merge patch wherever one is offered; custom resources take none.
            types = [type_ for type_, name in PATCH_TYPES.items() if kind.definition or name != "strategic"]
            return dialect.body(types, {"type": "object"})
        case _:
            return {}
