"""What is wrong with a Job, what may change of it, and what its status may say."""

from __future__ import annotations

from typing import Any

import pytest

from jobset.api.meta import Object
from jobset.cluster.model.kinds.job_status_validation import index_intervals
from jobset.cluster.model.kinds.jobs import JOB

REQUIRED, INVALID, NOT_SUPPORTED = "FieldValueRequired", "FieldValueInvalid", "FieldValueNotSupported"
IMMUTABLE = INVALID
TEMPLATE: Object = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x:1"}]}}
INDEXED: Object = {"completionMode": "Indexed", "completions": 4, "parallelism": 4}
FAILURE_POLICY: Object = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}]}


def job(**spec: Any) -> Object:
    metadata = {"name": "j", "namespace": "default", "uid": "u"}
    return JOB.prepare_create(JOB.default({"metadata": metadata, "spec": {"template": TEMPLATE, **spec}}))


CASES: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    ({}, []),
    (INDEXED, []),
    ({"parallelism": -1, "backoffLimit": -1}, [("spec.parallelism", INVALID), ("spec.backoffLimit", INVALID)]),
    ({"ttlSecondsAfterFinished": -1}, [("spec.ttlSecondsAfterFinished", INVALID)]),
    ({"backoffLimitPerIndex": 1}, [("spec.backoffLimitPerIndex", INVALID)]),
    ({**INDEXED, "maxFailedIndexes": 1}, [("spec.backoffLimitPerIndex", REQUIRED)]),
    ({**INDEXED, "backoffLimitPerIndex": 1, "maxFailedIndexes": 5}, [("spec.maxFailedIndexes", INVALID)]),
    ({**INDEXED, "parallelism": 100_001}, [("spec.parallelism", INVALID)]),
    (
        {**INDEXED, "completions": 100_001, "parallelism": 10_001, "backoffLimitPerIndex": 1},
        [("spec.maxFailedIndexes", REQUIRED), ("spec.parallelism", INVALID)],
    ),
    ({"managedBy": "me"}, [("spec.managedBy", INVALID)]),
    ({"managedBy": "example.com/" + "x" * 60}, [("spec.managedBy", "FieldValueTooLong")]),
    ({"selector": {"matchLabels": {"a": "b"}}},
     [("spec.selector", INVALID), ("spec.template.metadata.labels", INVALID)]),
    ({"manualSelector": True}, [("spec.selector", REQUIRED)]),
    ({"podFailurePolicy": FAILURE_POLICY}, []),
    ({"template": {"spec": {"restartPolicy": "Never", "hostNetwork": True, "containers": [
        {"name": "c", "image": "x", "ports": [{"containerPort": 80}]}]}}}, []),
    (
        {"podFailurePolicy": FAILURE_POLICY,
         "template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "OnFailure"}}},
        [("spec.template.spec.restartPolicy", INVALID)],
    ),
    ({"podFailurePolicy": {"rules": [FAILURE_POLICY["rules"][0]] * 21}},
     [("spec.podFailurePolicy.rules", "FieldValueTooMany")]),
    (
        {"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "a b", "status": "Yes"}]}]}},
        [
            ("spec.podFailurePolicy.rules[0].onPodConditions[0].type", INVALID),
            ("spec.podFailurePolicy.rules[0].onPodConditions[0].status", NOT_SUPPORTED),
        ],
    ),
    ({**INDEXED, "successPolicy": {"rules": [{"succeededIndexes": "0-1,3", "succeededCount": 3}]}}, []),
    ({**INDEXED, "successPolicy": {"rules": [{"succeededIndexes": "a"}]}},
     [("spec.successPolicy.rules[0].succeededIndexes", INVALID)]),
    ({"template": {"spec": {**TEMPLATE["spec"], "ephemeralContainers": [{"name": "e", "image": "x"}]}}},
     [("spec.template.spec.ephemeralContainers", "FieldValueForbidden")]),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), CASES)
