"""Event: one stored kind with two faces, core/v1 and events.k8s.io/v1. Pure.

The store holds core/v1; the API service turns what the events.k8s.io face receives with `to_core_event` and what it
answers with `to_events_k8s_io`.
"""

from __future__ import annotations

from typing import Any

from jobset.api.errors import Cause
from jobset.api.meta import Object
from jobset.api.resources import CORE_EVENTS, EVENTS
from jobset.cluster.model.kinds.copy_on_write import fill, put
from jobset.cluster.model.kinds.event_validation import validate_core_event, validate_event, validate_event_update
from jobset.cluster.model.kinds.kind import Kind

_CORE_ABSENT: Object = {
    "involvedObject": {}, "source": {}, "reportingComponent": "", "reportingInstance": "",
}  # fmt: skip
_CORE_TIMES = ("eventTime", "firstTimestamp", "lastTimestamp")
_TO_NEW = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_TO_CORE = {new: core for core, new in _TO_NEW.items()}
_DROPPED_WHEN_EMPTY_IN_NEW = ("reportingController", "reportingInstance", "regarding")


def default_core_event(event: Object) -> Object:
    event = fill(event, _CORE_ABSENT)
    return {**dict.fromkeys(_CORE_TIMES), **event} if any(key not in event for key in _CORE_TIMES) else event


def to_core_event(event: Object) -> Object:
    """An events.k8s.io/v1 Event as core/v1."""
    core: dict[str, Any] = {_TO_CORE.get(key, key): value for key, value in event.items()}
    return default_core_event(put(core, "apiVersion", "v1"))


def to_events_k8s_io(event: Object) -> Object:
    """A core/v1 Event as events.k8s.io/v1."""
    new: dict[str, Any] = {_TO_NEW.get(key, key): value for key, value in default_core_event(event).items()}
    kept = {key: value for key, value in new.items() if value or key not in _DROPPED_WHEN_EMPTY_IN_NEW}
    return put(kept, "apiVersion", EVENTS.api_version)


CORE_EVENT = Kind(
    resource=CORE_EVENTS,
    definition="io.k8s.api.core.v1.Event",
    default=default_core_event,
    validate=validate_core_event,
    generation=False,
    creates_on_update=True,
    field_selectors=(
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    short_names=("ev",),
)


def _validate_new(event: Object) -> list[Cause]:
    return validate_event(to_core_event(event))


def _validate_new_update(new: Object, old: Object) -> list[Cause]:
    return validate_event_update(to_core_event(new), to_core_event(old))


EVENT = Kind(
    resource=EVENTS,
    definition="io.k8s.api.events.v1.Event",
    validate=_validate_new,
    validate_update=_validate_new_update,
    generation=False,
    creates_on_update=True,
    field_selectors=tuple(path.replace("involvedObject.", "regarding.") for path in CORE_EVENT.field_selectors),
    short_names=("ev",),
)
