"""The rules for a new JobSet (section 5.1), one row each; defaulting beyond what the recordings show."""

import copy
from typing import Any

import pytest

from jobset.api.errors import BadRequest, Invalid
from jobset.core.admission.admit import admit_create
from jobset.core.admission.defaulting import default_jobset
from jobset.core.features import FeatureGates

ON = FeatureGates()
BIG = 2**31 - 1


def template(**job: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}
    pod = {"containers": [container], "volumes": [{"name": "data", "emptyDir": {}}]}
    return {"spec": {"template": {"spec": pod}, "parallelism": 2, "completions": 2, **job}}


def jobset(**spec: Any) -> dict[str, Any]:
    jobs = [{"name": name, "template": template()} for name in ("a", "b")]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "js", "namespace": "n"},
        "spec": {"replicatedJobs": jobs, **spec},
    }


def with_job(index: int = 0, **fields: Any) -> dict[str, Any]:
    obj = jobset()
    obj["spec"]["replicatedJobs"][index] |= fields
    return obj


def rules(*actions: dict[str, Any], **policy: Any) -> dict[str, Any]:
    return jobset(failurePolicy={"rules": [{"action": "FailJobSet", **action} for action in actions], **policy})


def claims(*names: str, retention: str = "Delete", spec: Any = None, mounted: bool = True) -> dict[str, Any]:
    spec = spec or {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    templates = [{"metadata": {"name": name}, "spec": spec} for name in names]
    obj = jobset(volumeClaimPolicies=[{"templates": templates, "retentionPolicy": {"whenDeleted": retention}}])
    for job in obj["spec"]["replicatedJobs"]:
        pod = job["template"]["spec"]["template"]["spec"]
        pod["volumes"] = []
        mounts = [{"name": name, "mountPath": f"/{name}"} for name in names] if mounted else []
        pod["containers"][0]["volumeMounts"] = mounts
    return obj


def problems(obj: dict[str, Any], gates: FeatureGates = ON, existing: Any = None) -> dict[str, str]:
    """What is wrong: message by field."""
    before = copy.deepcopy(obj)
    try:
        admit_create(obj, gates, existing or {})
    except (Invalid, BadRequest) as error:
        assert obj == before
        return {cause.field: cause.message for cause in error.causes}
    return {}


IN_PLACE = {"failurePolicy": {"restartStrategy": "InPlaceRestart"}}
JOB_0, JOB_1 = "spec.replicatedJobs[0]", "spec.replicatedJobs[1]"
RULE = "spec.failurePolicy.rules[0]"
CLAIM = "spec.volumeClaimPolicies[0].template"
OFF = FeatureGates(in_place_restart=False, restart_job=False, elastic_jobset=False)


@pytest.mark.parametrize(
    ("obj", "gates", "field", "said"),
    [
        pytest.param(jobset(**IN_PLACE), OFF, "spec.failurePolicy.restartStrategy", "gate InPlaceRestart", id="1"),
        pytest.param(with_job(0, dependsOn=[]), ON, f"{JOB_0}.dependsOn", "first replicated job", id="2"),
        pytest.param(jobset(network={"subdomain": "A"}), ON, "spec.network.subdomain", "RFC 1123", id="3"),
        pytest.param(jobset(network={"subdomain": "9"}), ON, "spec.network.subdomain", "DNS-1035", id="4"),
        pytest.param(jobset(network={"subdomain": "a" * 64}), ON, "spec.network.subdomain", "at most 63", id="4-long"),
        pytest.param(jobset(managedBy="x"), ON, "spec.managedBy", "domain-prefixed path", id="5"),
        pytest.param(jobset(managedBy="a.io/" + "b" * 60), ON, "spec.managedBy", "63 bytes", id="6"),
        pytest.param(with_job(0, replicas=BIG), ON, f"{JOB_0}.replicas", "must not exceed 2147483647", id="7"),
        pytest.param(with_job(0, groupName="A"), ON, f"{JOB_0}.groupName", "DNS-1035", id="8"),
        pytest.param(with_job(0, groupName="a" * 64), ON, f"{JOB_0}.groupName", "at most 63", id="8-long"),
        pytest.param(with_job(0, name="A"), ON, f"{JOB_0}.name", '"js-A-0": the generated Job name', id="9"),
        pytest.param(with_job(0, name="a" * 59), ON, f"{JOB_0}.name", "Job name has 64 characters", id="9-long"),
        pytest.param(with_job(0, name="a" * 55), ON, f"{JOB_0}.name", "pod name has 68 characters", id="10"),
        pytest.param(with_job(1, dependsOn=[{"name": "x", "status": "Ready"}]), ON, f"{JOB_1}.dependsOn[0].name",
                     "there are: a, b", id="11"),
        pytest.param(with_job(1, dependsOn=[{"name": "b", "status": "Ready"}]), ON, f"{JOB_1}.dependsOn[0].name",
                     "cannot depend on itself", id="11-itself"),
        pytest.param(jobset(**IN_PLACE), ON, f"{JOB_1}.template.spec.backoffLimit", "2147483647", id="12"),
        pytest.param(jobset(**IN_PLACE), ON, f"{JOB_1}.template.spec.podReplacementPolicy", "Failed", id="13"),
        pytest.param({**jobset(**IN_PLACE, replicatedJobs=[{"name": "a", "template": template(completions=3)}])}, ON,
                     f"{JOB_0}.template.spec.completions", "equal", id="14"),
        pytest.param(jobset(successPolicy={"operator": "All", "targetReplicatedJobs": ["a", "z"]}), ON,
                     "spec.successPolicy.targetReplicatedJobs[1]", '"z"', id="15"),
        pytest.param(rules({"action": "RestartJob"}), OFF, f"{RULE}.action", "feature gate RestartJob", id="16"),
        pytest.param(rules({"name": "n" * 129}), ON, f"{RULE}.name", "has 129 bytes, must have 1 to 128", id="18"),
        pytest.param(rules({"name": "n-"}), ON, f"{RULE}.name", "must start with a letter", id="19"),
        pytest.param(rules({"name": "n\n"}), ON, f"{RULE}.name", "must start with a letter", id="19-newline"),
        pytest.param(rules({"targetReplicatedJobs": ["z"]}), ON, f"{RULE}.targetReplicatedJobs[0]", '"z"', id="20"),
        pytest.param(rules({"onJobFailureReasons": ["Because"]}), ON, f"{RULE}.onJobFailureReasons[0]",
                     '"BackoffLimitExceeded"', id="21"),
        pytest.param(rules({"name": "n"}, {"name": "n"}), ON, "spec.failurePolicy.rules[1].name", '"n"', id="22"),
        pytest.param(rules({"onJobFailureMessagePatterns": ["ok", "[z-a]"]}), ON,
                     f"{RULE}.onJobFailureMessagePatterns[1]", "invalid character class range: z-a at character 2",
                     id="pattern"),
        pytest.param(jobset(coordinator={"replicatedJob": "z"}), ON, "spec.coordinator.replicatedJob", '"z"', id="23"),
        pytest.param(jobset(coordinator={"replicatedJob": "a", "jobIndex": 1}), ON, "spec.coordinator.jobIndex",
                     "has 1 replicas", id="23-job"),
        pytest.param(jobset(coordinator={"replicatedJob": "a", "podIndex": -1}), ON, "spec.coordinator.podIndex",
                     "have 2 completions", id="23-pod"),
        pytest.param(jobset(coordinator={"replicatedJob": "a"}, network={"subdomain": "s" * 60}), ON,
                     "spec.coordinator", "jobset.sigs.k8s.io/coordinator", id="24"),
        pytest.param(claims("data", "data"), ON, f"{CLAIM}[1].name", "must be unique", id="25"),
        pytest.param(claims("Data"), ON, f"{CLAIM}[0].name", "templates[0].metadata.name: a lowercase", id="26"),
        pytest.param(claims("d" * 61), ON, f"{CLAIM}[0].name", "name is too long", id="27"),
        pytest.param(claims("data", mounted=False), ON, "spec.replicatedJobs", "no container mounts", id="29"),
    ],
)  # fmt: skip
def test_rule(obj: dict[str, Any], gates: FeatureGates, field: str, said: str) -> None:
    found = problems(obj, gates)
    assert said in found.get(field, ""), found


def test_rule_17_single_restarts_are_counted_for_1024_jobs() -> None:
    obj = rules({"action": "RestartJobAndIgnoreMaxRestarts"})
    obj["spec"]["replicatedJobs"][1]["replicas"] = 1024
    assert not problems(obj)
    obj["spec"]["replicatedJobs"][1]["replicas"] = 1025
    assert problems(obj).keys() == {f"{JOB_1}.replicas"}


def test_rule_28_a_volume_of_the_template_s_name() -> None:
    obj = claims("data")
    pod = obj["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "x", "emptyDir": {}}, {"name": "data", "emptyDir": {}}]
    assert problems(obj).keys() == {f"{JOB_1}.template.spec.template.spec.volumes[1].name"}


BOUND = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1024Mi"}},
    "volumeName": "pv-1",
    "volumeMode": "Filesystem",
}


@pytest.mark.parametrize(
    ("retention", "existing", "fields"),
    [
        ("Retain", BOUND, set()),
        ("Delete", BOUND, {"spec.volumeClaimPolicies[0].retentionPolicy.whenDeleted"}),
        ("Retain", {**BOUND, "accessModes": ["ReadWriteMany"]}, {f"{CLAIM}[0].spec"}),
        ("Retain", {**BOUND, "resources": {"requests": {"storage": "2Gi"}}}, {f"{CLAIM}[0].spec"}),
        ("Retain", {}, {f"{CLAIM}[0].spec"}),
    ],
)
def test_rules_30_and_31_a_claim_that_exists(retention: str, existing: dict[str, Any], fields: set[str]) -> None:
    """A bound claim may be used again by the template it was made from, although binding added fields."""
    claim = {"metadata": {"name": "data-js", "namespace": "n"}, "spec": existing}
    assert problems(claims("data", retention=retention), existing={"data-js": claim}).keys() == fields
    assert not problems(claims("data", retention=retention), existing={"data-other": claim})


def test_a_generated_name_is_checked_as_long_as_it_will_be() -> None:
    obj = jobset()
    obj["metadata"] = {"generateName": "a" * 60}
    assert "pod name has" in problems(obj)[f"{JOB_0}.name"] or "Job name has" in problems(obj)[f"{JOB_0}.name"]
    obj["metadata"] = {"generateName": "train-"}
    assert not problems(obj)
    obj["metadata"] = {}
    assert problems(obj).keys() == {"metadata.name"}


@pytest.mark.parametrize(
    ("job", "pod", "field"),
    [
        ({"backoffLimit": -1}, {}, "template.spec.backoffLimit"),
        ({"activeDeadlineSeconds": -1}, {}, "template.spec.activeDeadlineSeconds"),
        ({"podReplacementPolicy": "Sometimes"}, {}, "template.spec.podReplacementPolicy"),
        ({}, {"restartPolicy": "Always"}, "template.spec.template.spec.restartPolicy"),
        ({}, {"containers": []}, "template.spec.template.spec.containers"),
        ({}, {"containers": [{"name": "c", "image": " i"}]}, "template.spec.template.spec.containers[0].image"),
        ({}, {"containers": [{"name": "C", "image": "i"}]}, "template.spec.template.spec.containers[0].name"),
        ({}, {"initContainers": [{"name": "c", "image": "i"}]}, "template.spec.template.spec.containers[0].name"),
        ({}, {"containers": [{"name": "c", "image": "i", "env": [{"name": ""}]}]},
         "template.spec.template.spec.containers[0].env[0].name"),
        ({}, {"containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": ""}]}]},
         "template.spec.template.spec.containers[0].volumeMounts[0].mountPath"),
    ],
)  # fmt: skip
def test_a_template_that_can_become_no_job(job: dict[str, Any], pod: dict[str, Any], field: str) -> None:
    obj = with_job(0, template=template(**job))
    obj["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"] |= pod
    assert problems(obj).keys() == {f"{JOB_0}.{field}"}


