"""Pod affinity and anti-affinity: which topology domains a pod must share, must avoid, or would like to share. Pure.

A domain is the set of nodes with one value of a label, the topology key. To answer for one domain without looking at
all pods, `PodIndex` keeps the placed pods by (topology key, domain, one label that selectors name, its value), and
`TermIndex` keeps the anti-affinity terms of placed pods by the domain in which they hold. Both start empty and fill
only with the topology keys and labels that somebody asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, TypeAlias

from msgspec import Struct

from jobset.api.meta import Object
from jobset.api.selectors import LabelSelector, Requirement, label_selector_of

Labels: TypeAlias = Mapping[str, str]
Namespaces: TypeAlias = Mapping[str, Labels]
"""The labels of each namespace."""


class LabelledPod(Protocol):
    """What terms look at in a pod."""

    @property
    def uid(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def labels(self) -> Labels: ...


class IndexedSelector(Struct, frozen=True, eq=False):
    """A label selector taken apart for `PodIndex`: the label to look up, what is asked of it, and all else.

    The label is one that must be there, a given value of it preferred; empty when the selector names none.
    """

    whole: LabelSelector
    label: str
    here: LabelSelector
    rest: LabelSelector
    values: tuple[str, ...] | None
    """The values that the label may have, if the selector lists them."""

    @classmethod
    def of(cls, selector: LabelSelector) -> IndexedSelector:
        sure = [r for operator in ("In", "Exists") for r in selector.requirements if r.operator == operator]
        label = sure[0].key if sure else ""
        here = tuple(requirement for requirement in selector.requirements if requirement.key == label)
        rest = tuple(requirement for requirement in selector.requirements if requirement.key != label)
        values = tuple(sorted(sure[0].values)) if sure and sure[0].operator == "In" else None
        return cls(selector, label, LabelSelector(here), LabelSelector(rest), values)

    def matches(self, labels: Labels) -> bool:
        return self.whole.matches(labels)


class Term(Struct, frozen=True, eq=False):
    """One affinity term. Compared by identity: pods with equal specs share their terms."""

    topology_key: str
    selector: IndexedSelector | None
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None
    weight: int = 0

    @classmethod
    def of(cls, term: Object, namespace: str, labels: Labels, weight: int = 0) -> Term:
        """`namespace` and `labels` are those of the pod that carries the term."""
        namespaces = frozenset(term.get("namespaces") or ())
        namespace_selector = label_selector_of(term.get("namespaceSelector"))
        if not namespaces and namespace_selector is None:
            namespaces = frozenset((namespace,))
        selector = label_selector_of(term.get("labelSelector"))
        selector = with_label_keys(selector, labels, term.get("matchLabelKeys"), term.get("mismatchLabelKeys"))
        indexed = None if selector is None else IndexedSelector.of(selector)
        return cls(term["topologyKey"], indexed, namespaces, namespace_selector, weight)

    def selects(self, pod: LabelledPod, namespaces: Namespaces) -> bool:
        if self.selector is None or not self.selector.matches(pod.labels):
            return False
        return self.covers(pod.namespace, namespaces)

    def covers(self, namespace: str, namespaces: Namespaces) -> bool:
        if namespace in self.namespaces:
            return True
        return self.namespace_selector is not None and self.namespace_selector.matches(namespaces.get(namespace))


def with_label_keys(
    selector: LabelSelector | None, labels: Labels, match: Iterable[str] | None, mismatch: Iterable[str] | None = None
) -> LabelSelector | None:
    """The selector narrowed to pods with (or without) the same values of these labels. Absent labels do not count."""
    if selector is None or not (match or mismatch):
        return selector
    same = [Requirement(key, "In", frozenset((labels[key],))) for key in match or () if key in labels]
    other = [Requirement(key, "NotIn", frozenset((labels[key],))) for key in mismatch or () if key in labels]
    return LabelSelector((*selector.requirements, *same, *other))


class PodAffinity(Struct, frozen=True):
    """The terms of one pod spec."""

    required: tuple[Term, ...] = ()
    required_apart: tuple[Term, ...] = ()
    preferred: tuple[Term, ...] = ()
    """Anti-affinity that is only preferred is here too, with negative weights."""

    @classmethod
    def of(cls, affinity: Object, namespace: str, labels: Labels) -> PodAffinity:
        together, apart = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        preferred = "preferredDuringSchedulingIgnoredDuringExecution"
        return cls(
            tuple(Term.of(term, namespace, labels) for term in together.get(required) or ()),
            tuple(Term.of(term, namespace, labels) for term in apart.get(required) or ()),
            tuple(
                Term.of(weighted["podAffinityTerm"], namespace, labels, sign * weighted["weight"])
                for sign, terms in ((1, together.get(preferred) or ()), (-1, apart.get(preferred) or ()))
                for weighted in terms
            ),
        )

    def __bool__(self) -> bool:
        return bool(self.required or self.required_apart or self.preferred)


NO_POD_AFFINITY = PodAffinity()

_ByValue: TypeAlias = "dict[str, dict[str, LabelledPod]]"
_Tables: TypeAlias = "dict[str | None, _ByValue]"
"""domain (None: any domain) -> label value -> uid -> pod"""


class PodIndex:
    """Placed pods by topology domain and label, for the pairs of topology key and label asked for so far."""

    def __init__(self) -> None:
        self._tables: dict[tuple[str, str], _Tables] = {}

    def add(self, pod: LabelledPod, node_labels: Labels) -> None:
        for (topology_key, label), table in self._tables.items():
            domain = node_labels.get(topology_key)
            value = pod.labels.get(label) if label else ""
            if domain is not None and value is not None:
                for place in (domain, None):
                    table.setdefault(place, {}).setdefault(value, {})[pod.uid] = pod

    def remove(self, pod: LabelledPod, node_labels: Labels) -> None:
        for (topology_key, label), table in self._tables.items():
            domain = node_labels.get(topology_key)
            value = pod.labels.get(label) if label else ""
            if domain is None or value is None:
                continue
            for place in (domain, None):
                by_value = table.get(place, {})
                pods = by_value.get(value, {})
                pods.pop(pod.uid, None)
                if not pods:
                    by_value.pop(value, None)
                if not by_value:
                    table.pop(place, None)

    def knows(self, topology_key: str, label: str) -> bool:
        return (topology_key, label) in self._tables

    def learn(self, topology_key: str, label: str, placed: Iterable[tuple[LabelledPod, Labels]]) -> None:
        """Index the pods already placed by this pair, from now on."""
        fresh = PodIndex()
        fresh._tables[topology_key, label] = {}
        for pod, node_labels in placed:
            fresh.add(pod, node_labels)
        self._tables[topology_key, label] = fresh._tables[topology_key, label]

    def matching(self, topology_key: str, domain: str | None, selector: IndexedSelector) -> Iterator[LabelledPod]:
        """The pods of a domain (None: of any domain of this key) whose labels match. The index must know the pair."""
        by_value = self._tables[topology_key, selector.label].get(domain)
        if not by_value:
            return
        for value in by_value if selector.values is None else selector.values:
            pods = by_value.get(value)
            if pods and selector.here.matches({selector.label: value}):
                for pod in pods.values():
                    if selector.rest.matches(pod.labels):
                        yield pod


class TermIndex:
    """Terms of placed pods by the domain in which they hold, with the pods that carry them."""

    def __init__(self) -> None:
        self._terms: dict[str, dict[str, dict[Term, set[str]]]] = {}
        self._carriers: dict[Term, int] = {}

    def add(self, terms: Iterable[Term], uid: str, node_labels: Labels) -> None:
        for term in terms:
            domain = node_labels.get(term.topology_key)
            if domain is not None:
                domains = self._terms.setdefault(term.topology_key, {})
                domains.setdefault(domain, {}).setdefault(term, set()).add(uid)
                self._carriers[term] = self._carriers.get(term, 0) + 1

    def remove(self, terms: Iterable[Term], uid: str, node_labels: Labels) -> None:
        for term in terms:
            domain = node_labels.get(term.topology_key)
            if domain is None:
                continue
            domains = self._terms[term.topology_key]
            domains[domain][term].discard(uid)
            self._carriers[term] -= 1
            if not self._carriers[term]:
                del self._carriers[term]
            if not domains[domain][term]:
                del domains[domain][term]
            if not domains[domain]:
                del domains[domain]
            if not domains:
                del self._terms[term.topology_key]

    @property
    def topology_keys(self) -> list[str]:
        return list(self._terms)

    def holding(self, topology_key: str, domain: str) -> Iterator[tuple[Term, set[str]]]:
        """The terms that hold in a domain, each with the UIDs of the pods that carry it."""
        yield from self._terms.get(topology_key, {}).get(domain, {}).items()

    def distinct(self) -> Iterable[Term]:
        """Every term once, wherever it holds."""
        return self._carriers.keys()
