"""Server-side apply: what an applied configuration makes of an object, and who owns its fields then. Pure.

The configuration is merged into the object by the schema's merge rules; fields that the same manager applied before
and left out now go, unless somebody else owns them. Changing a field that another manager owns is a conflict, unless
the request forces it: then the applier takes the field over.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from jobset.api.errors import ApiError, BadRequest, Cause, Conflict, Invalid
from jobset.api.field_errors import required
from jobset.api.meta import Object, format_time
from jobset.cluster.apiserver.field_sets import FieldSet, difference, intersection, outside, paths, union
from jobset.cluster.apiserver.managed_fields import (
    Author,
    Managed,
    Manager,
    Owned,
    before_apply,
    entries_of,
    live_managed,
    released,
    tracked,
    unmanaged,
)
from jobset.cluster.apiserver.merge_types import MergeType
from jobset.cluster.apiserver.typed_values import (
    Untypable,
    compared,
    fields_of,
    merged,
    with_containers,
    without_fields,
)

KUBECTL = "kubectl"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Applied(Struct, frozen=True):
    """What an apply leads to. `object` is without its managedFields."""

    object: Object
    managed_fields: list[Object]


def apply_patch(live: Object | None, config: Any, type_: MergeType, author: Author, *, force: bool) -> Applied:
    """Apply `config`, as `author`, to the live object, or make it one. Conflict, BadRequest, Invalid."""
    configuration = _checked(config, author)
    present = {} if live is None else unmanaged(live)
    managed = {} if live is None else live_managed(live) or before_apply(present, type_, author)
    try:
        spoken = fields_of(configuration, type_)
    except Untypable as error:
        raise BadRequest(f"failed to create typed patch object: {error}") from error
    last = managed.get(author.applier)
    own = Owned(outside(spoken, author.reset), author.api_version, last.time if last else "")
    with_own = {**managed, author.applier: own}
    new = _pruned(merged(present, configuration, type_), with_own, last, type_)
    after = _taken(with_own, present, new, type_, author, _allowed(present, type_, author, force))
    fields = tracked(own.fields)
    changed = new is not present and new != present
    if fields:
        after[author.applier] = Owned(fields, own.api_version, format_time(author.now) if changed else own.time)
    else:
        after.pop(author.applier, None)
    if author.name == KUBECTL:
        new = _with_last_applied(new, configuration)
    return Applied(new, entries_of(after))


def _checked(config: Any, author: Author) -> Object:
    """The configuration of an apply request that is in order."""
    if not author.name:
        raise _bad_options(required("fieldManager", "is required for apply patch"))
    if not isinstance(config, dict) or not isinstance(config.get("metadata", {}), dict):
        raise BadRequest("error decoding patch: a configuration to apply must be an object")
    if config.get("apiVersion") != author.api_version:
        said = config.get("apiVersion") or ""
        raise BadRequest(
            f"Incorrect version specified in apply patch. Specified patch version: {said}, "
            f"expected: {author.api_version}"
        )
    if config.get("metadata", {}).get("managedFields") is not None:
        raise BadRequest("metadata.managedFields must be nil")
    return config


def _bad_options(cause: Cause) -> ApiError:
    text = f'PatchOptions.meta.k8s.io "" is invalid: {cause.field}: {cause.message}'
    return Invalid(text, causes=[cause], group="meta.k8s.io", kind="PatchOptions")


def _pruned(new: Object, managed: Managed, last: Owned | None, type_: MergeType) -> Object:
    """`new` without what its manager applied last time, but for what anybody owns now."""
    if last is None:
        return new
    dropped = with_containers(last.fields, type_)
    remaining: Object = without_fields(new, dropped, type_)
    kept: FieldSet = {}
    for owned in managed.values():
        kept = union(kept, owned.fields)
    every = with_containers(_all_fields(new, type_), type_)
    left = union(with_containers(_all_fields(remaining, type_), type_), with_containers(kept, type_))
    remaining = without_fields(new, difference(every, left), type_)
    gone = difference(every, with_containers(_all_fields(remaining, type_), type_))
    dropped = intersection(gone, dropped)
    pruned: Object = without_fields(new, dropped, type_) if dropped else new
    return pruned


def _all_fields(obj: Object, type_: MergeType) -> FieldSet:
    """The fields of an object; of one that is stored with duplicates or surprises, as far as it has any."""
    return compared({}, obj, type_).added


def _taken(
    managed: Managed, live: Object, new: Object, type_: MergeType, author: Author, allowed: FieldSet | None
) -> dict[Manager, Owned]:
    """Who owns what after the change from `live` to `new`. Conflict over what others own and `allowed` does not hold.

    `allowed` None: the request is forced.
    """
    comparison = compared(live, new, type_)
    others = {manager: owned for manager, owned in managed.items() if manager != author.applier}
    changed = comparison.changed
    if allowed is not None:
        conflicts = {
            manager: fields
            for manager, owned in sorted(others.items())
            if (fields := difference(intersection(owned.fields, changed), allowed))
        }
        if conflicts:
            raise _conflict(conflicts)
    return dict(released(others, union(changed, comparison.removed)))


def _allowed(live: Object, type_: MergeType, author: Author, force: bool) -> FieldSet | None:
    """What may be taken over: all of it by force, and by kubectl what its client-side apply has set before."""
    if force:
        return None
    text = (live.get("metadata", {}).get("annotations") or {}).get(LAST_APPLIED)
    if author.name != KUBECTL or not text:
        return {}
    try:
        return fields_of(msgspec.json.decode(text, type=dict[str, Any]), type_)
    except (msgspec.DecodeError, Untypable):
        return {}


def _with_last_applied(new: Object, config: Object) -> Object:
    """Keep the note of kubectl's client-side apply in step, where there is one."""
    metadata = new["metadata"]
    annotations = metadata.get("annotations") or {}
    if LAST_APPLIED not in annotations:
        return new
    said = config.get("metadata", {})
    others = {key: value for key, value in (said.get("annotations") or {}).items() if key != LAST_APPLIED}
    bare = {**config, "metadata": {**said, "annotations": others}}
    text = msgspec.json.encode(bare, order="sorted").decode() + "\n"
    return {**new, "metadata": {**metadata, "annotations": {**annotations, LAST_APPLIED: text}}}


def _conflict(conflicts: dict[Manager, FieldSet]) -> Conflict:
    found = [(manager, path) for manager, fields in conflicts.items() for path in paths(fields)]
    causes = [
        Cause("FieldManagerConflict", f"conflict with {_shown_manager(manager)}", path) for manager, path in found
    ]
    if len(found) == 1:
        manager, path = found[0]
        text = f"Apply failed with 1 conflict: conflict with {_shown_manager(manager)}: {path}"
    else:
        lines = []
        for manager, fields in conflicts.items():
            lines.append(f"conflicts with {_shown_manager(manager)}:")
            lines.extend(f"- {path}" for path in paths(fields))
        text = f"Apply failed with {len(found)} conflicts: " + "\n".join(lines)
    return Conflict(text, causes=causes)


def _shown_manager(manager: Manager) -> str:
    shown = f'"{manager.name}"'
    if manager.subresource:
        shown += f' with subresource "{manager.subresource}"'
    return f"{shown} using {manager.api_version}" if manager.operation == "Update" else shown
