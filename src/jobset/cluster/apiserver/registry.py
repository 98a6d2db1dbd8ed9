"""Which resources the API service serves, each with its kind, its place in the store and its admission.

Event has two faces, core/v1 and events.k8s.io/v1, over one stored form: `inward` and `outward` translate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

from msgspec import Struct, field

from jobset.api.errors import ApiError, NotFound
from jobset.api.meta import Object
from jobset.api.resources import CORE_EVENTS, CUSTOM_RESOURCE_DEFINITIONS, EVENTS, LEASES, Resource
from jobset.cluster.apiserver.merge_types import MergeType, merge_type_of_custom, merge_type_of_definition
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


class Served(Struct):
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
    _merge_type: MergeType | None = None

    @property
    def merge_type(self) -> MergeType:
        """How values of this kind merge when they are applied; compiled when it is needed first."""
        if self._merge_type is None:
            kind = self.kind
            of_kubernetes = merge_type_of_definition(kind.definition) if kind.definition else None
            self._merge_type = of_kubernetes or merge_type_of_custom(kind.schema)
        return self._merge_type

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
        self._by_path: dict[tuple[str, str, str], Served] = {}
        self._admissions: dict[Resource, Admission] = {}
        self.changes = 0
        """Counts what was added or removed, for those who keep something made from all of it."""
        for kind in kinds:
            self.add(kind)

    def add(self, kind: Kind, admission: Admission | None = None) -> Served:
        """Serve a kind, or serve it differently from now on."""
        resource = kind.resource
        admission = admission or self._admissions.get(resource)
        if resource == EVENTS:
            served = Served(kind, str(CORE_EVENTS), admission, inward=to_core_event, outward=to_events_k8s_io)
        else:
            served = Served(kind, str(resource), admission)
        self._served[resource] = served
        self._by_path[resource.group, resource.version, resource.plural] = served
        self.changes += 1
        return served

    def admit(self, resource: Resource, admission: Admission) -> None:
        """Admit the objects of this resource by these rules, now or as soon as it is served."""
        self._admissions[resource] = admission
        if resource in self._served:
            self._served[resource].admission = admission

    def remove(self, resource: Resource) -> None:
        if self._served.pop(resource, None) is not None:
            del self._by_path[resource.group, resource.version, resource.plural]
            self.changes += 1

    def serves(self, resource: Resource) -> bool:
        return resource in self._served

    def of(self, resource: Resource) -> Served:
        served = self._served.get(resource)
        if served is None:
            raise unserved()
        return served

    def find(self, group: str, version: str, plural: str) -> Served | None:
        """The resource that a path names."""
        return self._by_path.get((group, version, plural))

    def all(self) -> list[Served]:
        return list(self._served.values())
