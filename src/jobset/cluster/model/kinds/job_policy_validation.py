"""Rules of a Job's podFailurePolicy and successPolicy. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from jobset.api.errors import Cause
from jobset.api.field_errors import duplicate, invalid, not_supported, required, too_many
from jobset.api.meta import Object
from jobset.api.name_rules import qualified_name_problems
from jobset.cluster.model.kinds.job_status_validation import index_intervals
from jobset.cluster.model.kinds.problems import invalid_each, not_negative

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_FAILURE_RULES_MAX = 20
_SUCCESS_RULES_MAX = 20
_EXIT_CODES_MAX = 255
_PATTERNS_MAX = 20
_INDEXES_LENGTH_MAX = 64 * 1024
_FAILURE = "spec.podFailurePolicy"
_SUCCESS = "spec.successPolicy"


def validate_failure_policy(spec: Object) -> Iterator[Cause]:
    rules = spec["podFailurePolicy"].get("rules") or []
    if len(rules) > _FAILURE_RULES_MAX:
        yield too_many(f"{_FAILURE}.rules", len(rules), _FAILURE_RULES_MAX)
    pod = spec["template"]["spec"]
    names = {one.get("name") for key in ("containers", "initContainers") for one in pod.get(key) or ()}
    for index, rule in enumerate(rules):
        yield from _validate_failure_rule(rule, f"{_FAILURE}.rules[{index}]", spec, names)


def _validate_failure_rule(rule: Object, path: str, spec: Object, names: set[str | None]) -> Iterator[Cause]:
    action, codes, patterns = rule.get("action") or "", rule.get("onExitCodes"), rule.get("onPodConditions")
    if not action:
        yield required(f"{path}.action", f"valid values: {', '.join(_ACTIONS)}")
    elif action not in _ACTIONS:
        yield not_supported(f"{path}.action", action, _ACTIONS)
    elif action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        yield invalid(f"{path}.action", action, "requires the backoffLimitPerIndex to be set")
    if codes is not None:
        yield from _validate_exit_codes(codes, f"{path}.onExitCodes", names)
    if patterns:
        yield from _validate_patterns(patterns, f"{path}.onPodConditions")
    if codes is not None and patterns:
        yield invalid(path, "", "specifying both OnExitCodes and OnPodConditions is not supported")
    if codes is None and not patterns:
        yield invalid(path, "", "specifying one of OnExitCodes and OnPodConditions is required")


def _validate_exit_codes(codes: Object, path: str, names: set[str | None]) -> Iterator[Cause]:
    operator, values = codes.get("operator") or "", codes.get("values") or []
    if not operator:
        yield required(f"{path}.operator", f"valid values: {', '.join(_OPERATORS)}")
    elif operator not in _OPERATORS:
        yield not_supported(f"{path}.operator", operator, _OPERATORS)
    container = codes.get("containerName")
    if container is not None and container not in names:
        detail = "must be one of the container or initContainer names in the pod template"
        yield invalid(f"{path}.containerName", container, detail)
    if not values:
        yield invalid(f"{path}.values", values, "at least one value is required")
    elif len(values) > _EXIT_CODES_MAX:
        yield too_many(f"{path}.values", len(values), _EXIT_CODES_MAX)
    seen: set[int] = set()
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            yield invalid(f"{path}.values[{index}]", value, "must not be 0 for the In operator")
        if value in seen:
            yield duplicate(f"{path}.values[{index}]", value)
        seen.add(value)
    if values != sorted(values):
        yield invalid(f"{path}.values", values, "must be ordered")


def _validate_patterns(patterns: list[Object], path: str) -> Iterator[Cause]:
    if len(patterns) > _PATTERNS_MAX:
        yield too_many(path, len(patterns), _PATTERNS_MAX)
    for index, pattern in enumerate(patterns):
        here, type_, status = f"{path}[{index}]", pattern.get("type") or "", pattern.get("status") or ""
        yield from invalid_each(f"{here}.type", type_, qualified_name_problems(type_))
        if not status:
            yield required(f"{here}.status", f"valid values: {', '.join(_STATUSES)}")
        elif status not in _STATUSES:
            yield not_supported(f"{here}.status", status, _STATUSES)


def validate_success_policy(spec: Object) -> Iterator[Cause]:
    policy = spec["successPolicy"]
    if spec.get("completionMode") != "Indexed":
        yield invalid(_SUCCESS, policy, "requires indexed completion mode")
        return
    rules = policy.get("rules") or []
    if not rules:
        yield required(f"{_SUCCESS}.rules", "at least one rules must be specified when the successPolicy is specified")
    if len(rules) > _SUCCESS_RULES_MAX:
        yield too_many(f"{_SUCCESS}.rules", len(rules), _SUCCESS_RULES_MAX)
    for index, rule in enumerate(rules):
        yield from _validate_success_rule(rule, f"{_SUCCESS}.rules[{index}]", spec.get("completions") or 0)


def _validate_success_rule(rule: Object, path: str, completions: int) -> Iterator[Cause]:
    indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    if indexes is None and count is None:
        yield required(path, "at least one of succeededCount or succeededIndexes must be specified")
    total = 0
    if indexes is not None:
        if len(indexes) > _INDEXES_LENGTH_MAX:
            detail = f"must have at most {_INDEXES_LENGTH_MAX} bytes"
            yield Cause("FieldValueTooLong", f"Too long: {detail}", f"{path}.succeededIndexes")
        try:
            total = sum(last - first + 1 for first, last in index_intervals(indexes, completions))
        except ValueError as problem:
            yield invalid(f"{path}.succeededIndexes", indexes, f"error parsing succeededIndexes: {problem}")
    if count is None:
        return
    yield from not_negative(f"{path}.succeededCount", count)
    if count > completions:
        detail = f"must be less than or equal to {completions} (the number of specified completions)"
        yield invalid(f"{path}.succeededCount", count, detail)
    if indexes is not None and count > total:
        detail = (
            f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        )
        yield invalid(f"{path}.succeededCount", count, detail)
