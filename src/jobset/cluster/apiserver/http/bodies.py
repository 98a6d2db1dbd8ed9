"""From the bytes of a body to plain values, telling of fields that stand twice. Pure.

Whether the value is an object of the right kind is the service's to say (apiserver/decoding.py).
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from jobset.api.errors import BadRequest, UnsupportedMediaType
from jobset.client.port import PatchType
from jobset.client.yaml_reader import NotReadable, read_documents
from jobset.cluster.apiserver.http import protobuf
from jobset.cluster.apiserver.http.errors import UnknownMediaType

LIMIT_BYTES = 3 * 1024 * 1024
PATCH_TYPES: dict[str, PatchType] = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}
_JSON = ("", "application/json")
_YAML = ("application/yaml", "application/apply-patch+yaml")
_KEY = re.compile(rb'"\s*:')


def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def patch_type(content_type: str) -> PatchType:
    """json, merge, strategic or apply. UnsupportedMediaType."""
    found = PATCH_TYPES.get(media_type(content_type))
    if found is None:
        raise UnknownMediaType("415: Unsupported Media Type")
    return found


def decode_object(content_type: str, body: bytes, kind: str) -> tuple[Any, list[str]]:
    """The value of a body, and the paths of fields that stand twice in it. BadRequest, UnsupportedMediaType."""
    type_ = media_type(content_type)
    if type_ == protobuf.MEDIA_TYPE:
        return protobuf.decode(body), []
    if type_ not in _JSON and type_ not in _YAML:
        raise UnsupportedMediaType(
            "the body of the request was in an unknown format - accepted media types include: "
            f"application/json, application/yaml, {protobuf.MEDIA_TYPE}"
        )
    problem = f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; "
    return _decode(type_, body, problem)


def decode_patch(content_type: str, body: bytes) -> tuple[Any, list[str]]:
    return _decode(media_type(content_type), body, "error decoding patch: ")


def _decode(type_: str, body: bytes, problem: str) -> tuple[Any, list[str]]:
    if type_ in _YAML and not body.lstrip().startswith(b"{"):
        return _from_yaml(body, problem), []
    try:
        value = msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"{problem}json parse error: {error}") from error
    return value, duplicate_fields(body, value)


def _from_yaml(body: bytes, problem: str) -> Any:
    try:
        documents = read_documents(body.decode())
    except NotReadable as error:
        raise BadRequest(f"{problem}yaml: line {error.line}: {error.message}") from error
    except UnicodeDecodeError as error:
        raise BadRequest(f"{problem}yaml: {error}") from error
    return documents[0].value if documents else None


def duplicate_fields(body: bytes, value: Any) -> list[str]:
    """The paths of fields that stand twice in JSON that has been decoded to `value`, which has each of them once.

    Mostly none: as long as there are no more signs of a key than keys, nobody needs to look closer.
    """
    if len(_KEY.findall(body)) == _keys(value):
        return []
    found: list[_Pairs] = []

    def note(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = _Pairs(pairs)
        if len(result) != len(pairs):
            keys = [key for key, _ in pairs]
            result.twice = [key for key in result if keys.count(key) > 1]
            found.append(result)
        return result

    whole = json.loads(body, object_pairs_hook=note)
    return list(_paths(whole, "")) if found else []


class _Pairs(dict[str, Any]):
    """A JSON object and which of its keys stood there more than once."""

    twice: list[str] = []


def _keys(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(_keys(item) for item in value.values() if isinstance(item, dict | list))
    if isinstance(value, list):
        return sum(_keys(item) for item in value if isinstance(item, dict | list))
    return 0


def _paths(value: Any, path: str) -> list[str]:
    found: list[str] = []
    if isinstance(value, _Pairs):
        prefix = f"{path}." if path else ""
        found += [prefix + key for key in value.twice]
        for key, item in value.items():
            found += _paths(item, prefix + key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += _paths(item, f"{path}[{index}]")
    return found
