"""Pod failure policy, success policy, and which pods are removed first."""

from typing import Any

import pytest

from cluster.job.builders import at, indexed, job, pod
from jobset.api.meta import Object, format_time
from jobset.cluster.model.job.failure_policy import rule_on
from jobset.cluster.model.job.indexes import parse_indexes
from jobset.cluster.model.job.pods import read_pod
from jobset.cluster.model.job.removal import pods_to_remove
from jobset.cluster.model.job.spec import read_spec
from jobset.cluster.model.job.success_policy import rule_met


def exit_rule(action: str, *values: int, operator: str = "In", container: str | None = None) -> Object:
    codes: Object = {"operator": operator, "values": list(values)}
    return {"action": action, "onExitCodes": codes | ({"containerName": container} if container else {})}


def condition_rule(action: str, *types: str) -> Object:
    return {"action": action, "onPodConditions": [{"type": type_, "status": "True"} for type_ in types]}


DISRUPTED = {"type": "DisruptionTarget", "status": "True"}


@pytest.mark.parametrize(
    ("rules", "failed", "action", "counted"),
    [
        ([], pod("p", "Failed"), None, True),
        ([exit_rule("Ignore", 42)], pod("p", "Failed", exit_code=42), "Ignore", False),
        ([exit_rule("Ignore", 42)], pod("p", "Failed", exit_code=1), None, True),
        ([exit_rule("FailIndex", 42)], pod("p", "Failed", exit_code=42), "FailIndex", True),
        ([exit_rule("Count", 0, operator="NotIn")], pod("p", "Failed", exit_code=3), "Count", True),
        ([exit_rule("FailJob", 0, operator="NotIn")], pod("p", "Succeeded"), None, True),
        ([exit_rule("FailJob", 1, container="other")], pod("p", "Failed"), None, True),
        ([exit_rule("FailJob", 1, container="c")], pod("p", "Failed"), "FailJob", True),
        ([exit_rule("Ignore", 1)], pod("p", "Running", deleted=True), None, True),
        ([condition_rule("Ignore", "DisruptionTarget")], pod("p", "Failed", conditions=[DISRUPTED]), "Ignore", False),
        ([condition_rule("Ignore", "DisruptionTarget")], pod("p", "Failed"), None, True),
        ([exit_rule("Ignore", 1), exit_rule("FailJob", 1)], pod("p", "Failed"), "Ignore", False),
    ],
)
def test_the_first_matching_rule_decides(rules: list[Object], failed: Object, action: Any, counted: bool) -> None:
    ruling = rule_on({"rules": rules}, failed)
    assert (ruling.action, ruling.counted) == (action, counted)


def test_a_failed_job_says_which_pod_and_rule() -> None:
    rules = [condition_rule("Ignore", "DisruptionTarget"), exit_rule("FailJob", 42)]
    by_code = rule_on({"rules": rules}, pod("p", "Failed", exit_code=42))
    assert by_code.message == "Container c for pod ns/p failed with exit code 42 matching FailJob rule at index 1"
    broken = pod("p", "Failed", conditions=[{"type": "ConfigIssue", "status": "True"}])
    by_condition = rule_on({"rules": [condition_rule("FailJob", "ConfigIssue")]}, broken)
    assert by_condition.message == "Pod ns/p has condition ConfigIssue matching FailJob rule at index 0"


@pytest.mark.parametrize(
    ("rules", "succeeded", "met"),
    [
        ([{"succeededIndexes": "0"}], "0", 0),
        ([{"succeededIndexes": "0"}], "1-3", None),
        ([{"succeededIndexes": "0-2"}], "0,1", None),
        ([{"succeededIndexes": "0,2-3", "succeededCount": 2}], "1,2", None),
        ([{"succeededIndexes": "0,2-3", "succeededCount": 2}], "1-3", 0),
        ([{"succeededCount": 2}], "0,3", 0),
        ([{"succeededCount": 3}], "0,3", None),
        ([{"succeededIndexes": "0"}, {"succeededIndexes": "2"}], "2", 1),
    ],
)
def test_success_rules(rules: list[Object], succeeded: str, met: int | None) -> None:
    assert rule_met({"rules": rules}, 5, parse_indexes(succeeded, 5)) == met


def removed(owner: Object, pods: list[Object], at_least: int) -> list[str]:
    return [gone.name for gone in pods_to_remove(read_spec(owner), [read_pod(raw) for raw in pods], at_least)]


def ready_since(seconds: float) -> Object:
    return {"type": "Ready", "status": "True", "lastTransitionTime": format_time(at(seconds))}


def test_the_least_useful_pods_go_first() -> None:
    young, old = pod("young", "Running", node="n", created_s=9), pod("old", "Running", node="n")
    ready, long_ready = pod("ready", "Running", node="n"), pod("long-ready", "Running", node="n")
    ready["status"]["conditions"] = [ready_since(50)]
    long_ready["status"]["conditions"] = [ready_since(10)]
    shaky = pod("shaky", "Running", node="n", restarts=3)
    pods = [long_ready, ready, old, young, shaky, pod("bound", node="n"), pod("unbound", "Running")]
    order = removed(job(parallelism=0), pods, len(pods))
    assert order == ["unbound", "bound", "shaky", "young", "old", "ready", "long-ready"]


def test_doublets_and_pods_without_a_valid_index_go_always() -> None:
    pods = [pod("a", "Running", 0), pod("b", "Pending", 0), pod("c", "Running", 1), pod("d", index=7), pod("e")]
    assert sorted(removed(indexed(completions=2), pods, 0)) == ["b", "d", "e"]
    assert len(removed(indexed(completions=2), pods, 4)) == 4
