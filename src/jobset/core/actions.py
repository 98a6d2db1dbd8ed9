"""What a pass decides: a closed union of actions, each with its reason, and the plan that holds them. Pure.

A plan is one step: no action may need another's outcome. `reconcile/apply.py` carries plans out; nothing else does.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct, field

from jobset.api.meta import Object
from jobset.api.resources import Resource


class Why(Struct, frozen=True):
    """Reason (one CamelCase word) and one sentence. Feeds the log, events, `explain` and traces."""

    reason: str
    message: str


class CreateObject(Struct, frozen=True):
    """Create `body`. Its own earlier self (AlreadyExists) is no error: the caches will show it."""

    resource: Resource
    body: Object
    why: Why
    failure_event: str = ""
    """Reason of the Warning event on the root object when the API refuses the object; empty for none."""
    success_event: str = ""
    """Reason of the Normal event on the root object, telling `why`, once it is created; empty for none."""


class PatchObject(Struct, frozen=True):
    """JSON merge patch. `uid` and `resource_version`, where given, must still hold (Conflict otherwise)."""

    resource: Resource
    namespace: str
    name: str
    patch: Object
    why: Why
    subresource: str = ""
    uid: str = ""
    resource_version: str = ""


class DeleteObject(Struct, frozen=True):
    """Delete the object with this UID and no other. Absent is success."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    why: Why
    propagation: Literal["Foreground", "Background", "Orphan"] = "Background"
    grace_period_s: int | None = None
    success_event: str = ""
    """Reason of the Normal event on the root object, telling `why`, once the deletion is asked for; empty for none."""


Action: TypeAlias = CreateObject | PatchObject | DeleteObject


class EventNote(Struct, frozen=True):
    """An event on the root object, to be sent only after the status that it tells of was written."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class Plan(Struct, frozen=True):
    """Actions valid now, the whole desired status (None: leave it), its events, and when to look again."""

    actions: tuple[Action, ...] = ()
    status: Object | None = None
    events: tuple[EventNote, ...] = field(default=())
    requeue_after_s: float | None = None
