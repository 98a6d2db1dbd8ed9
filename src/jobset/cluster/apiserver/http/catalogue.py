"""What can be asked of each resource: its verbs and subresources. Discovery tells it, requests are held to it. Pure."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from jobset.api.resources import NAMESPACES, PODS, SERVICE_ACCOUNTS, Resource
from jobset.cluster.model.kinds.kind import Kind

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_WRITTEN_AS_A_WHOLE = ("get", "patch", "update")
_STREAM = ("create", "get")


@dataclass(frozen=True, slots=True)
class Offer:
    """One resource or, with a slash in `name`, one subresource."""

    name: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""
    """Group and version of the kind, where they are not those of the resource."""
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    storage_hash: str = ""


_POD_SUBRESOURCES = (
    Offer("pods/attach", "PodAttachOptions", True, _STREAM),
    Offer("pods/binding", "Binding", True, ("create",)),
    Offer("pods/eviction", "Eviction", True, ("create",), "policy", "v1"),
    Offer("pods/exec", "PodExecOptions", True, _STREAM),
    Offer("pods/log", "Pod", True, ("get",)),
    Offer("pods/portforward", "PodPortForwardOptions", True, _STREAM),
)
_TOKEN = Offer("serviceaccounts/token", "TokenRequest", True, ("create",), "authentication.k8s.io", "v1")
_BESIDES = {PODS: _POD_SUBRESOURCES, SERVICE_ACCOUNTS: (_TOKEN,)}
BINDINGS = Offer("bindings", "Binding", True, ("create",), singular="binding")
"""The resource that binds pods without naming them in the path."""


@lru_cache(maxsize=256)
def _storage_hash(resource: Resource) -> str:
    """Changes with the version that objects are stored in."""
    text = f"{resource.group}/{resource.version}/{resource.kind}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def offers_of(kind: Kind) -> list[Offer]:
    """The resource itself first, then its subresources by name."""
    resource = kind.resource
    verbs: tuple[str, ...] = ALL_VERBS if kind.definition else _CUSTOM_VERBS
    if resource == NAMESPACES:
        verbs = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")
    main = Offer(
        resource.plural,
        resource.kind,
        resource.namespaced,
        verbs,
        singular=resource.kind.lower(),
        short_names=kind.short_names,
        categories=kind.categories,
        storage_hash=_storage_hash(resource),
    )
    return [main, *sorted(_subresources(kind), key=lambda offer: offer.name)]


def _subresources(kind: Kind) -> Iterable[Offer]:
    resource = kind.resource
    yield from _BESIDES.get(resource, ())
    for name in kind.subresources:
        verbs = ("update",) if name == "finalize" else _WRITTEN_AS_A_WHOLE
        yield Offer(f"{resource.plural}/{name}", resource.kind, resource.namespaced, verbs)
    if kind.scale is not None:
        yield Offer(f"{resource.plural}/scale", "Scale", resource.namespaced, _WRITTEN_AS_A_WHOLE, "autoscaling", "v1")


def review_offer(resource: Resource) -> Offer:
    """A resource that can only be created, and is answered instead of stored."""
    return Offer(resource.plural, resource.kind, resource.namespaced, ("create",), singular=resource.kind.lower())
