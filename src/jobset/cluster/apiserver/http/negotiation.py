"""Which representation an answer takes: what the Accept header asks for among what there is. Pure.

Every object can be had as JSON or YAML, as it is, as a Table of what kubectl prints, or as its metadata only. A client
lists what it can take in the order of preference; the first that can be made is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import msgspec
import yaml

from jobset.api.errors import NotAcceptable
from jobset.cluster.apiserver.http.errors import UnknownRepresentation

Form: TypeAlias = Literal["", "Table", "PartialObjectMetadata", "PartialObjectMetadataList"]
"""What becomes of the object; empty: it stays as it is."""
Encoding: TypeAlias = Literal["json", "yaml"]

META_GROUP = "meta.k8s.io"
MEDIA_TYPES: dict[Encoding, str] = {"json": "application/json", "yaml": "application/yaml"}
_ENCODINGS: dict[str, Encoding] = {"application/json": "json", "application/yaml": "yaml", "text/yaml": "yaml"}
_ANYTHING = ("*/*", "application/*")
_KNOWN_ELSEWHERE = "application/vnd.kubernetes.protobuf"
"""A media type of Kubernetes that this server does not have: asking for it alone is worded differently."""
_FORMS: tuple[Form, ...] = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
_FORM_VERSIONS = ("v1", "v1beta1")
_READ_BY_PEOPLE = ("curl/", "Wget/", "Mozilla/")
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@dataclass(frozen=True, slots=True)
class Representation:
    encoding: Encoding = "json"
    form: Form = ""
    form_version: str = ""
    """Of the group meta.k8s.io: v1 or v1beta1."""

    @property
    def form_api_version(self) -> str:
        return f"{META_GROUP}/{self.form_version}"


@dataclass(frozen=True, slots=True)
class Clause:
    """One alternative of an Accept header."""

    media_type: str
    parameters: dict[str, str]
    quality: float


PLAIN = Representation()


@lru_cache(maxsize=256)
def representation(accept: str) -> Representation:
    """NotAcceptable when nothing that the client takes can be made."""
    known = not accept.strip()
    for clause in clauses(accept):
        encoding: Encoding | None = "json" if clause.media_type in _ANYTHING else _ENCODINGS.get(clause.media_type)
        known = known or encoding is not None or clause.media_type == _KNOWN_ELSEWHERE
        if encoding is not None and (found := _formed(encoding, clause.parameters)) is not None:
            return found
    if not accept.strip():
        return PLAIN
    if not known:
        raise UnknownRepresentation(
            "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, "
            "application/json;stream=watch"
        )
    raise NotAcceptable("only the following media types are accepted: application/json, application/yaml")


def clauses(accept: str) -> list[Clause]:
    """The alternatives of an Accept header, best first."""
    found = []
    for text in accept.split(","):
        media_type, *parts = (part.strip() for part in text.split(";"))
        if not media_type:
            continue
        pairs = (part.partition("=") for part in parts if part)
        parameters = {key.strip().lower(): value.strip().strip('"') for key, _, value in pairs}
        found.append(Clause(media_type.lower(), parameters, _quality(parameters.pop("q", "1"))))
    return sorted(found, key=lambda clause: -clause.quality)


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _formed(encoding: Encoding, parameters: dict[str, str]) -> Representation | None:
    form = parameters.get("as", "")
    if not form:
        return Representation(encoding)
    version, group = parameters.get("v", ""), parameters.get("g", "")
    for known in _FORMS:
        if form == known and group == META_GROUP and version in _FORM_VERSIONS:
            return Representation(encoding, known, version)
    return None


def is_pretty(query_value: str | None, user_agent: str) -> bool:
    """Whether JSON is laid out for people: asked for, or by default for those who look at it themselves."""
    if query_value is not None:
        return query_value not in ("false", "0")
    return user_agent.startswith(_READ_BY_PEOPLE)


def encode(value: Any, encoding: Encoding, *, pretty: bool = False) -> bytes:
    body = msgspec.json.encode(value)
    if encoding == "yaml":
        text: bytes = yaml.dump(
            msgspec.json.decode(body), Dumper=_DUMPER, sort_keys=True, allow_unicode=True, encoding="utf-8"
        )
        return text
    return msgspec.json.format(body, indent=2) + b"\n" if pretty else body
