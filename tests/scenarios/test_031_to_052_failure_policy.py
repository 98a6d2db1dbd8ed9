"""Scenarios 31 to 52: restarts, rules, counters, strategies."""

import pytest
from stage import PREFIX, A, B, a, b, base, policy, replicated, rule, stage

from jobset.api.resources import JOBS
from jobset.core.features import FeatureGates

GATE_OFF = FeatureGates(restart_job=False)
REASONS = {"onJobFailureReasons": ["PodFailurePolicy"]}
PATTERNS = {"onJobFailureMessagePatterns": ["exit code 3[0-9]"]}


async def test_031_a_second_failure_after_one_restart() -> None:
    async with stage() as s:
        await s.create(base(failurePolicy=policy(1)))
        await s.fail(b(0))
        assert await s.restarts() == (1, 1)
        await s.collect()
        assert await s.attempts() == ["1"] * 4
        await s.fail(b(0))
        assert await s.condition("Failed") == ("True", "ReachedMaxRestarts")
        assert await s.restarts() == (1, 1)


async def outcome(fields: dict[str, object], reason: str, message: str) -> tuple[object, tuple[int, int]]:
    """The Failed condition and the restarts after one failure under a FailJobSet rule with these fields."""
    async with stage() as s:
        await s.create(base(failurePolicy=policy(1, rule("FailJobSet", **fields))))
        await s.fail(b(0), reason=reason, message=message)
        return await s.condition("Failed"), await s.restarts()


FAILED = (("True", "FailJobSetFailurePolicyAction"), (0, 0))
RESTARTED = (None, (1, 1))


async def test_032_fail_for_any_reason() -> None:
    assert await outcome({}, "BackoffLimitExceeded", "") == FAILED


async def test_033_fail_for_another_reason() -> None:
    assert await outcome(REASONS, "BackoffLimitExceeded", "") == RESTARTED


async def test_034_fail_for_another_pattern() -> None:
    assert await outcome(PATTERNS, "PodFailurePolicy", "exit code 99") == RESTARTED


async def test_035_reason_matches_but_pattern_does_not() -> None:
    assert await outcome({**REASONS, **PATTERNS}, "PodFailurePolicy", "exit code 99") == RESTARTED


async def test_036_reason_and_pattern_match() -> None:
    assert await outcome({**REASONS, **PATTERNS}, "PodFailurePolicy", "exit code 31") == FAILED


async def test_037_pattern_matches_a_part_of_the_message() -> None:
    assert await outcome(PATTERNS, "PodFailurePolicy", "Container c failed with exit code 31 matching rule") == FAILED


async def restart_jobset_once(gates: FeatureGates) -> None:
    async with stage(gates) as s:
        await s.create(base(failurePolicy=policy(1, rule("RestartJobSet"))))
        await s.fail(a())
        assert await s.restarts() == (1, 1)
        await s.collect()
        assert await s.attempts() == ["1"] * 4
        assert await s.counts(A, "jobRestarts", "jobRestartsCountTowardsMax") == (None, None)


async def test_038_restart_jobset_with_the_gate_off() -> None:
    await restart_jobset_once(GATE_OFF)


async def test_039_the_restarting_condition_begins_and_ends() -> None:
    async with stage() as s:
        await s.create(base(failurePolicy=policy(1, rule("RestartJobSet"))))
        await s.fail(a())
        assert await s.condition("RestartingJobSet") == ("True", "FailurePolicy_Rule1")
        await s.collect()
        await s.ready(a(), b(0), b(1))
        assert await s.condition("RestartingJobSet") == ("True", "FailurePolicy_Rule1")
        await s.ready(b(2))
        assert await s.condition("RestartingJobSet") == ("False", "JobsReady")


async def test_040_restart_jobset_with_the_gate_on() -> None:
    await restart_jobset_once(FeatureGates())


async def test_041_restart_job() -> None:
    async with stage() as s:
        await s.create(base(failurePolicy=policy(1, rule("RestartJob"))))
        await s.fail(a())
        assert await s.restarts() == (0, 0)
        assert await s.counts(A, "jobRestarts", "jobRestartsCountTowardsMax") == ([1], [1])
        assert "deletionTimestamp" in (await s.job(a()))["metadata"]
        assert "deletionTimestamp" not in (await s.job(b(0)))["metadata"]
        await s.collect()
        labels = (await s.job(a()))["metadata"]["labels"]
        assert labels[f"{PREFIX}job-restart-attempt"] == "1"
        assert labels[f"{PREFIX}restart-attempt"] == "0"


async def test_042_restart_job_and_ignore_max_restarts() -> None:
    async with stage() as s:
        await s.create(base(failurePolicy=policy(0, rule("RestartJobAndIgnoreMaxRestarts"))))
        await s.fail(a())
        assert await s.restarts() == (0, 0)
        assert await s.counts(A, "jobRestarts", "jobRestartsCountTowardsMax") == ([1], None)


