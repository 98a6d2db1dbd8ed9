"""Which taints of a node a pod tolerates. Pure. A cordoned node counts as one with the taint that goes with it."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from jobset.api.meta import Object

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"


class Taint(Struct, frozen=True):
    key: str
    value: str
    effect: str

    @classmethod
    def of(cls, taint: Object) -> Taint:
        return cls(taint.get("key", ""), taint.get("value") or "", taint.get("effect", ""))


class Toleration(Struct, frozen=True):
    """Empty key with Exists tolerates every key; empty effect every effect."""

    key: str
    operator: str
    value: str
    effect: str

    @classmethod
    def of(cls, toleration: Object) -> Toleration:
        return cls(
            toleration.get("key") or "",
            toleration.get("operator") or "Equal",
            toleration.get("value") or "",
            toleration.get("effect") or "",
        )

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or (bool(self.key) and self.value == taint.value)


CORDON = Taint(UNSCHEDULABLE, "", "NoSchedule")


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(toleration.tolerates(taint) for toleration in tolerations)


def forbidding_taint(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """The first taint that keeps a pod with these tolerations away (NoSchedule or NoExecute), if any."""
    for taint in taints:
        if taint.effect != "PreferNoSchedule" and not tolerated(taint, tolerations):
            return taint
    return None


def discouraging_taints(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> int:
    """How many PreferNoSchedule taints the pod does not tolerate."""
    return sum(1 for taint in taints if taint.effect == "PreferNoSchedule" and not tolerated(taint, tolerations))
