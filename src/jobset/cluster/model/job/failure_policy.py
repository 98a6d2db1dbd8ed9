"""What spec.podFailurePolicy says of a failed pod: the first rule that matches decides. Pure (KEP-3329)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias, cast

from msgspec import Struct

from jobset.api.meta import Object

RuleAction: TypeAlias = Literal["FailJob", "FailIndex", "Ignore", "Count"]


class Ruling(Struct, frozen=True):
    """`counted`: whether the failure counts towards the back-off limits. `message` is set for FailJob only."""

    action: RuleAction | None = None
    counted: bool = True
    message: str = ""


COUNTED = Ruling()


def rule_on(policy: Object | None, pod: Object) -> Ruling:
    """The ruling on a raw pod; one that no rule matches is counted."""
    for position, rule in enumerate((policy or {}).get("rules") or ()):
        found = _match(rule, pod)
        if found is None:
            continue
        action = cast("RuleAction", rule["action"])
        message = f"{found} matching {action} rule at index {position}" if action == "FailJob" else ""
        return Ruling(action, action != "Ignore", message)
    return COUNTED


def _match(rule: Object, pod: Object) -> str | None:
    """What about the pod matches, as the start of a sentence."""
    status, metadata = pod.get("status", {}), pod["metadata"]
    name = f"{metadata['namespace']}/{metadata['name']}"
    if codes := rule.get("onExitCodes"):
        for statuses in (status.get("containerStatuses"), status.get("initContainerStatuses")):
            if found := _container_with_code(statuses or (), codes):
                code = found["state"]["terminated"]["exitCode"]
                return f"Container {found['name']} for pod {name} failed with exit code {code}"
        return None
    patterns = {(pattern["type"], pattern.get("status", "True")) for pattern in rule.get("onPodConditions") or ()}
    for condition in status.get("conditions") or ():
        if (condition["type"], condition["status"]) in patterns:
            return f"Pod {name} has condition {condition['type']}"
    return None


def _container_with_code(statuses: Iterable[Object], codes: Object) -> Object | None:
    for container in statuses:
        if codes.get("containerName") not in (None, container["name"]):
            continue
        code = ((container.get("state") or {}).get("terminated") or {}).get("exitCode", 0)
        if code != 0 and (code in codes["values"]) is (codes["operator"] == "In"):
            return container
    return None
