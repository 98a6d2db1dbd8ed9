"""metadata.managedFields: which field manager owns which fields of an object, and how updates change that. Pure.

Objects are tracked only if a request that names a field manager creates or applies them (those that come over HTTP);
an untracked object stays so until somebody applies to it. What changes a tracked object is recorded as an Update by
its field manager: it owns the fields that it set, and all others lose them. Applying is in apply.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from jobset.api.meta import Object, format_time
from jobset.cluster.apiserver.field_sets import FieldSet, decoded, difference, encoded, of_paths, outside, union
from jobset.cluster.apiserver.merge_types import MergeType
from jobset.cluster.apiserver.typed_values import compared

UPDATERS_LIMIT = 10
ANCIENT_CHANGES = "ancient-changes"
UNNAMED = "jobset"
"""Who changes tracked objects without saying so: this program's own controllers."""
NAME_LIMIT_BYTES = 128

_NOT_TRACKED = of_paths(
    ("apiVersion",),
    ("kind",),
    ("metadata",),
    *(
        ("metadata", name)
        for name in (
            "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields",
            "resourceVersion",
        )
    ),
)  # fmt: skip
"""Members that nobody owns; what is below metadata is owned."""
_ALWAYS_THERE = of_paths(
    ("spec",),
    ("status",),
    ("spec", "template"),
    ("spec", "template", "metadata"),
    ("spec", "template", "spec"),
    ("spec", "template", "spec", "containers"),
    ("spec", "containers"),
    ("spec", "names"),
    ("spec", "versions"),
    ("status", "loadBalancer"),
    ("status", "acceptedNames"),
    ("status", "daemonEndpoints"),
    ("status", "daemonEndpoints", "kubeletEndpoint"),
    ("status", "nodeInfo"),
    ("involvedObject",),
    ("regarding",),
    ("source",),
    ("endpoints",),
    ("ports",),
)
"""Containers that objects of Kubernetes' own kinds have from the start, so that no update ever adds them."""


class Manager(Struct, frozen=True, order=True):
    """Who wrote and how. Appliers are the same in every API version: theirs is empty."""

    name: str
    operation: Literal["Apply", "Update"]
    api_version: str = ""
    subresource: str = ""


class Owned(Struct, frozen=True):
    fields: FieldSet
    api_version: str
    time: str = ""
    """Of the last change by this manager; empty when it only ever applied what was there."""


Managed: TypeAlias = Mapping[Manager, Owned]


class Author(Struct, frozen=True):
    """Who makes a request, at which version of the resource, when.

    `reset` is what the request cannot change; `custom`: on a custom resource.
    """

    name: str
    api_version: str
    subresource: str
    now: datetime
    reset: FieldSet
    custom: bool = False

    @property
    def updater(self) -> Manager:
        return Manager(self.name or UNNAMED, "Update", self.api_version, self.subresource)

    @property
    def applier(self) -> Manager:
        return Manager(self.name, "Apply", "", self.subresource)


def field_manager(name: str, user_agent: str) -> str:
    """The field manager of a request that is no apply: as it says, or the program that its User-Agent names."""
    if name:
        return name
    printable = "".join(sign for sign in user_agent.split("/", maxsplit=1)[0] if sign.isprintable())
    return printable.encode()[:NAME_LIMIT_BYTES].decode(errors="ignore")


def managed_of(entries: Any) -> Managed:
    """What managedFields say. ValueError when they are not what this server writes."""
    managed: dict[Manager, Owned] = {}
    if not isinstance(entries, list):
        raise ValueError("managedFields must be a list")
    for entry in entries:
        if not isinstance(entry, dict) or entry.get("fieldsType") != "FieldsV1":
            raise ValueError("an entry of managedFields without fieldsType FieldsV1")
        operation = entry.get("operation")
        if operation not in ("Apply", "Update"):
            raise ValueError(f"an entry of managedFields has the operation {operation!r}")
        version = entry.get("apiVersion") or ""
        if not all(isinstance(entry.get(key, ""), str) for key in ("manager", "apiVersion", "subresource", "time")):
            raise ValueError("an entry of managedFields with something else than text")
        manager = Manager(
            entry.get("manager") or "",
            operation,
            version if operation == "Update" else "",
            entry.get("subresource") or "",
        )
        managed[manager] = Owned(decoded(entry.get("fieldsV1") or {}), version, entry.get("time") or "")
    return managed


