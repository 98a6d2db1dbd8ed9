"""What the API server must know of a kind: its schema, defaults, rules and which parts a client may change. Pure.

The API service (cluster/apiserver) calls these in the order of a request: structure by schema, `default`, `prepare_*`,
`validate` or `validate_update`. All functions take and give raw objects and never change their arguments; a function
with nothing to do returns the very object it was given, so that unchanged objects keep being shared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct, field

from jobset.api.errors import Cause
from jobset.api.meta import Object
from jobset.api.resources import Resource
from jobset.api.schema import Schema

Transform: TypeAlias = Callable[[Object], Object]
UpdateTransform: TypeAlias = Callable[[Object, Object], Object]
"""(new, old) -> new"""
Check: TypeAlias = Callable[[Object], list[Cause]]
UpdateCheck: TypeAlias = Callable[[Object, Object], list[Cause]]
"""(new, old) -> problems"""
NameRule: TypeAlias = Literal["dns-subdomain", "dns-label", "dns-label-1035", "path-segment"]


def unchanged(obj: Object) -> Object:
    return obj


def no_problems(_: Object) -> list[Cause]:
    return []


def no_unknown_fields(_: Object) -> list[str]:
    return []


def accept_update(_new: Object, _old: Object) -> list[Cause]:
    return []


def keep_new(new: Object, _old: Object) -> Object:
    return new


class Subresource(Struct, frozen=True):
    """A subresource written through PUT and PATCH of the whole object, such as status.

    `merge(new, old)` takes from `new` only what the subresource may change.
    """

    merge: UpdateTransform
    validate_update: UpdateCheck = accept_update


class Column(Struct, frozen=True):
    """A column of a custom resource's table: the value at a JSONPath such as .spec.replicas."""

    name: str
    type: str
    json_path: str
    format: str = ""
    description: str = ""
    priority: int = 0


class ScalePaths(Struct, frozen=True):
    """Where a custom resource keeps its replicas and its selector, as paths such as .spec.replicas."""

    spec_replicas: str
    status_replicas: str
    selector: str = ""


class Kind(Struct, frozen=True):
    """One kind as the API server handles it. `definition` names its schema in api/schema.py; empty for none."""

    resource: Resource
    definition: str = ""
    schema: Schema = field(default_factory=dict)
    """The schema itself, of a kind that is no Kubernetes definition."""
    default: Transform = unchanged
    """Fill in defaults, on create and on every update."""
    prepare_create: Transform = unchanged
    """After name, uid and creation time are set: drop what clients may not set, derive fields such as a selector."""
    prepare_update: UpdateTransform = keep_new
    """Put back what the main resource may not change (status)."""
    validate: Check = no_problems
    """All problems of a new object (metadata is the service's to check)."""
    validate_update: UpdateCheck = accept_update
    """All problems of a change, those of the new object included."""
    warnings: Callable[[Object], list[str]] | None = None
    """What to tell whoever writes an object that is in order."""
    subresources: dict[str, Subresource] = field(default_factory=dict)
    generation: bool = True
    """Whether metadata.generation counts changes outside metadata and status."""
    graceful: bool = False
    """Whether deletion waits for the node's agent to confirm it (pods)."""
    creates_on_update: bool = False
    """Whether PUT of an absent object creates it."""
    orphans_by_default: bool = False
    """Whether DELETE without a policy orphans dependents (jobs)."""
    name_rule: NameRule = "dns-subdomain"
    field_selectors: tuple[str, ...] = ()
    """Paths that field selectors may use besides metadata.name and metadata.namespace."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    unknown_fields: Callable[[Object], list[str]] = no_unknown_fields
    """Custom resources: paths of the fields that the schema does not have. `default` prunes them."""
    columns: tuple[Column, ...] = ()
    scale: ScalePaths | None = None
