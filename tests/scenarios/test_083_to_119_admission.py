"""Scenarios 83 to 119: what admission fills in, accepts and refuses, through the API server."""

from typing import Any

import pytest
from stage import PREFIX, base, policy, replicated, stage

from jobset.api.errors import ApiError, Invalid
from jobset.api.meta import Object
from jobset.api.resources import JOBSETS
from jobset.core.features import FeatureGates

OWN = "jobset.sigs.k8s.io/jobset-controller"
LABEL_63 = "x" * 60
CLAIM = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
MOUNTING = {"name": "c", "image": "busybox", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}


def with_pod(spec: Object, job: Object | None = None, metadata: Object | None = None) -> Object:
    """A replicated job with this pod spec."""
    pod = {"metadata": metadata or {}, "spec": {"containers": [{"name": "c", "image": "busybox"}], **spec}}
    return replicated("a", job={"template": pod, **(job or {})})


async def defaulted(*replicated_jobs: Object, **spec: Any) -> Object:
    """The spec as stored."""
    async with stage() as s:
        stored: Object = (await s.create(base(*replicated_jobs, **spec)))["spec"]
        return stored


async def refused(jobset: Object, words: str = "", gates: FeatureGates | None = None) -> None:
    async with stage(gates) as s:
        with pytest.raises(ApiError, match=words):
            await s.create(jobset)
        assert await s.list(JOBSETS) == []


async def change(before: Object, /, **spec: Any) -> Object:
    """The spec as stored after an update of these fields."""
    async with stage() as s:
        await s.create(before)
        await s.edit(**spec)
        stored: Object = (await s.jobset())["spec"]
        return stored


async def refused_change(before: Object, words: str, gates: FeatureGates | None = None, /, **spec: Any) -> None:
    async with stage(gates) as s:
        await s.create(before)
        stored = await s.jobset()
        with pytest.raises(Invalid, match=words):
            await s.edit(**spec)
        assert (await s.jobset())["spec"] == stored["spec"]


async def test_083_completion_mode_unset() -> None:
    (each,) = (await defaulted(replicated("a")))["replicatedJobs"]
    assert each["template"]["spec"]["completionMode"] == "Indexed"


async def test_084_completion_mode_non_indexed_is_kept() -> None:
    (each,) = (await defaulted(replicated("a", job={"completionMode": "NonIndexed"})))["replicatedJobs"]
    assert each["template"]["spec"]["completionMode"] == "NonIndexed"


async def test_085_enable_dns_hostnames_unset() -> None:
    assert (await defaulted())["network"]["enableDNSHostnames"] is True


async def test_086_publish_not_ready_addresses_unset() -> None:
    assert (await defaulted(network={}))["network"]["publishNotReadyAddresses"] is True


async def test_087_restart_policy_unset() -> None:
    (each,) = (await defaulted(with_pod({})))["replicatedJobs"]
    assert each["template"]["spec"]["template"]["spec"]["restartPolicy"] == "OnFailure"