async def recreate(strategy: str, after_three: list[str]) -> None:
    """Restart, let three of four Jobs go, then the last."""
    async with stage() as s:
        await s.create(base(failurePolicy=policy(1, strategy=strategy)))
        await s.fail(a())
        await s.collect(a(), b(0), b(1))
        jobs = {job["metadata"]["name"]: job["metadata"]["labels"] for job in await s.list(JOBS)}
        assert sorted(labels[f"{PREFIX}restart-attempt"] for labels in jobs.values()) == after_three
        assert jobs[b(2)][f"{PREFIX}restart-attempt"] == "0"
        await s.collect(b(2))
        assert await s.attempts() == ["1"] * 4


async def test_043_recreate_creates_each_job_as_its_predecessor_goes() -> None:
    await recreate("Recreate", ["0", "1", "1", "1"])


async def test_044_blocking_recreate_creates_none_before_all_are_gone() -> None:
    await recreate("BlockingRecreate", ["0"])


async def restart_three_times_without_counting(gates: FeatureGates) -> None:
    async with stage(gates) as s:
        await s.create(base(failurePolicy=policy(1, rule("RestartJobSetAndIgnoreMaxRestarts"))))
        for times in (1, 2, 3):
            await s.fail(b(1))
            assert await s.restarts() == (times, 0)
            await s.collect()
            assert await s.attempts() == [str(times)] * 4
        assert await s.is_active()


async def test_045_ignoring_max_restarts_with_the_gate_off() -> None:
    await restart_three_times_without_counting(GATE_OFF)


async def test_046_ignoring_max_restarts_with_the_gate_on() -> None:
    await restart_three_times_without_counting(FeatureGates())


async def test_047_the_rules_target_contains_the_failed_one() -> None:
    async with stage() as s:
        await s.create(base(failurePolicy=policy(1, rule("FailJobSet", targetReplicatedJobs=[B]))))
        await s.fail(b(0))
        assert await s.condition("Failed") == ("True", "FailJobSetFailurePolicyAction")


async def test_048_the_rules_target_does_not_contain_it() -> None:
    async with stage() as s:
        await s.create(base(failurePolicy=policy(1, rule("FailJobSet", targetReplicatedJobs=[B]))))
        await s.fail(a())
        assert await s.condition("RestartingJobSet") == ("True", "DefaultFailurePolicy")
        assert await s.restarts() == (1, 1)


async def test_049_fail_before_restart() -> None:
    async with stage() as s:
        await s.create(base(failurePolicy=policy(1, rule("FailJobSet", "r1"), rule("RestartJobSet", "r2"))))
        await s.fail(a())
        assert await s.condition("Failed") == ("True", "FailJobSetFailurePolicyAction")


async def test_050_restart_before_fail() -> None:
    async with stage() as s:
        await s.create(base(failurePolicy=policy(1, rule("RestartJobSet", "r1"), rule("FailJobSet", "r2"))))
        await s.fail(a())
        assert await s.restarts() == (1, 1)
        assert await s.is_active()


async def test_051_ignore_for_a_three_times_then_fail_for_b() -> None:
    async with stage() as s:
        rules = (
            rule("RestartJobSetAndIgnoreMaxRestarts", "r1", targetReplicatedJobs=[A]),
            rule("FailJobSet", "r2"),
        )
        await s.create(base(failurePolicy=policy(1, *rules)))
        for times in (1, 2, 3):
            await s.fail(a())
            assert await s.restarts() == (times, 0)
            await s.collect()
        await s.fail(b(0))
        assert await s.condition("Failed") == ("True", "FailJobSetFailurePolicyAction")
        assert await s.restarts() == (3, 0)


async def test_052_a_success_and_a_failure_restart_then_all_complete() -> None:
    async with stage() as s:
        await s.create(base(failurePolicy=policy(1)))
        await s.succeed(a())
        await s.fail(b(0))
        assert await s.restarts() == (1, 1)
        await s.collect()
        assert await s.attempts() == ["1"] * 4
        await s.succeed()
        assert await s.condition("Completed") == ("True", "AllJobsCompleted")


@pytest.mark.parametrize("failures", [2, 4])
async def test_many_failures_at_once_restart_each_of_the_jobs_once(failures: int) -> None:
    """Beyond the original's suite."""
    async with stage() as s:
        await s.create(base(replicated(B, 4), failurePolicy=policy(9, rule("RestartJob"))))
        await s.fail(*(b(index) for index in range(failures)))
        assert sum((await s.counts(B, "jobRestarts"))[0]) == failures
        await s.collect()
        attempts = [job["metadata"]["labels"][f"{PREFIX}job-restart-attempt"] for job in await s.list(JOBS)]
        assert attempts.count("1") == failures
