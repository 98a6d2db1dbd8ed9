"""Discovery: which groups, versions and resources there are, in the old form (page by page) and aggregated (at once).

Made from the registry's kinds, and made again only when those change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from jobset.api.meta import Object
from jobset.api.resources import Resource
from jobset.cluster.apiserver.http.catalogue import BINDINGS, Offer, offers_of, review_offer
from jobset.cluster.apiserver.http.negotiation import clauses
from jobset.cluster.apiserver.registry import Registry
from jobset.cluster.model.kinds.kind import Kind

GroupVersion: TypeAlias = tuple[str, str]

AGGREGATED_GROUP = "apidiscovery.k8s.io"
_AGGREGATED_FORM = "APIGroupDiscoveryList"
_AGGREGATED_VERSIONS = ("v2", "v2beta1")
_OWN_GROUPS = (
    "", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "batch", "rbac.authorization.k8s.io",
    "apiextensions.k8s.io", "scheduling.k8s.io", "coordination.k8s.io", "discovery.k8s.io",
)  # fmt: skip
"""In the order in which Kubernetes prefers them; groups of custom resources follow by name."""
_VERSION = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")
_STABILITY = {None: 2, "beta": 1, "alpha": 0}


def aggregated_version(accept: str) -> str:
    """v2 or v2beta1 if a client wants everything at once, empty if not."""
    for clause in clauses(accept):
        parameters = clause.parameters
        if parameters.get("as") == _AGGREGATED_FORM and parameters.get("g") == AGGREGATED_GROUP:
            if (version := parameters.get("v", "")) in _AGGREGATED_VERSIONS:
                return version
        elif clause.media_type in ("application/json", "application/*", "*/*"):
            return ""
    return ""


def aggregated_media_type(version: str) -> str:
    return f"application/json;g={AGGREGATED_GROUP};v={version};as={_AGGREGATED_FORM}"


def version_order(version: str) -> tuple[int, int, int, str]:
    """Sorts v2 before v1 before v1beta1 before v1alpha1 before all other names."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (1, 0, 0, version)
    major, stability, minor = match.groups()
    return (0, -_STABILITY[stability], -int(major) * 1000 - int(minor or 0), version)


class Discovery:
    """`reviews`: resources that are answered instead of stored."""

    def __init__(self, registry: Registry, reviews: Iterable[Resource] = ()) -> None:
        self._registry = registry
        self._reviews = tuple(reviews)
        self._made_at = -1
        self._offers: dict[GroupVersion, list[tuple[Offer, Resource]]] = {}
        self._groups: dict[str, list[str]] = {}

    @property
    def changes(self) -> int:
        """Another number when there is something else to discover."""
        return self._registry.changes

    def group_versions(self) -> list[GroupVersion]:
        self._refresh()
        return [(group, version) for group, versions in self._groups.items() for version in versions]

    def core_versions(self, address: str) -> Object:
        server = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": server}

    def groups(self) -> Object:
        self._refresh()
        groups = [_group(name, versions) for name, versions in self._groups.items() if name]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def group(self, name: str) -> Object | None:
        self._refresh()
        versions = self._groups.get(name)
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)} if versions else None

    def resources(self, group: str, version: str) -> Object | None:
        self._refresh()
        offers = self._offers.get((group, version))
        if offers is None:
            return None
        listed: Object = {"kind": "APIResourceList"}
        if group:
            listed["apiVersion"] = "v1"
        return {**listed, "groupVersion": _joined(group, version), "resources": [_entry(offer) for offer, _ in offers]}

    def aggregated(self, api_version: str, *, core: bool) -> Object:
        """All of the core group, or all of the others."""
        self._refresh()
        items = [
            {
                "metadata": {"name": group, "creationTimestamp": None} if group else {"creationTimestamp": None},
                "versions": [
                    {"version": version, "resources": self._aggregated(group, version), "freshness": "Current"}
                    for version in versions
                ],
            }
            for group, versions in self._groups.items()
            if bool(group) is not core
        ]
        return {
            "kind": _AGGREGATED_FORM,
            "apiVersion": f"{AGGREGATED_GROUP}/{api_version}",
            "metadata": {},
            "items": items,
        }

    def _aggregated(self, group: str, version: str) -> list[Object]:
        entries: dict[str, Object] = {}
        for offer, resource in self._offers[group, version]:
            plural, _, subresource = offer.name.partition("/")
            full = bool(offer.group) or not self._is_own(group)
            kind = {
                "group": (offer.group or resource.group) if full else "",
                "version": (offer.version or resource.version) if full else "",
                "kind": offer.kind,
            }
            if not subresource:
                entries[plural] = _aggregated_entry(offer, kind)
            else:
                shown = {"subresource": subresource, "responseKind": kind, "verbs": list(offer.verbs)}
                entries[plural].setdefault("subresources", []).append(shown)
        return list(entries.values())

    def _is_own(self, group: str) -> bool:
        return group in _OWN_GROUPS

    def _refresh(self) -> None:
        if self._made_at == self._registry.changes:
            return
        self._made_at = self._registry.changes
        kinds: dict[GroupVersion, list[Kind]] = {}
        for served in self._registry.all():
            kinds.setdefault((served.resource.group, served.resource.version), []).append(served.kind)
        offers = {
            place: [(offer, kind.resource) for kind in listed for offer in offers_of(kind)]
            for place, listed in kinds.items()
        }
        bindings = Resource("", "v1", "bindings", "Binding")
        offers.setdefault(("", "v1"), []).append((BINDINGS, bindings))
        for review in self._reviews:
            offers.setdefault((review.group, review.version), []).append((review_offer(review), review))
        self._offers = {place: sorted(listed, key=lambda one: one[0].name) for place, listed in offers.items()}
        self._groups = _ordered(self._offers)


def _ordered(offers: Iterable[GroupVersion]) -> dict[str, list[str]]:
    versions: dict[str, list[str]] = {}
    for group, version in offers:
        versions.setdefault(group, []).append(version)
    rank = {group: index for index, group in enumerate(_OWN_GROUPS)}
    groups = sorted(versions, key=lambda group: (rank.get(group, len(rank)), group))
    return {group: sorted(versions[group], key=version_order) for group in groups}


def _joined(group: str, version: str) -> str:
    return f"{group}/{version}" if group else version


def _group(name: str, versions: Sequence[str]) -> Object:
    shown = [{"groupVersion": _joined(name, version), "version": version} for version in versions]
    return {"name": name, "versions": shown, "preferredVersion": shown[0]}


def _entry(offer: Offer) -> Object:
    entry: Object = {"name": offer.name, "singularName": offer.singular, "namespaced": offer.namespaced}
    if offer.group:
        entry |= {"group": offer.group, "version": offer.version}
    entry |= {"kind": offer.kind, "verbs": list(offer.verbs)}
    return entry | _optional(offer, "storageVersionHash")


def _optional(offer: Offer, hash_name: str = "") -> Object:
    shown: Object = {}
    if offer.short_names:
        shown["shortNames"] = list(offer.short_names)
    if offer.categories:
        shown["categories"] = list(offer.categories)
    if hash_name and offer.storage_hash:
        shown[hash_name] = offer.storage_hash
    return shown


def _aggregated_entry(offer: Offer, kind: Object) -> Object:
    return {
        "resource": offer.name,
        "responseKind": kind,
        "scope": "Namespaced" if offer.namespaced else "Cluster",
        "singularResource": offer.singular,
        "verbs": list(offer.verbs),
        **_optional(offer),
    }