def test_new_jobs(spec: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert [(cause.field, cause.reason) for cause in JOB.validate(job(**spec))] == expected


def changed(old: Object, **spec: Any) -> list[str]:
    new = JOB.prepare_update(JOB.default({**old, "spec": {**old["spec"], **spec}}), old)
    return [cause.field for cause in JOB.validate_update(new, old)]


def placed(old: Object) -> Object:
    """The template for other nodes."""
    template = old["spec"]["template"]
    return {**template, "spec": {**template["spec"], "nodeSelector": {"a": "b"}}}


def resized(old: Object) -> Object:
    """The template with other resources."""
    template = old["spec"]["template"]
    containers = [{**template["spec"]["containers"][0], "resources": {"requests": {"cpu": "1"}}}]
    return {**template, "spec": {**template["spec"], "containers": containers}}


def test_what_an_update_may_change() -> None:
    old = job(**INDEXED)
    assert changed(old, suspend=True, ttlSecondsAfterFinished=3, backoffLimit=9, activeDeadlineSeconds=5) == []
    assert changed(old, parallelism=2) == []
    assert changed(old, completionMode="NonIndexed") == ["spec.completionMode"]
    assert changed(old, managedBy="example.com/other") == ["spec.managedBy"]
    assert changed(old, template=placed(old)) == ["spec.template"]


def test_an_indexed_job_is_elastic() -> None:
    assert changed(job(**INDEXED), completions=6, parallelism=6) == []
    assert changed(job(**INDEXED), completions=6) == ["spec.completions"]
    assert changed(job(completions=4, parallelism=4), completions=6, parallelism=6) == ["spec.completions"]


SUSPENDED: Object = {"conditions": [{"type": "Suspended", "status": "True"}], "startTime": "2026-01-01T00:00:00Z"}


STARTED: Object = {"startTime": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("suspend", "status", "placement", "resources"),
    [
        (False, {}, ["spec.template"], ["spec.template"]),
        (True, {}, [], ["spec.template"]),
        (True, STARTED, ["spec.template"], ["spec.template"]),
        (True, SUSPENDED, [], []),
        (True, {**SUSPENDED, "active": 1}, ["spec.template"], ["spec.template"]),
    ],
)
def test_the_template_changes_only_while_nothing_runs(
    suspend: bool, status: Object, placement: list[str], resources: list[str]
) -> None:
    old = {**job(suspend=suspend), "status": status}
    assert changed(old, template=placed(old), suspend=False) == placement
    assert changed(old, template=resized(old), suspend=False) == resources


def test_the_image_of_a_suspended_job_stays() -> None:
    old = job(suspend=True)
    template = old["spec"]["template"]
    containers = [{**template["spec"]["containers"][0], "image": "other:1"}]
    assert changed(old, template={**template, "spec": {**template["spec"], "containers": containers}}) == [
        "spec.template"
    ]


def told(status: Object, before: Object, **spec: Any) -> list[str]:
    old = {**job(**spec), "status": before}
    new = JOB.subresources["status"].merge({**old, "status": status}, old)
    return [cause.field for cause in JOB.subresources["status"].validate_update(new, old)]


START = "2026-01-01T00:00:00Z"
DONE: Object = {
    "startTime": START,
    "completionTime": "2026-01-01T00:01:00Z",
    "succeeded": 1,
    "conditions": [{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}],
}


@pytest.mark.parametrize(
    ("status", "before", "expected"),
    [
        (DONE, {"startTime": START}, []),
        ({**DONE, "active": 1}, {"startTime": START, "active": 1}, ["status.active"]),
        ({**DONE, "completionTime": "2025-01-01T00:00:00Z"}, {"startTime": START}, ["status.completionTime"]),
        ({**DONE, "completionTime": "2026-01-01T00:02:00Z"}, DONE, ["status.completionTime"]),
        ({"startTime": START, "completionTime": START}, {"startTime": START}, ["status.completionTime"]),
        ({"startTime": "2026-01-01T00:00:09Z"}, {"startTime": START}, ["status.startTime"]),
        ({}, {"startTime": START}, ["status.startTime"]),
        ({"succeeded": 1}, {"succeeded": 2}, ["status.succeeded"]),
        ({"completedIndexes": "0"}, {}, ["status.completedIndexes"]),
    ],
)
def test_status_tells_one_story(status: Object, before: Object, expected: list[str]) -> None:
    assert told(status, before) == expected


def test_indexes_of_a_status() -> None:
    spec = {**INDEXED, "backoffLimitPerIndex": 1}
    assert told({"completedIndexes": "0,2", "failedIndexes": "1"}, {}, **spec) == []
    assert told({"completedIndexes": "0-2", "failedIndexes": "1"}, {}, **spec) == ["status.failedIndexes"]
    assert told({"completedIndexes": "9"}, {}, **spec) == ["status.completedIndexes"]
    assert index_intervals("0,2-3", 4) == [(0, 0), (2, 3)]