def entries_of(managed: Managed) -> list[Object]:
    """As managedFields: appliers first, then by time."""
    entries = []
    for manager in sorted(managed, key=lambda one: (one.operation, managed[one].time, one)):
        owned = managed[manager]
        entry: Object = {"manager": manager.name, "operation": manager.operation, "apiVersion": owned.api_version}
        if owned.time:
            entry["time"] = owned.time
        entry["fieldsType"] = "FieldsV1"
        entry["fieldsV1"] = encoded(owned.fields)
        if manager.subresource:
            entry["subresource"] = manager.subresource
        entries.append(entry)
    return entries


def live_managed(obj: Object) -> Managed:
    """Who owns what of a stored object."""
    try:
        return managed_of(obj["metadata"].get("managedFields") or [])
    except ValueError:
        return {}


def after_update(
    old: Object, new: Object, said: Any, type_: MergeType, author: Author, *, creating: bool = False
) -> list[Object]:
    """The managedFields of `new`, which an update or, from an empty `old`, a create made.

    `said` are the managedFields that came with the request: they replace those of the object, unless they are empty
    or damaged. One empty entry resets them: nothing is tracked from then on.
    """
    managed = _base(old, said, author)
    if not managed and not creating:
        return []
    return entries_of(_updated(managed, old, new, type_, author))


def _base(old: Object, said: Any, author: Author) -> Managed:
    if said and not author.subresource:
        if said == [{}]:
            return {}
        try:
            return managed_of(said)
        except ValueError:
            pass
    return live_managed(old) if old else {}


def _updated(managed: Managed, old: Object, new: Object, type_: MergeType, author: Author) -> Managed:
    """Who owns what after `author` made `new` of `old`."""
    comparison = compared(unmanaged(old), unmanaged(new), type_)
    changed, removed = comparison.changed, comparison.removed
    if not changed and not removed:
        return managed
    after = dict(released(managed, union(changed, removed)))
    own = tracked(outside(difference(changed, removed), author.reset))
    if not author.custom:
        own = difference(own, _ALWAYS_THERE)
    if own:
        previous = after.get(author.updater)
        fields = own if previous is None else union(own, previous.fields)
        after[author.updater] = Owned(fields, author.api_version, format_time(author.now))
    return _capped(after)


def before_apply(obj: Object, type_: MergeType, author: Author) -> Managed:
    """An object that nobody tracked so far: all of it belongs to those who wrote before the first apply."""
    if not obj:
        return {}
    return _updated({}, {}, obj, type_, replace(author, name="before-first-apply"))


def unmanaged(obj: Object) -> Object:
    """`obj` without its managedFields."""
    metadata = obj.get("metadata")
    if not metadata or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def released(managed: Managed, fields: FieldSet) -> Managed:
    """Nobody owns any of `fields`; who owns nothing is left out."""
    if not fields:
        return managed
    after = {}
    for manager, owned in managed.items():
        rest = difference(owned.fields, fields)
        if rest:
            after[manager] = owned if rest is owned.fields else replace(owned, fields=rest)
    return after


def tracked(fields: FieldSet) -> FieldSet:
    """`fields` without those that nobody owns."""
    return difference(fields, _NOT_TRACKED)


def _capped(managed: dict[Manager, Owned]) -> Managed:
    """Not more than UPDATERS_LIMIT updaters: the oldest are put together, one for each API version."""
    updaters = [manager for manager in managed if manager.operation == "Update"]
    surplus = len(updaters) - UPDATERS_LIMIT
    if surplus <= 0:
        return managed
    result = dict(managed)
    first: dict[str, Manager] = {}
    for manager in sorted(updaters, key=lambda one: (managed[one].time, one)):
        if surplus <= 0:
            break
        owned = managed[manager]
        bucket = Manager(ANCIENT_CHANGES, "Update", owned.api_version)
        if owned.api_version not in first:
            first[owned.api_version] = manager
            continue
        if bucket not in result:
            result[bucket] = result.pop(first[owned.api_version])
        result.pop(manager, None)
        result[bucket] = replace(owned, fields=union(result[bucket].fields, owned.fields))
        surplus -= 1
    return result
