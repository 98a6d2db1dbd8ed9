"""Rules of Events: old ones (no eventTime) need to agree on their namespace only, new ones say who reports. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from jobset.api.errors import Cause
from jobset.api.field_errors import invalid, required
from jobset.api.meta import Object
from jobset.api.name_rules import qualified_name_problems
from jobset.cluster.model.kinds.problems import immutable, invalid_each

_NAME_MAX = 128
_NOTE_MAX = 1024
_TYPES = ("Normal", "Warning")
_OTHER_NAMESPACE = "does not match event.namespace"
_UNCHANGED = (
    "involvedObject", "reason", "reportingComponent", "reportingInstance", "action", "type", "related", "message",
)  # fmt: skip


def validate_core_event(event: Object) -> list[Cause]:
    return list(_core_problems(event, new_api=False))


def validate_event(event: Object) -> list[Cause]:
    """The rules of events.k8s.io/v1, for an Event in its stored form."""
    return list(_core_problems(event, new_api=True))


def _core_problems(event: Object, *, new_api: bool) -> Iterator[Cause]:
    namespace = event["metadata"].get("namespace", "")
    involved = (event.get("involvedObject") or {}).get("namespace", "")
    allowed = ("", "default", "kube-system") if event.get("eventTime") else ("", "default")
    if involved not in (namespace, "") or (not involved and namespace not in allowed):
        yield invalid("involvedObject.namespace", involved, _OTHER_NAMESPACE)
    if new_api and not event.get("eventTime"):
        yield required("eventTime")
    if event.get("eventTime"):
        yield from _reported_problems(event)
    if new_api and event.get("type") not in _TYPES:
        yield invalid("type", event.get("type", ""), f"has invalid value: {event.get('type', '')}")


def _reported_problems(event: Object) -> Iterator[Cause]:
    controller, instance = event.get("reportingComponent") or "", event.get("reportingInstance") or ""
    if not controller:
        yield required("reportingController")
    else:
        yield from invalid_each("reportingController", controller, qualified_name_problems(controller))
    if not instance:
        yield required("reportingInstance")
    elif len(instance) > _NAME_MAX:
        yield invalid("reportingInstance", "", f"can have at most {_NAME_MAX} characters")
    for field in ("action", "reason"):
        if not event.get(field):
            yield required(field)
        elif len(event[field]) > _NAME_MAX:
            yield invalid(field, "", f"can have at most {_NAME_MAX} characters")
    if len(event.get("message") or "") > _NOTE_MAX:
        yield invalid("message", "", f"can have at most {_NOTE_MAX} characters")


def validate_event_update(new: Object, old: Object) -> list[Cause]:
    """A series may grow; what an Event of events.k8s.io/v1 says stays."""
    return [cause for field in _UNCHANGED for cause in immutable(field, new.get(field), old.get(field))]
