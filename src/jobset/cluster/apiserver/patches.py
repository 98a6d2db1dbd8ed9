"""What a patch makes of an object: JSON patch, merge patch, strategic merge patch. Pure.

Server-side apply, which also creates objects, is apply.py.
"""

from __future__ import annotations

from typing import Any

import jsonpatch

from jobset.api.errors import BadRequest, Invalid, UnsupportedMediaType
from jobset.api.merge_patch import apply_merge_patch
from jobset.api.meta import Object, copy_json
from jobset.api.schema import definition
from jobset.cluster.apiserver.strategic import apply_strategic_patch
from jobset.cluster.model.kinds.kind import Kind


class PatchRejected(Invalid):
    """A JSON patch that does not fit the object; the server says no more than that."""

    def __init__(self) -> None:
        super().__init__("the server rejected our request due to an error in our request")

    def to_status(self) -> dict[str, Any]:
        status = super().to_status()
        return {**status, "details": {}}


def check_supported(kind: Kind, patch_type: str) -> None:
    """UnsupportedMediaType when objects of this kind take no such patch."""
    if patch_type not in ("json", "merge", "strategic", "apply") or (patch_type == "strategic" and not kind.definition):
        raise UnsupportedMediaType(f"patches of type {patch_type} are not supported for this resource")


def patched(kind: Kind, current: Object, patch: Any, patch_type: str) -> Object:
    """`current` with the patch applied, sharing what did not change; `current` itself when nothing did."""
    if patch_type == "json":
        return _json_patched(current, patch)
    if not isinstance(patch, dict):
        raise BadRequest("error decoding patch: a patch of this type must be an object")
    if patch_type == "merge":
        new = apply_merge_patch(current, patch)
    else:
        new = apply_strategic_patch(current, patch, definition(kind.definition))
    if not isinstance(new.get("metadata"), dict):
        raise BadRequest("a patch must leave metadata an object")
    return new  # type: ignore[no-any-return]


def _json_patched(current: Object, patch: Any) -> Object:
    if not isinstance(patch, list):
        raise BadRequest("error decoding patch: a JSON patch must be a list of operations")
    try:
        new = copy_json(current)
        for operation in patch:
            new = jsonpatch.JsonPatch([_lenient(new, operation)]).apply(new, in_place=True)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, KeyError, ValueError) as error:
        raise PatchRejected() from error
    if not isinstance(new, dict) or not isinstance(new.get("metadata"), dict):
        raise PatchRejected()
    shared: Object = _shared(current, new)
    return shared


def _lenient(target: Any, operation: Any) -> Any:
    """A `replace` of a key that is absent adds it, as the API server has it."""
    if isinstance(operation, dict) and operation.get("op") == "replace":
        pointer = jsonpatch.JsonPointer(operation["path"])
        parent, key = pointer.to_last(target)
        if isinstance(parent, dict) and key not in parent:
            return {**operation, "op": "add"}
    return operation


def _shared(old: Any, new: Any) -> Any:
    """`new`, with every part that equals its counterpart in `old` replaced by that counterpart."""
    if isinstance(old, dict) and isinstance(new, dict):
        parts = {key: _shared(old[key], value) if key in old else value for key, value in new.items()}
        same = len(parts) == len(old) and all(key in old and old[key] is value for key, value in parts.items())
        return old if same else parts
    return old if type(old) is type(new) and old == new else new
