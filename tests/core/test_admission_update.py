"""What may change in a JobSet (section 5.2)."""

import copy
from typing import Any

import pytest

from jobset.api.errors import Invalid
from jobset.core.admission.admit import admit_create, admit_update
from jobset.core.admission.update import difference
from jobset.core.features import FeatureGates

JOB = "spec.replicatedJobs[0].template.spec"
POD = ("replicatedJobs", 0, "template", "spec", "template")


def stored(**spec: Any) -> dict[str, Any]:
    pod = {"containers": [{"name": "c", "image": "i"}], "nodeSelector": {"a": "b"}}
    job = {"parallelism": 2, "completions": 2, "template": {"spec": pod}}
    obj = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "js", "namespace": "n"},
        "spec": {"replicatedJobs": [{"name": "a", "template": {"spec": job}}], "failurePolicy": {"maxRestarts": 2}},
    }
    obj["spec"] |= spec
    return admit_create(obj, FeatureGates(), {})


def changed(old: dict[str, Any], *path: str | int, value: Any) -> dict[str, Any]:
    new = copy.deepcopy(old)
    part: Any = new["spec"]
    for key in path[:-1]:
        part = part[key]
    if value is None:
        part.pop(path[-1], None)
    else:
        part[path[-1]] = value
    return new


def problems(new: dict[str, Any], old: dict[str, Any], gates: FeatureGates | None = None) -> dict[str, str]:
    try:
        admit_update(new, old, gates or FeatureGates())
    except Invalid as error:
        return {cause.field: cause.message for cause in error.causes}
    return {}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("suspend",), True),
        (("ttlSecondsAfterFinished",), 5),
        (("coordinator",), {"replicatedJob": "a", "podIndex": 1}),
        (("network",), None),
        (("successPolicy",), None),
        (("startupPolicy",), None),
        (("replicatedJobs", 0, "template", "spec", "template", "spec", "containers", 0, "resources"), None),
        (("replicatedJobs", 0, "dependsOn"), None),
    ],
)
def test_change_that_is_allowed_while_running(path: tuple[str | int, ...], value: Any) -> None:
    """Leaving out a part that holds its default changes nothing."""
    old = stored()
    assert problems(changed(old, *path, value=value), old) == {}


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("network",), {"subdomain": "x"}, "spec.network"),
        (("successPolicy",), {"operator": "Any"}, "spec.successPolicy"),
        (("failurePolicy",), None, "spec.failurePolicy"),
        (("failurePolicy", "maxRestarts"), 3, "spec.failurePolicy"),
        (("startupPolicy",), {"startupPolicyOrder": "InOrder"}, "spec.startupPolicy"),
        (("volumeClaimPolicies",), [{"templates": []}], "spec.volumeClaimPolicies"),
        (("managedBy",), "a.io/b", "spec.managedBy"),
        (("coordinator",), {"replicatedJob": "z"}, "spec.coordinator.replicatedJob"),
        (("replicatedJobs", 0, "replicas"), 3, "spec.replicatedJobs"),
        (("replicatedJobs", 0, "name"), "z", "spec.replicatedJobs"),
        (("replicatedJobs", 0, "template", "spec", "backoffLimit"), 3, "spec.replicatedJobs"),
        ((*POD, "spec", "affinity"), {"nodeAffinity": {}}, "spec.replicatedJobs"),
        ((*POD, "spec", "nodeSelector"), {"a": "c"}, "spec.replicatedJobs"),
        ((*POD, "spec", "containers", 0, "image"), "j", "spec.replicatedJobs"),
    ],
)
def test_change_that_is_refused_while_running(path: tuple[str | int, ...], value: Any, field: str) -> None:
    old = stored()
    assert problems(changed(old, *path, value=value), old).keys() == {field}


SUSPENDED_CHANGES = [
    (("metadata", "labels"), {"x": "y"}),
    (("metadata", "annotations"), {"x": "y"}),
    (("spec", "nodeSelector"), {"x": "y"}),
    (("spec", "nodeSelector"), None),
    (("spec", "tolerations"), [{"operator": "Exists"}]),
    (("spec", "schedulingGates"), [{"name": "x.io/gate"}]),
]


@pytest.mark.parametrize(("path", "value"), SUSPENDED_CHANGES)
def test_a_suspended_pod_template_can_be_placed_anew(path: tuple[str, ...], value: Any) -> None:
    suspended, running = stored(suspend=True), stored(suspend=False)
    new = changed(suspended, *POD, *path, value=value)
    assert problems(new, suspended) == {}
    assert problems(changed(new, "suspend", value=False), suspended) == {}, "together with resuming"
    assert problems(changed(new, "suspend", value=True), running) == {}, "together with suspending"
    message = problems(changed(running, *POD, *path, value=value), running)["spec.replicatedJobs"]
    assert message.endswith("field is immutable; suspend the JobSet to change it")


