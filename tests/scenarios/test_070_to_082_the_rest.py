"""Scenarios 70 to 82: coordinator, dependsOn, managedBy, TTL, refused Jobs, elasticity."""

import pytest
from stage import PREFIX, A, a, base, replicated, stage

from jobset.api.errors import Invalid
from jobset.api.resources import JOBS, JOBSETS
from jobset.core.features import FeatureGates

ELSEWHERE = "example.com/another-controller"


def on(name: str, status: str) -> dict[str, str]:
    return {"name": name, "status": status}


async def test_070_the_coordinator_is_told_to_all_jobs() -> None:
    async with stage() as s:
        await s.create(base(coordinator={"replicatedJob": A, "jobIndex": 0, "podIndex": 0}))
        jobs = await s.list(JOBS)
        assert len(jobs) == 4
        for job in jobs:
            for metadata in (job["metadata"], job["spec"]["template"]["metadata"]):
                for kind in ("labels", "annotations"):
                    assert metadata[kind][f"{PREFIX}coordinator"] == f"js-{A}-0-0.js"


async def test_071_depends_on_ready() -> None:
    async with stage() as s:
        await s.create(base(replicated("a"), replicated("b", 3, dependsOn=[on("a", "Ready")])))
        assert await s.job_names() == ["js-a-0"]
        await s.ready("js-a-0")
        assert len(await s.job_names()) == 4


async def test_072_depends_on_complete_then_ready() -> None:
    async with stage() as s:
        chain = (
            replicated("a"),
            replicated("b", dependsOn=[on("a", "Complete")]),
            replicated("c", 3, dependsOn=[on("b", "Ready")]),
        )
        await s.create(base(*chain))
        assert len(await s.job_names()) == 1
        await s.ready("js-a-0")
        assert len(await s.job_names()) == 1
        await s.succeed("js-a-0")
        assert len(await s.job_names()) == 2
        await s.ready("js-b-0")
        assert len(await s.job_names()) == 5


async def test_073_depends_on_two_complete() -> None:
    async with stage() as s:
        both = [on("a", "Complete"), on("b", "Complete")]
        await s.create(base(replicated("a"), replicated("b"), replicated("c", 3, dependsOn=both)))
        assert len(await s.job_names()) == 2
        await s.succeed("js-a-0")
        assert len(await s.job_names()) == 2
        await s.succeed("js-b-0")
        assert len(await s.job_names()) == 5


async def test_074_depends_on_one_ready_and_one_complete() -> None:
    async with stage() as s:
        both = [on("a", "Ready"), on("b", "Complete")]
        await s.create(base(replicated("a"), replicated("b"), replicated("c", 3, dependsOn=both)))
        await s.ready("js-a-0")
        assert len(await s.job_names()) == 2
        await s.succeed("js-b-0")
        assert len(await s.job_names()) == 5


async def test_075_suspended_with_a_dependency() -> None:
    async with stage() as s:
        await s.create(base(replicated("a"), replicated("b", dependsOn=[on("a", "Ready")]), suspend=True))
        assert await s.suspended() == {"js-a-0": True}
        await s.edit(suspend=False)
        assert await s.suspended() == {"js-a-0": False}
        await s.ready("js-a-0")
        assert await s.suspended() == {"js-a-0": False, "js-b-0": False}


async def test_076_managed_by_another_controller() -> None:
    async with stage() as s:
        await s.create(base(managedBy=ELSEWHERE))
        await s.settle(10)
        assert await s.job_names() == []


async def test_077_managed_by_another_controller_and_resumed() -> None:
    async with stage() as s:
        await s.create(base(managedBy=ELSEWHERE, suspend=True))
        await s.edit(suspend=False)
        await s.settle(10)
        assert await s.job_names() == []


async def test_078_the_status_of_another_controller_stays() -> None:
    async with stage() as s:
        await s.create(base(managedBy=ELSEWHERE))
        foreign = {"restarts": 7, "conditions": []}
        await s.client.patch(JOBSETS, "default", "js", {"status": foreign}, subresource="status")
        await s.settle(10)
        assert await s.status() == foreign


async def test_079_ttl_deletes_a_finished_jobset_and_only_with_ttl() -> None:
    async with stage() as s:
        await s.create(base(ttlSecondsAfterFinished=2))
        await s.create(base(replicated("a"), name="stays"))
        await s.fail(a(), "stays-a-0")
        await s.settle(0.5)
        held = [job["metadata"] for job in await s.list(JOBS) if "deletionTimestamp" in job["metadata"]]
        assert len(held) == 3
        await s.settle(3)
        assert "deletionTimestamp" in (await s.jobset())["metadata"]
        assert "deletionTimestamp" not in (await s.jobset("stays"))["metadata"]


async def test_080_a_job_that_is_refused_is_told_in_one_series_of_events() -> None:
    async with stage(admission=False) as s:
        broken = replicated("a")
        broken["template"]["spec"]["template"]["spec"]["restartPolicy"] = "Always"
        await s.create(base(broken, successPolicy={"operator": "All"}))
        await s.settle(5)
        (event,) = [event for event in await s.events() if event["reason"] == "JobCreationFailed"]
        assert event["type"] == "Warning"
        assert event["series"]["count"] > 1
        assert "restartPolicy" in event["note"]
        assert await s.job_names() == []


def resized(size: int) -> list[dict[str, object]]:
    return [replicated("a", 2, pods=size)]


async def test_081_elastic_jobs_follow_the_jobset() -> None:
    async with stage() as s:
        await s.create(base(*resized(2)))
        jobset = await s.jobset()
        (each,) = jobset["spec"]["replicatedJobs"]
        job = {**each["template"]["spec"], "parallelism": 4, "completions": 4}
        await s.edit(replicatedJobs=[{**each, "template": {**each["template"], "spec": job}}])
        sizes = [(job["spec"]["parallelism"], job["spec"]["completions"]) for job in await s.list(JOBS)]
        assert sizes == [(4, 4), (4, 4)]


async def test_082_elastic_with_the_gate_off_is_refused() -> None:
    async with stage(FeatureGates(elastic_jobset=False)) as s:
        await s.create(base(*resized(2)))
        (each,) = (await s.jobset())["spec"]["replicatedJobs"]
        job = {**each["template"]["spec"], "parallelism": 4, "completions": 4}
        with pytest.raises(Invalid, match="field is immutable"):
            await s.edit(replicatedJobs=[{**each, "template": {**each["template"], "spec": job}}])
