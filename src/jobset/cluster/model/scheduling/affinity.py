"""Node selectors and node affinity: which nodes a pod may go to and which it prefers. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from jobset.api.meta import Object
from jobset.api.selectors import Requirement


class NodeSelectorTerm(Struct, frozen=True):
    """All expressions (on labels) and fields (on metadata.name) must hold. A term without any matches no node."""

    expressions: tuple[Requirement, ...]
    fields: tuple[Requirement, ...]

    @classmethod
    def of(cls, term: Object) -> NodeSelectorTerm:
        return cls(_requirements(term.get("matchExpressions")), _requirements(term.get("matchFields")))

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        if not self.expressions and not self.fields:
            return False
        return all(requirement.matches(labels) for requirement in self.expressions) and all(
            requirement.matches({"metadata.name": name}) for requirement in self.fields
        )


class NodeAffinity(Struct, frozen=True):
    """`selector` is the plain node selector. `required` is None without required terms; one of them must match."""

    selector: tuple[tuple[str, str], ...] = ()
    required: tuple[NodeSelectorTerm, ...] | None = None
    preferred: tuple[tuple[int, NodeSelectorTerm], ...] = ()

    @classmethod
    def of(cls, node_selector: Object | None, affinity: Object | None) -> NodeAffinity:
        affinity = affinity or {}
        required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
        preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        return cls(
            tuple(sorted((node_selector or {}).items())),
            None if required is None else required_terms(required),
            tuple((term.get("weight", 0), NodeSelectorTerm.of(term.get("preference") or {})) for term in preferred),
        )

    def allows(self, name: str, labels: Mapping[str, str]) -> bool:
        for key, value in self.selector:
            if labels.get(key) != value:
                return False
        return self.required is None or any(term.matches(name, labels) for term in self.required)

    def preference(self, name: str, labels: Mapping[str, str]) -> int:
        """The sum of the weights of the preferred terms that match."""
        total = 0
        for weight, term in self.preferred:
            if term.matches(name, labels):
                total += weight
        return total


def required_terms(selector: Object) -> tuple[NodeSelectorTerm, ...]:
    """The alternatives of a NodeSelector object, as pods and persistent volumes carry it."""
    return tuple(NodeSelectorTerm.of(term) for term in selector.get("nodeSelectorTerms") or ())


def _requirements(expressions: list[Object] | None) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(expression["key"], expression["operator"], frozenset(expression.get("values") or ()))
        for expression in expressions or ()
    )