def test_what_only_the_job_controller_can_judge_is_left_to_it() -> None:
    assert not problems(with_job(0, template=template(completionMode="NonIndexed", backoffLimitPerIndex=1)))


def test_all_wrong_types_at_once_are_a_bad_request() -> None:
    obj = with_job(0, replicas="2")
    obj["spec"]["suspend"] = 1
    with pytest.raises(BadRequest) as caught:
        admit_create(obj, ON, {})
    assert {cause.field for cause in caught.value.causes} == {f"{JOB_0}.replicas", "spec.suspend"}
    assert {cause.reason for cause in caught.value.causes} == {"FieldValueTypeInvalid"}


def test_the_error_is_kubernetes_own() -> None:
    with pytest.raises(Invalid) as caught:
        admit_create(jobset(managedBy=""), ON, {})
    status = caught.value.to_status()
    assert status["message"].startswith('JobSet.jobset.x-k8s.io "js" is invalid: spec.managedBy: Required value')
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert status["details"]["kind"] == "JobSet"
    assert status["details"]["group"] == "jobset.x-k8s.io"


def test_null_means_absent() -> None:
    obj = jobset(network=None, suspend=None)
    obj["metadata"]["labels"] = {"empty": None}
    admitted = admit_create(obj, ON, {})
    assert admitted["spec"]["network"] == {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
    assert "suspend" not in admitted["spec"]
    assert admitted["metadata"]["labels"] == {"empty": ""}


def test_defaulting_is_idempotent_and_keeps_what_it_does_not_know() -> None:
    obj = rules({}, {"name": "mine"}, maxRestarts=1)
    obj["spec"]["future"] = {"x": [1]}
    obj["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["future"] = True
    once = default_jobset(obj)
    assert default_jobset(once) == once
    assert once["spec"]["future"] is obj["spec"]["future"]
    assert once["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["future"] is True
    assert [rule["name"] for rule in once["spec"]["failurePolicy"]["rules"]] == ["failurePolicyRule0", "mine"]
    assert once["metadata"] is obj["metadata"]
