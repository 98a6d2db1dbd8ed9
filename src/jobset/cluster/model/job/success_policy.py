"""Whether the succeeded indexes meet a rule of spec.successPolicy. Pure (KEP-3998)."""

from __future__ import annotations

from jobset.api.meta import Object
from jobset.cluster.model.job.indexes import Indexes, parse_indexes


def rule_met(policy: Object | None, completions: int, succeeded: Indexes) -> int | None:
    """The position of the first rule that is met."""
    if not succeeded.intervals:
        return None
    for position, rule in enumerate((policy or {}).get("rules") or ()):
        if _is_met(rule, completions, succeeded):
            return position
    return None


def _is_met(rule: Object, completions: int, succeeded: Indexes) -> bool:
    wanted, needed = rule.get("succeededIndexes"), rule.get("succeededCount")
    if wanted is None:
        return needed is not None and len(succeeded) >= needed
    indexes = parse_indexes(wanted, completions)
    return succeeded.common(indexes) >= (len(indexes) if needed is None else needed)