async def test_088_node_selector_while_suspended() -> None:
    changed = [with_pod({"restartPolicy": "Never", "nodeSelector": {"pool": "one"}}, {"completionMode": "Indexed"})]
    before = base(with_pod({"restartPolicy": "Never"}), suspend=True)
    (each,) = (await change(before, replicatedJobs=changed))["replicatedJobs"]
    assert each["template"]["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "one"}


@pytest.mark.parametrize("field", [{"nodeSelector": {"pool": "one"}}])
async def test_089_node_selector_while_running(field: Object) -> None:
    changed = [with_pod({"restartPolicy": "Never", **field}, {"completionMode": "Indexed"})]
    await refused_change(base(with_pod({"restartPolicy": "Never"})), "field is immutable", replicatedJobs=changed)


@pytest.mark.parametrize("field", [{"hostname": "h"}, {"subdomain": "s"}])
async def test_090_hostname_and_subdomain_while_running(field: Object) -> None:
    changed = [with_pod({"restartPolicy": "Never", **field}, {"completionMode": "Indexed"})]
    await refused_change(base(with_pod({"restartPolicy": "Never"})), "field is immutable", replicatedJobs=changed)


async def test_091_success_policy_unset() -> None:
    assert (await defaulted())["successPolicy"] == {"operator": "All"}


async def test_092_success_policy_with_an_unknown_target() -> None:
    await refused(base(successPolicy={"operator": "All", "targetReplicatedJobs": ["nobody"]}), "nobody")


async def test_093_negative_replicas() -> None:
    await refused(base(replicated("a", -1)), "replicas")


async def test_094_no_replicas() -> None:
    (each,) = (await defaulted(replicated("a", 0)))["replicatedJobs"]
    assert each["replicas"] == 0


async def test_095_suspend_by_update() -> None:
    assert (await change(base(), suspend=True))["suspend"] is True


async def test_096_resume_by_update() -> None:
    assert (await change(base(suspend=True), suspend=False))["suspend"] is False


async def test_097_success_policy_changed() -> None:
    before = base(successPolicy={"operator": "All"})
    await refused_change(before, "(?i)immutable", successPolicy={"operator": "Any"})


async def test_098_failure_policy_changed() -> None:
    await refused_change(base(failurePolicy=policy(1)), "(?i)immutable", failurePolicy=policy(2))


async def test_099_empty_failure_policy() -> None:
    assert (await defaulted(failurePolicy={}))["failurePolicy"]["restartStrategy"] == "Recreate"


async def test_100_managed_by_set_by_update() -> None:
    await refused_change(base(), "field is immutable", managedBy=OWN)


async def test_101_pod_annotation_and_scheduling_gate_while_suspended() -> None:
    fields = {"restartPolicy": "Never", "schedulingGates": [{"name": "example.com/gate"}]}
    changed = [with_pod(fields, {"completionMode": "Indexed"}, {"annotations": {"note": "n"}})]
    (each,) = (await change(base(with_pod({"restartPolicy": "Never"}), suspend=True), replicatedJobs=changed))[
        "replicatedJobs"
    ]
    template = each["template"]["spec"]["template"]
    assert template["metadata"]["annotations"] == {"note": "n"}
    assert template["spec"]["schedulingGates"] == [{"name": "example.com/gate"}]


async def test_102_pod_annotation_while_running() -> None:
    changed = [with_pod({"restartPolicy": "Never"}, {"completionMode": "Indexed"}, {"annotations": {"note": "n"}})]
    await refused_change(base(with_pod({"restartPolicy": "Never"})), "field is immutable", replicatedJobs=changed)


def chain(status: str = "Ready") -> list[Object]:
    return [replicated("a"), replicated("b", dependsOn=[{"name": "a", "status": status}])]


async def test_103_depends_on_with_any_order() -> None:
    assert await defaulted(*chain(), startupPolicy={"startupPolicyOrder": "AnyOrder"})


async def test_104_depends_on_with_in_order() -> None:
    await refused(base(*chain(), startupPolicy={"startupPolicyOrder": "InOrder"}), "(?i)dependsOn")


async def test_105_depends_on_of_the_first() -> None:
    first = replicated("a", dependsOn=[{"name": "b", "status": "Ready"}])
    await refused(base(first, replicated("b")), "(?i)dependsOn")


async def test_106_depends_on_with_an_unknown_status() -> None:
    await refused(base(*chain("Failed")), "Failed")


async def test_107_depends_on_changed() -> None:
    changed = [
        {**each, "template": {"spec": {**each["template"]["spec"], "completionMode": "Indexed"}}}
        for each in chain("Complete")
    ]
    await refused_change(base(*chain()), "(?i)immutable", replicatedJobs=changed)


async def test_108_no_replicated_jobs() -> None:
    async with stage() as s:
        jobset = base()
        jobset["spec"] = {"replicatedJobs": []}
        assert await s.create(jobset)


async def test_109_coordinator_too_long_for_a_label() -> None:
    subdomain = {"subdomain": LABEL_63}
    await refused(base(replicated("a"), network=subdomain, coordinator={"replicatedJob": "a"}), f"{PREFIX}coordinator")


async def test_110_claim_policy_without_retention() -> None:
    (each,) = (await defaulted(with_pod({"containers": [MOUNTING]}), volumeClaimPolicies=[{"templates": [CLAIM]}]))[
        "volumeClaimPolicies"
    ]
    assert each["retentionPolicy"] == {"whenDeleted": "Delete"}


async def test_111_claim_policies_changed() -> None:
    before = base(with_pod({"containers": [MOUNTING]}), volumeClaimPolicies=[{"templates": [CLAIM]}])
    changed = [{"templates": [CLAIM], "retentionPolicy": {"whenDeleted": "Retain"}}]
    await refused_change(before, "(?i)immutable", volumeClaimPolicies=changed)


async def test_112_claim_template_with_a_namespace() -> None:
    template = {**CLAIM, "metadata": {"name": "data", "namespace": "elsewhere"}}
    mounting = with_pod({"containers": [MOUNTING]})
    await refused(base(mounting, volumeClaimPolicies=[{"templates": [template]}]), "namespace")


def many_claims(number: int) -> tuple[list[Object], Object]:
    """Claim templates, and a replicated job that mounts them all."""
    names = [f"data-{index}" for index in range(number)]
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in names]
    templates = [{**CLAIM, "metadata": {"name": name}} for name in names]
    return templates, with_pod({"containers": [{"name": "c", "image": "busybox", "volumeMounts": mounts}]})


async def test_113_fifty_one_claim_policies() -> None:
    templates, mounting = many_claims(51)
    await refused(base(mounting, volumeClaimPolicies=[{"templates": [template]} for template in templates]), "50")


async def test_114_fifty_one_claim_templates() -> None:
    templates, mounting = many_claims(51)
    await refused(base(mounting, volumeClaimPolicies=[{"templates": templates}]), "50")


def sized(parallelism: int, completions: int, mode: str = "Indexed") -> Object:
    return replicated("a", job={"parallelism": parallelism, "completions": completions, "completionMode": mode})


async def test_115_elastic_both_changed() -> None:
    (each,) = (await change(base(sized(2, 2)), replicatedJobs=[sized(4, 4)]))["replicatedJobs"]
    assert (each["template"]["spec"]["parallelism"], each["template"]["spec"]["completions"]) == (4, 4)


async def test_116_elastic_unequal() -> None:
    words = "completions must be equal to parallelism for Elastic Indexed Jobs"
    await refused_change(base(sized(2, 2)), words, replicatedJobs=[sized(4, 5)])


async def test_117_elastic_not_indexed() -> None:
    before, after = sized(2, 2, "NonIndexed"), sized(4, 4, "NonIndexed")
    await refused_change(base(before), "field is immutable", replicatedJobs=[after])


async def test_118_elastic_to_nothing() -> None:
    await refused_change(base(sized(2, 2)), "parallelism must be >= 1", replicatedJobs=[sized(0, 0)])


async def test_119_elastic_with_the_gate_off() -> None:
    gates = FeatureGates(elastic_jobset=False)
    await refused_change(base(sized(2, 2)), "field is immutable", gates, replicatedJobs=[sized(4, 4)])
