"""Garbage collection: what becomes of an object whose owners are going or gone, and of an owner that waits. Pure.

Owners count by UID, never by name. The controller (controllers/garbage.py) finds owners and dependents. Decided here:

* an owner marked `orphan`: first every dependent forgets it, then it may go;
* an owner marked `foregroundDeletion`: it may go once no dependent with `blockOwnerDeletion` is left;
* a dependent with a living owner keeps that one and forgets the others; without any it is deleted, in the foreground
  when its owner waits for it and it has dependents itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from jobset.api.meta import Object
from jobset.api.resources import Resource
from jobset.core.actions import DeleteObject, PatchObject, Plan, Why

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"

OwnerState: TypeAlias = Literal["alive", "absent", "waits"]
"""waits: the owner is being deleted in the foreground, after its dependents."""

Located: TypeAlias = tuple[Resource, Object]
"""An object and the resource it was found under."""

_ORPHANED = Why("Orphaned", "The owner is deleted and leaves its dependents behind")
_DONE = Why("DependentsDone", "No dependent holds back the deletion any more")
_COLLECTED = Why("OwnerGone", "All owners are gone or wait for this object to go")
_FORGOTTEN = Why("OwnerForgotten", "Some owners are gone, others live")


class Owner(Struct, frozen=True):
    uid: str
    state: OwnerState


def owner_uids(obj: Object) -> list[str]:
    """An index: the owners of an object."""
    return [owner["uid"] for owner in obj["metadata"].get("ownerReferences") or ()]


def is_going(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def holds_for_dependents(obj: Object) -> bool:
    """Whether a deleted object stays until its dependents were seen to."""
    return is_going(obj) and not {FOREGROUND, ORPHAN}.isdisjoint(obj["metadata"].get("finalizers") or ())


def owner_state(owner: Object | None, uid: str) -> OwnerState:
    """How the object found in the owner's place stands to a reference with this UID."""
    if owner is None or owner["metadata"]["uid"] != uid:
        return "absent"
    going_first = is_going(owner) and FOREGROUND in (owner["metadata"].get("finalizers") or ())
    return "waits" if going_first else "alive"


def plan_owner(resource: Resource, owner: Object, dependents: Sequence[Located]) -> Plan:
    """One step of an owner that `holds_for_dependents`."""
    metadata = owner["metadata"]
    finalizers = metadata.get("finalizers") or []
    if ORPHAN in finalizers:
        if dependents:
            patches = [_forget(found, dependent, {metadata["uid"]}, _ORPHANED) for found, dependent in dependents]
            return Plan(actions=tuple(patches))
        return _released(resource, owner, ORPHAN)
    if any(_blocks(dependent, metadata["uid"]) for _, dependent in dependents):
        return Plan()
    return _released(resource, owner, FOREGROUND)


def plan_dependent(resource: Resource, obj: Object, owners: Sequence[Owner], *, has_dependents: bool) -> Plan:
    """What becomes of an object with these owners."""
    if is_going(obj) or not owners:
        return Plan()
    lost = {owner.uid for owner in owners if owner.state != "alive"}
    if not lost:
        return Plan()
    if any(owner.state == "alive" for owner in owners):
        return Plan(actions=(_forget(resource, obj, lost, _FORGOTTEN),))
    metadata = obj["metadata"]
    waited_for = any(owner.state == "waits" for owner in owners)
    delete = DeleteObject(
        resource,
        metadata.get("namespace", ""),
        metadata["name"],
        metadata["uid"],
        _COLLECTED,
        propagation="Foreground" if waited_for and has_dependents else _kept_policy(obj),
    )
    return Plan(actions=(delete,))


def _kept_policy(obj: Object) -> Literal["Foreground", "Background", "Orphan"]:
    """An object that was created with a policy's finalizer goes by that policy."""
    finalizers = obj["metadata"].get("finalizers") or ()
    return "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"


def _blocks(dependent: Object, uid: str) -> bool:
    owners = dependent["metadata"].get("ownerReferences") or ()
    return any(owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in owners)


def _forget(resource: Resource, obj: Object, uids: set[str], why: Why) -> PatchObject:
    metadata = obj["metadata"]
    kept = [owner for owner in metadata.get("ownerReferences") or () if owner["uid"] not in uids]
    return _patch(resource, obj, {"ownerReferences": kept or None}, why)


def _released(resource: Resource, owner: Object, finalizer: str) -> Plan:
    kept = [name for name in owner["metadata"].get("finalizers") or () if name != finalizer]
    return Plan(actions=(_patch(resource, owner, {"finalizers": kept or None}, _DONE),))


def _patch(resource: Resource, obj: Object, metadata: Object, why: Why) -> PatchObject:
    own = obj["metadata"]
    return PatchObject(
        resource,
        own.get("namespace", ""),
        own["name"],
        {"metadata": metadata},
        why,
        uid=own["uid"],
        resource_version=own["resourceVersion"],
    )
