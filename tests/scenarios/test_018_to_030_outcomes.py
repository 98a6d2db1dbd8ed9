"""Scenarios 18 to 30: creation, success policies, the first failure."""

from stage import A, B, a, b, base, policy, stage

from jobset.api.resources import JOBS, SERVICES


async def test_018_set_suspend_by_update() -> None:
    async with stage() as s:
        await s.create(base())
        await s.edit(suspend=True)
        assert (await s.jobset())["spec"]["suspend"] is True


async def test_019_create_makes_four_jobs() -> None:
    async with stage() as s:
        await s.create(base())
        assert await s.job_names() == [a(), b(0), b(1), b(2)]


async def test_020_all_jobs_complete() -> None:
    async with stage() as s:
        await s.create(base())
        await s.succeed()
        assert await s.condition("Completed") == ("True", "AllJobsCompleted")
        assert await s.counts(B, "succeeded") == (3,)
        assert await s.counts(A, "succeeded") == (1,)


async def test_021_a_job_of_another_owner_is_ignored() -> None:
    async with stage() as s:
        await s.create(base())
        template = await s.job(a())
        owner = {**template["metadata"]["ownerReferences"][0], "uid": "of-another"}
        labels = template["metadata"]["labels"]
        metadata = {"name": "extra", "namespace": "default", "labels": labels, "ownerReferences": [owner]}
        pods = {"spec": template["spec"]["template"]["spec"]}
        await s.client.create(JOBS, {"metadata": metadata, "spec": {"template": pods}})
        await s.succeed(a(), b(0), b(1), b(2))
        assert await s.condition("Completed") == ("True", "AllJobsCompleted")
        assert await s.exists(JOBS, "extra")


async def test_022_all_but_one_complete() -> None:
    async with stage() as s:
        await s.create(base())
        await s.ready(b(2))
        await s.succeed(a(), b(0), b(1))
        assert await s.is_active()
        assert await s.counts(A, "succeeded", "ready", "active", "failed", "suspended") == (1, 0, 0, 0, 0)
        assert await s.counts(B, "succeeded", "ready", "active", "failed", "suspended") == (2, 1, 1, 0, 0)


async def test_023_success_of_all_without_targets() -> None:
    async with stage() as s:
        await s.create(base(successPolicy={"operator": "All", "targetReplicatedJobs": []}))
        await s.succeed(a())
        assert await s.is_active()
        await s.succeed(b(0), b(1), b(2))
        assert not await s.is_active()


async def test_024_success_of_all_of_b() -> None:
    async with stage() as s:
        await s.create(base(successPolicy={"operator": "All", "targetReplicatedJobs": [B]}))
        await s.succeed(a())
        assert await s.is_active()
        await s.succeed(b(0))
        assert await s.is_active()
        await s.succeed(b(1), b(2))
        assert await s.condition("Completed") == ("True", "AllJobsCompleted")


async def test_025_success_of_any_of_b() -> None:
    async with stage() as s:
        await s.create(base(successPolicy={"operator": "Any", "targetReplicatedJobs": [B]}))
        await s.succeed(a())
        assert await s.is_active()
        await s.succeed(b(1))
        assert await s.condition("Completed") == ("True", "AllJobsCompleted")


async def test_026_success_of_any_without_targets() -> None:
    async with stage() as s:
        await s.create(base(successPolicy={"operator": "Any"}))
        await s.succeed(b(2))
        assert await s.condition("Completed") == ("True", "AllJobsCompleted")


async def test_027_one_failure_without_failure_policy() -> None:
    async with stage() as s:
        await s.create(base())
        await s.fail(b(1))
        assert await s.condition("Failed") == ("True", "FailedJobs")


async def test_028_dns_hostnames_make_exactly_one_service() -> None:
    async with stage() as s:
        await s.create(base(network={"enableDNSHostnames": True}))
        assert [service["metadata"]["name"] for service in await s.list(SERVICES)] == ["js"]
        await s.succeed()
        assert not await s.is_active()


async def test_029_success_from_the_first_run_with_service() -> None:
    async with stage() as s:
        await s.create(base(network={"enableDNSHostnames": True}, failurePolicy=policy(1)))
        assert await s.exists(SERVICES, "js")
        await s.succeed()
        assert await s.condition("Completed") == ("True", "AllJobsCompleted")
        assert await s.restarts() == (0, 0)


async def test_030_one_failure_without_restarts_left() -> None:
    async with stage() as s:
        await s.create(base(failurePolicy=policy(0)))
        await s.fail(b(0))
        assert await s.condition("Failed") == ("True", "ReachedMaxRestarts")
        assert await s.restarts() == (0, 0)
