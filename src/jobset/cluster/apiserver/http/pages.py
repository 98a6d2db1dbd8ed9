"""Everything that is no resource: discovery, OpenAPI, version, health, and the list of what there is at all."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable
from dataclasses import dataclass

from jobset.api.meta import Object
from jobset.api.schema import KUBERNETES_VERSION
from jobset.cluster.apiserver.http.discovery import Discovery, aggregated_media_type, aggregated_version
from jobset.cluster.apiserver.http.errors import NoSuchPage, method_not_allowed, unserved
from jobset.cluster.apiserver.http.negotiation import MEDIA_TYPES, encode, is_pretty, representation
from jobset.cluster.apiserver.http.openapi import OpenApi
from jobset.cluster.apiserver.http.requests import TEXT, Answer, Request
from jobset.cluster.model.kinds.registry import KINDS

_HEALTH = ("healthz", "livez", "readyz")
_CHECKS = ("ping", "etcd")
"""Names that monitors ask for; the store is in this process, so it is well as long as anything answers."""
_OWN_GROUPS = frozenset(resource.group for resource in KINDS)


@dataclass(frozen=True, slots=True)
class Pages:
    discovery: Discovery
    openapi: OpenApi
    address: str = ""
    """What clients are told to reach the server by."""

    def answer(self, request: Request) -> Answer:
        """NotFound, MethodNotAllowed, NotAcceptable, NoSuchPage."""
        parts = [part for part in request.info.path.split("/") if part]
        page = _page_of(parts)
        if page is None:
            raise NoSuchPage
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed()
        return page(self, request, parts)

    def root(self, request: Request, _: list[str]) -> Answer:
        paths = ["/api", "/apis", "/openapi/v2", "/openapi/v3", "/version"]
        paths += [f"/{check}" for check in _HEALTH]
        paths += [f"/{_url(place)}" for place in self.discovery.group_versions()]
        return _written(request, {"paths": sorted(paths)})

    def core(self, request: Request, parts: list[str]) -> Answer:
        if len(parts) == 1:
            if version := aggregated_version(request.accept):
                return _aggregated(request, version, self.discovery.aggregated(version, core=True))
            return _written(request, self.discovery.core_versions(self.address))
        return _written(request, _found(self.discovery.resources("", parts[1]) if len(parts) == 2 else None))

    def groups(self, request: Request, parts: list[str]) -> Answer:
        match parts:
            case [_]:
                if version := aggregated_version(request.accept):
                    return _aggregated(request, version, self.discovery.aggregated(version, core=False))
                return _written(request, self.discovery.groups())
            case [_, group]:
                return _written(request, _found(self.discovery.group(group), group))
            case [_, group, version]:
                return _written(request, _found(self.discovery.resources(group, version), group))
            case _:
                raise NoSuchPage

    def version(self, request: Request, _: list[str]) -> Answer:
        return _written(request, version_info())

    def health(self, request: Request, parts: list[str]) -> Answer:
        name, *checks = parts
        if checks and (len(checks) > 1 or checks[0] not in _CHECKS):
            raise NoSuchPage
        if "verbose" not in request.query or checks:
            return Answer(200, b"ok", TEXT)
        text = "".join(f"[+]{check} ok\n" for check in _CHECKS) + f"{name} check passed\n"
        return Answer(200, text.encode(), TEXT)

    def schemas(self, request: Request, parts: list[str]) -> Answer:
        document = self.openapi.document("/".join(parts[1:]), request.accept)
        if document is None:
            raise NoSuchPage
        etag = f'"{document.digest}"'
        headers = [("ETag", etag), ("Vary", "Accept")]
        if request.query.get("hash") == document.digest:
            headers.append(("Cache-Control", "public, immutable"))
        if request.if_none_match == etag:
            return Answer(304, b"", document.media_type, tuple(headers))
        return Answer(200, document.body, document.media_type, tuple(headers))


def _page_of(parts: list[str]) -> Callable[[Pages, Request, list[str]], Answer] | None:
    if not parts:
        return Pages.root
    first = parts[0]
    if first in _HEALTH:
        return Pages.health
    pages = {"api": Pages.core, "apis": Pages.groups, "version": Pages.version, "openapi": Pages.schemas}
    return pages.get(first)


def _url(place: tuple[str, str]) -> str:
    group, version = place
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _found(document: Object | None, group: str = "") -> Object:
    """NotFound in a group that this server always has, NoSuchPage in any other."""
    if document is None:
        raise unserved() if group in _OWN_GROUPS else NoSuchPage
    return document


def _written(request: Request, body: Object) -> Answer:
    chosen = representation(request.accept)
    pretty = is_pretty(request.query.get("pretty"), request.user_agent)
    return Answer(200, encode(body, chosen.encoding, pretty=pretty), MEDIA_TYPES[chosen.encoding])


def _aggregated(request: Request, version: str, body: Object) -> Answer:
    encoded = encode(body, "json")
    etag = f'"{hashlib.sha256(encoded).hexdigest().upper()}"'
    headers = (("ETag", etag), ("Vary", "Accept"), ("Cache-Control", "public"))
    if request.if_none_match == etag:
        return Answer(304, b"", aggregated_media_type(version), headers)
    return Answer(200, encoded, aggregated_media_type(version), headers)


def version_info() -> Object:
    major, minor, _ = KUBERNETES_VERSION.split(".")
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(int(minor) - 1),
        "gitVersion": f"v{KUBERNETES_VERSION}+jobset",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": "",
        "compiler": platform.python_implementation(),
        "platform": f"{platform.system().lower()}/{machine}",
    }
