"""Which resources the API service serves, each with its kind, its place in the store and its admission.

Event has two faces, core/v1 and events.k8s.io/v1, over one stored form: `inward` and `outward` translate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from jobset.api.errors import ApiError, NotFound
from jobset.api.meta import Object
from jobset.api.resources import CORE_EVENTS, CUSTOM_RESOURCE_DEFINITIONS, EVENTS, LEASES, Resource
from jobset.cluster.model.kinds.events import to_core_event, to_events_k8s_io
from jobset.cluster.model.kinds.kind import Kind, Transform, unchanged

Hook: TypeAlias = Callable[[Object], Object]
"""Changes an object that is about to be created; raises ApiError to refuse it. Never in place."""


LastStep: TypeAlias = Callable[[Object, bool], Object]
"""Completes an object that is about to be stored from what else is stored; told whether it is only a trial."""


def unserved() -> ApiError:
    return NotFound("the server could not find the requested resource")


class Admission(Protocol):
    """Defaults and rules of a custom resource beyond its schema. Both raise ApiError and give the object to store."""

    def create(self, obj: Object) -> Object: ...

    def update(self, new: Object, old: Object) -> Object: ...


@dataclass(slots=True)
class Served:
    """One served resource. `storage` is its name in the store; two resources may share one (events)."""

    kind: Kind
    storage: str
    admission: Admission | None = None
    hooks: list[Hook] = field(default_factory=list)
    terminating: bool = False
    """The definition of this resource is being deleted: nothing new is taken."""
    last_steps: list[LastStep] = field(default_factory=list)
    inward: Transform = unchanged
    """From what this resource shows to what is stored."""
    outward: Transform = unchanged

    @property
    def resource(self) -> Resource:
        return self.kind.resource

    @property
    def judged_as(self) -> Resource:
        """The resource that validation errors speak of."""
        return CORE_EVENTS if self.kind.resource == EVENTS else self.kind.resource

    @property
    def needs_version(self) -> bool:
        """Whether an update must say which version it was made from."""
        return not self.kind.definition or self.kind.resource in (LEASES, CUSTOM_RESOURCE_DEFINITIONS)


class Registry:
    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._served: dict[Resource, Served] = {}
        for kind in kinds:
            self.add(kind)

    def add(self, kind: Kind, admission: Admission | None = None) -> Served:
        """Serve a kind, or serve it differently from now on."""
        resource = kind.resource
        if resource == EVENTS:
            served = Served(kind, str(CORE_EVENTS), admission, inward=to_core_event, outward=to_events_k8s_io)
        else:
            served = Served(kind, str(resource), admission)
        self._served[resource] = served
        return served

    def remove(self, resource: Resource) -> None:
        self._served.pop(resource, None)

    def serves(self, resource: Resource) -> bool:
        return resource in self._served

    def of(self, resource: Resource) -> Served:
        served = self._served.get(resource)
        if served is None:
            raise unserved()
        return served

    def all(self) -> list[Served]:
        return list(self._served.values())