def test_the_message_names_what_changed() -> None:
    old = stored()
    message = problems(changed(old, *POD, "spec", "containers", 0, "image", value="j"), old)["spec.replicatedJobs"]
    assert message == (
        "Invalid value: spec.replicatedJobs[0].template.spec.template.spec.containers[0].image: "
        "field is immutable; create the JobSet anew to change it"
    )


def resized(old: dict[str, Any], parallelism: int, completions: int) -> dict[str, Any]:
    path = ("replicatedJobs", 0, "template", "spec")
    return changed(changed(old, *path, "parallelism", value=parallelism), *path, "completions", value=completions)


@pytest.mark.parametrize(
    ("parallelism", "completions", "said"),
    [
        (4, 4, {}),
        (4, 5, {f"{JOB}.completions": "completions must be equal to parallelism for Elastic Indexed Jobs"}),
        (0, 0, {f"{JOB}.parallelism": "parallelism must be >= 1", f"{JOB}.completions": "completions must be >= 1"}),
    ],
)
def test_elastic_size(parallelism: int, completions: int, said: dict[str, str]) -> None:
    old = stored()
    found = problems(resized(old, parallelism, completions), old)
    assert found.keys() == said.keys()
    for field, text in said.items():
        assert text in found[field]


def test_size_is_fixed_without_the_gate_for_other_modes_and_once_finished() -> None:
    old = stored()
    off = FeatureGates(elastic_jobset=False)
    assert "field is immutable" in problems(resized(old, 4, 4), old, off)["spec.replicatedJobs"]
    plain = changed(old, "replicatedJobs", 0, "template", "spec", "completionMode", value="NonIndexed")
    assert "field is immutable" in problems(resized(plain, 4, 4), plain)["spec.replicatedJobs"]
    done = {**old, "status": {"conditions": [finished_condition()]}}
    assert "finished" in problems({**resized(old, 4, 4), "status": done["status"]}, done)[JOB]


def finished_condition() -> dict[str, str]:
    return {
        "type": "Completed",
        "status": "True",
        "reason": "AllJobsCompleted",
        "message": "jobset completed successfully",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def test_a_coordinator_must_survive_a_new_size() -> None:
    old = stored(coordinator={"replicatedJob": "a", "podIndex": 1})
    assert problems(resized(old, 1, 1), old).keys() == {"spec.coordinator.podIndex"}


def test_what_an_earlier_version_accepted_stays_changeable() -> None:
    """A template that would be refused today does not block suspending."""
    old = changed(stored(), *POD, "spec", "containers", value=[])
    assert problems(changed(old, "suspend", value=True), old) == {}


@pytest.mark.parametrize(
    ("new", "old", "where"),
    [
        ({"a": []}, {}, ""),
        ({"labels": {}}, {}, ""),
        ({"emptyDir": {}}, {}, "x.emptyDir"),
        ({"limits": {"cpu": "1"}}, {"limits": {"cpu": "1000m"}}, ""),
        ({"args": ["1"]}, {"args": ["1000m"]}, "x.args[0]"),
        ({"a": True}, {"a": 1}, "x.a"),
        ({"a": [{"b": 1}]}, {"a": [{"b": 1}, {}]}, "x.a"),
        ({"a": [{"b": 1}]}, {"a": [{"c": 1}]}, "x.a[0].b"),
    ],
)
def test_difference(new: Any, old: Any, where: str) -> None:
    assert difference(new, old, "x") == where
    assert bool(difference(old, new, "x")) == bool(where)


def test_applying_the_same_manifest_again_changes_nothing() -> None:
    """Client-side kubectl apply sends lists as they were written, without what admission put into them."""
    mount = {"name": "data", "mountPath": "/data"}
    pod = {"spec": {"containers": [{"name": "c", "image": "busybox", "volumeMounts": [mount]}]}}
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteMany"]}}
    spec = {
        "replicatedJobs": [{"name": "w", "template": {"spec": {"template": pod}}}],
        "failurePolicy": {"rules": [{"action": "FailJobSet"}]},
        "volumeClaimPolicies": [{"templates": [claim]}],
    }
    written = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "js"}, "spec": spec}
    before = admit_create(written, FeatureGates(), {})
    patched = {**before, "spec": {**before["spec"], **spec}}
    assert admit_update(patched, before, FeatureGates()) == before
