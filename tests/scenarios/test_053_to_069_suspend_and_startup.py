"""Scenarios 53 to 69: suspend, resume, Service, claims, counters, startup order."""

from typing import Any

from stage import A, B, a, b, base, policy, replicated, stage

from jobset.api.resources import JOBS, JOBSETS, PERSISTENT_VOLUME_CLAIMS, SERVICES

IN_ORDER = {"startupPolicyOrder": "InOrder"}
ANY_ORDER = {"startupPolicyOrder": "AnyOrder"}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def mounting(*claims: str) -> dict[str, Any]:
    """A replicated job whose container mounts these claims."""
    mounts = [{"name": claim, "mountPath": f"/{claim}"} for claim in claims]
    container = {"name": "c", "image": "busybox", "volumeMounts": mounts}
    return replicated(A, job={"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}})


def claim(name: str, when_deleted: str) -> dict[str, Any]:
    template = {"metadata": {"name": name}, "spec": CLAIM}
    return {"templates": [template], "retentionPolicy": {"whenDeleted": when_deleted}}


async def test_053_created_suspended() -> None:
    async with stage() as s:
        await s.create(base(suspend=True))
        assert await s.suspended() == {a(): True, b(0): True, b(1): True, b(2): True}
        assert await s.condition("Suspended") == ("True", "SuspendedJobs")
        assert await s.counts(B, "suspended") + await s.counts(A, "suspended") == (3, 1)


async def test_054_resume_after_editing_the_pod_template() -> None:
    async with stage() as s:
        await s.create(base(suspend=True))
        await s.see_suspended()
        jobset = await s.jobset()
        toleration = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
        replicated_jobs = []
        for each in jobset["spec"]["replicatedJobs"]:
            job = each["template"]["spec"]
            template = {
                "metadata": {"labels": {"label": "new"}, "annotations": {"annotation": "new"}},
                "spec": {**job["template"]["spec"], "nodeSelector": {"pool": "new"}, "tolerations": [toleration]},
            }
            replicated_jobs.append({**each, "template": {**each["template"], "spec": {**job, "template": template}}})
        await s.edit(suspend=False, replicatedJobs=replicated_jobs)
        assert set((await s.suspended()).values()) == {False}
        for job in await s.list(JOBS):
            template = job["spec"]["template"]
            assert template["metadata"]["labels"]["label"] == "new"
            assert template["metadata"]["annotations"]["annotation"] == "new"
            assert template["spec"]["nodeSelector"] == {"pool": "new"}
            assert template["spec"]["tolerations"] == [toleration]
        assert await s.condition("Suspended") == ("False", "ResumeJobs")
        await s.succeed()
        assert await s.condition("Completed") == ("True", "AllJobsCompleted")


async def test_055_suspend_a_running_jobset() -> None:
    async with stage() as s:
        await s.create(base())
        await s.ready()
        await s.edit(suspend=True)
        assert set((await s.suspended()).values()) == {True}
        assert await s.condition("Suspended") == ("True", "SuspendedJobs")


async def test_056_a_deleted_service_is_made_again() -> None:
    async with stage() as s:
        await s.create(base(network={"enableDNSHostnames": True}))
        first = (await s.list(SERVICES))[0]["metadata"]["uid"]
        await s.delete(SERVICES, "js")
        (service,) = await s.list(SERVICES)
        assert service["metadata"]["uid"] != first


async def test_057_claims_that_are_deleted_and_retained() -> None:
    async with stage() as s:
        policies = [claim("gone", "Delete"), claim("kept", "Retain")]
        await s.create(base(mounting("gone", "kept"), volumeClaimPolicies=policies))
        assert await s.exists(PERSISTENT_VOLUME_CLAIMS, "gone-js")
        assert await s.exists(PERSISTENT_VOLUME_CLAIMS, "kept-js")
        volumes = (await s.job(a()))["spec"]["template"]["spec"]["volumes"]
        assert [volume["persistentVolumeClaim"]["claimName"] for volume in volumes] == ["gone-js", "kept-js"]
        await s.succeed()
        assert not await s.is_active()
        await s.delete(JOBSETS, "js")
        await s.collect_orphans()
        for held in await s.list(PERSISTENT_VOLUME_CLAIMS):
            assert held["metadata"]["name"] == "kept-js" or "deletionTimestamp" in held["metadata"]
        assert "deletionTimestamp" not in (
            await s.client.get(PERSISTENT_VOLUME_CLAIMS, "default", "kept-js", dict)
        ).get("metadata", {})
        await s.create(base(mounting("kept"), name="again", volumeClaimPolicies=[claim("kept", "Retain")]))
        await s.succeed(a(jobset="again"))
        assert await s.condition("Completed", "again") == ("True", "AllJobsCompleted")


async def test_058_a_suspended_jobset_has_its_claims() -> None:
    async with stage() as s:
        await s.create(base(mounting("data"), suspend=True, volumeClaimPolicies=[claim("data", "Delete")]))
        assert await s.exists(PERSISTENT_VOLUME_CLAIMS, "data-js")


async def test_059_counters_after_all_succeeded() -> None:
    async with stage() as s:
        await s.create(base())
        await s.ready()
        await s.succeed()
        fields = ("ready", "succeeded", "failed", "active", "suspended")
        assert await s.counts(A, *fields) == (0, 1, 0, 0, 0)
        assert await s.counts(B, *fields) == (0, 3, 0, 0, 0)


async def test_060_counters_after_all_ready() -> None:
    async with stage() as s:
        await s.create(base())
        await s.ready()
        fields = ("ready", "succeeded", "failed", "active", "suspended")
        assert await s.counts(A, *fields) == (1, 0, 0, 1, 0)
        assert await s.counts(B, *fields) == (3, 0, 0, 3, 0)


async def test_061_completion_deletes_what_still_runs_and_keeps_what_finished() -> None:
    async with stage() as s:
        await s.create(base(successPolicy={"operator": "Any"}))
        await s.succeed(b(0))
        await s.collect()
        assert await s.job_names() == [b(0)]


async def test_062_failure_deletes_what_still_runs_and_keeps_what_failed() -> None:
    async with stage() as s:
        await s.create(base())
        await s.fail(b(1))
        await s.collect()
        assert await s.job_names() == [b(1)]


async def test_063_the_service_bears_the_generated_name() -> None:
    async with stage() as s:
        jobset = base(network={"enableDNSHostnames": True})
        jobset["metadata"] = {"generateName": "made-", "namespace": "default"}
        created = await s.create(jobset)
        assert created["metadata"]["name"].startswith("made-")
        assert [service["metadata"]["name"] for service in await s.list(SERVICES)] == [created["metadata"]["name"]]


async def test_064_in_order_and_suspended_creates_all_suspended() -> None:
    async with stage() as s:
        await s.create(base(startupPolicy=IN_ORDER, suspend=True))
        assert await s.suspended() == {a(): True, b(0): True, b(1): True, b(2): True}
        assert await s.counts(B, "suspended") + await s.counts(A, "suspended") == (3, 1)


async def test_065_any_order_and_suspended_creates_all_suspended() -> None:
    async with stage() as s:
        await s.create(base(startupPolicy=ANY_ORDER, suspend=True))
        assert await s.suspended() == {a(): True, b(0): True, b(1): True, b(2): True}


async def test_066_resume_in_any_order() -> None:
    async with stage() as s:
        await s.create(base(startupPolicy=ANY_ORDER, suspend=True))
        await s.edit(suspend=False)
        assert set((await s.suspended()).values()) == {False}


async def test_067_resume_in_order() -> None:
    async with stage() as s:
        await s.create(base(startupPolicy=IN_ORDER, suspend=True))
        await s.edit(suspend=False)
        assert await s.suspended() == {a(): False, b(0): True, b(1): True, b(2): True}
        assert await s.condition("StartupPolicyInProgress") == ("True", "InOrderStartupPolicyInProgress")
        await s.ready(a())
        assert set((await s.suspended()).values()) == {False}
        await s.ready(b(0), b(1), b(2))
        assert await s.condition("StartupPolicyCompleted") == ("True", "InOrderStartupPolicyCompleted")
        assert (await s.condition("StartupPolicyInProgress") or ())[0] == "False"


async def test_068_create_in_order() -> None:
    async with stage() as s:
        await s.create(base(startupPolicy=IN_ORDER))
        assert await s.job_names() == [a()]
        assert await s.condition("StartupPolicyInProgress") == ("True", "InOrderStartupPolicyInProgress")
        await s.ready(a())
        assert await s.job_names() == [a(), b(0), b(1), b(2)]
        assert await s.condition("StartupPolicyInProgress") == ("True", "InOrderStartupPolicyInProgress")
        await s.ready()
        assert await s.condition("StartupPolicyCompleted") == ("True", "InOrderStartupPolicyCompleted")


async def test_069_in_order_begins_anew_after_a_restart() -> None:
    async with stage() as s:
        await s.create(base(startupPolicy=IN_ORDER, failurePolicy=policy(1)))
        await s.ready()
        await s.ready()
        await s.fail(b(1))
        await s.collect()
        assert await s.job_names() == [a()]
        await s.ready(a())
        assert await s.attempts() == ["1"] * 4
