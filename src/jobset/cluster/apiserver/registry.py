"""Which resources the API service serves, each with its kind, its place in the store and its admission."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from jobset.api.errors import NotFound
from jobset.api.meta import Object
from jobset.api.resources import CORE_EVENTS, EVENTS, Resource
from jobset.cluster.model.kinds.kind import Kind

Hook: TypeAlias = Callable[[Object], Object]
"""Changes an object that is about to be created; raises ApiError to refuse it. Never in place."""


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

    @property
    def resource(self) -> Resource:
        return self.kind.resource


class Registry:
    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._served: dict[Resource, Served] = {}
        for kind in kinds:
            self.add(kind)

    def add(self, kind: Kind, admission: Admission | None = None) -> Served:
        """Serve a kind, or serve it differently from now on."""
        resource = kind.resource
        storage = str(CORE_EVENTS) if resource == EVENTS else str(resource)
        served = self._served[resource] = Served(kind, storage, admission)
        return served

    def remove(self, resource: Resource) -> None:
        self._served.pop(resource, None)

    def of(self, resource: Resource) -> Served:
        served = self._served.get(resource)
        if served is None:
            raise NotFound("the server could not find the requested resource")
        return served

    def all(self) -> list[Served]:
        return list(self._served.values())
