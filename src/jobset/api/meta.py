"""What every Kubernetes object has: identity, owners, conditions. Pure.

Two shapes travel through this program. *Raw objects* are plain JSON mappings (`Object`) and lose nothing; *views* are
frozen msgspec structs that hold only what is read. A raw object that came from a store, a watch or a cache is shared:
never change it in place, build a new one (copy on write).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypeAlias

import msgspec

Object: TypeAlias = dict[str, Any]
"""A raw Kubernetes object, or a part of one: JSON as it travels."""


class View(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """Base of all views: unknown fields are ignored when read, absent fields have defaults."""


class OwnerReference(View, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(View, frozen=True):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that controls this object, if any."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class Condition(View, frozen=True):
    """A condition as Jobs, Pods and JobSets carry it. Times are RFC 3339 text."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""
    last_probe_time: str | None = None
    observed_generation: int | None = None


def is_true(conditions: tuple[Condition, ...] | list[Condition], type_: str) -> bool:
    return any(c.type == type_ and c.status == "True" for c in conditions)


def format_time(moment: datetime) -> str:
    """RFC 3339 in UTC with whole seconds, as metav1.Time."""
    return moment.astimezone(UTC).isoformat(timespec="seconds")[:19] + "Z"  # a tenth of what strftime takes


def format_micro_time(moment: datetime) -> str:
    """RFC 3339 in UTC with microseconds, as metav1.MicroTime."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:26] + "Z"


def parse_time(text: str) -> datetime:
    """The moment that RFC 3339 text names. Raises ValueError."""
    return datetime.fromisoformat(text).astimezone(UTC)


def controller_of(obj: Object) -> Object | None:
    """The owner reference of a raw object that controls it, if any."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return dict(owner)
    return None


def condition_of(obj: Object, type_: str) -> Object | None:
    """The condition of this type in a raw object's status, if any."""
    for condition in obj.get("status", {}).get("conditions") or ():
        if condition.get("type") == type_:
            return dict(condition)
    return None


def copy_json(value: Any) -> Any:
    """A deep copy of JSON data; three times as fast as copy.deepcopy."""
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy_json(item) for item in value]
    return value
