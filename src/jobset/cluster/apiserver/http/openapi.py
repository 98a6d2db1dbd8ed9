"""OpenAPI documents of what is served: version 2 of everything, version 3 of each group and version.

Made when somebody asks, and again when the served resources change. The schemas are those that requests are checked by
(api/schema.py, and of custom resources their definition); Kubernetes' descriptions are not among them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from jobset.api.errors import NotAcceptable
from jobset.api.meta import Object
from jobset.api.schema import KUBERNETES_VERSION, Schema, definitions
from jobset.cluster.apiserver.http.discovery import Discovery, GroupVersion
from jobset.cluster.apiserver.http.negotiation import clauses
from jobset.cluster.apiserver.http.openapi_paths import Dialect, operations_of
from jobset.cluster.apiserver.http.openapi_protobuf import encode_swagger
from jobset.cluster.apiserver.http.openapi_schemas import Rewriter, custom_schema, list_schema, references
from jobset.cluster.apiserver.registry import Registry, Served

SWAGGER_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_AS_ASKED = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
"""Clients ask for it by this name, and are told the other: not all of them can read their own."""
_JSON = ("application/json", "application/*", "*/*")
_INFO = {"title": "Kubernetes", "version": f"v{KUBERNETES_VERSION}"}
_GVK = "x-kubernetes-group-version-kind"


@dataclass(frozen=True, slots=True)
class Document:
    body: bytes
    media_type: str
    digest: str


class OpenApi:
    """`custom_definitions` gives the CustomResourceDefinitions as they are stored."""

    def __init__(
        self, registry: Registry, discovery: Discovery, custom_definitions: Callable[[], Iterable[Object]]
    ) -> None:
        self._registry = registry
        self._discovery = discovery
        self._custom_definitions = custom_definitions
        self._made_at = -1
        self._documents: dict[tuple[str, str], Document] = {}

    def document(self, path: str, accept: str) -> Document | None:
        """`path` below /openapi: v2, v3, or v3/apis/GROUP/VERSION. None: no such document. NotAcceptable."""
        if self._made_at != self._discovery.changes:
            self._documents.clear()
            self._made_at = self._discovery.changes
        media_type = _media_type(accept, protobuf=path == "v2")
        key = (path, media_type)
        if key not in self._documents:
            body = self._make(path, media_type)
            if body is None:
                return None
            self._documents[key] = Document(body, media_type, _digest(body))
        return self._documents[key]

    def _make(self, path: str, media_type: str) -> bytes | None:
        if path == "v2":
            swagger = self._swagger()
            return msgspec.json.encode(swagger) if media_type == "application/json" else encode_swagger(swagger)
        if path == "v3":
            return msgspec.json.encode({"paths": self._index()})
        place = _place_of(path)
        if place not in self._discovery.group_versions():
            return None
        return msgspec.json.encode(self._version_document(place))

    def _index(self) -> Object:
        shown = {}
        for place in self._discovery.group_versions():
            path = _path_of(place)
            document = self.document(f"v3/{path}", "")
            assert document is not None
            shown[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={document.digest}"}
        return shown

    def _served_in(self, place: GroupVersion) -> list[Served]:
        return [one for one in self._registry.all() if (one.resource.group, one.resource.version) == place]

    def _version_document(self, place: GroupVersion) -> Object:
        rewriter = Rewriter("#/components/schemas/", swagger=False)
        return {
            "openapi": "3.0.0",
            "info": _INFO,
            "paths": self._paths(self._served_in(place), Dialect(swagger=False)),
            "components": {"schemas": self._schemas(self._served_in(place), place, rewriter)},
        }

    def _swagger(self) -> Object:
        rewriter = Rewriter("#/definitions/", swagger=True)
        everything = self._registry.all()
        schemas: dict[str, Schema] = {}
        for place in self._discovery.group_versions():
            schemas |= self._schemas(self._served_in(place), place, rewriter)
        return {
            "swagger": "2.0",
            "info": _INFO,
            "paths": self._paths(everything, Dialect(swagger=True)),
            "definitions": schemas,
        }

    def _paths(self, served: Sequence[Served], dialect: Dialect) -> Object:
        paths: Object = {}
        for one in served:
            paths |= operations_of(one.kind, self._name_of(one), dialect)
        return paths

    def _schemas(self, served: Sequence[Served], place: GroupVersion, rewriter: Rewriter) -> dict[str, Schema]:
        """The schemas of a group and version, with everything they refer to."""
        known = definitions()
        wanted = {name: schema for name, schema in known.items() if _is_of(schema, place)}
        for one in served:
            name = self._name_of(one)
            wanted.setdefault(name, self._custom_schema(one))
            wanted[f"{name}List"] = list_schema(one.resource, name)
        queue = [name for schema in wanted.values() for name in references(schema)]
        while queue:
            name = queue.pop()
            if name not in wanted:
                wanted[name] = known[name]
                queue.extend(references(known[name]))
        return {name: rewriter.rewrite(wanted[name]) for name in sorted(wanted)}

    def _name_of(self, served: Served) -> str:
        """The name of a resource's schema: that of Kubernetes, or the group reversed."""
        if served.kind.definition:
            return served.kind.definition
        resource = served.resource
        return ".".join([*reversed(resource.group.split(".")), resource.version, resource.kind])

    def _custom_schema(self, served: Served) -> Schema:
        resource = served.resource
        for definition in self._custom_definitions():
            if definition["metadata"]["name"] == str(resource):
                for version in definition["spec"]["versions"]:
                    if version["name"] == resource.version:
                        return custom_schema(resource, (version.get("schema") or {}).get("openAPIV3Schema") or {})
        return custom_schema(resource, {})


def _is_of(schema: Schema, place: GroupVersion) -> bool:
    """Whether a definition is a kind of this group and version. Those that belong to all of them do not count."""
    kinds: list[Object] = schema.get(_GVK) or []
    return len(kinds) == 1 and (kinds[0]["group"], kinds[0]["version"]) == place


def _place_of(path: str) -> GroupVersion:
    match path.split("/"):
        case ["v3", "api", version]:
            return "", version
        case ["v3", "apis", group, version]:
            return group, version
        case _:
            return "", ""


def _path_of(place: GroupVersion) -> str:
    group, version = place
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _media_type(accept: str, *, protobuf: bool) -> str:
    if not accept:
        return "application/json"
    for clause in clauses(accept):
        if protobuf and clause.media_type in (SWAGGER_PROTOBUF, _AS_ASKED):
            return SWAGGER_PROTOBUF
        if clause.media_type in _JSON:
            return "application/json"
    raise NotAcceptable("only the following media types are accepted: application/json")


def _digest(body: bytes) -> str:
    return hashlib.sha512(body).hexdigest().upper()
