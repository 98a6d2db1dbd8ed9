"""Failure policy: which rule, which Job, which counters, also when several Jobs fail at once."""

import pytest
from played import World, failure_policy, jobset, rj

from jobset.core.features import FeatureGates


def after_failures(world: World, *failures: tuple[str, str, str]) -> World:
    """Let Jobs fail as (name, reason, message), a second apart, and be seen by one pass."""
    world.settle()
    world.told()
    for name, reason, message in failures:
        world.fail(name, reason=reason, message=message)
        world.sleep(1)
    world.one_pass()
    return world


BOTH = {"onJobFailureReasons": ["PodFailurePolicy"], "onJobFailureMessagePatterns": ["exit code 3[0-9]"]}


@pytest.mark.parametrize(
    ("fields", "reason", "message", "applies"),
    [
        ({}, "BackoffLimitExceeded", "", True),
        ({"onJobFailureReasons": ["DeadlineExceeded"]}, "BackoffLimitExceeded", "", False),
        ({"onJobFailureReasons": ["DeadlineExceeded", "BackoffLimitExceeded"]}, "BackoffLimitExceeded", "", True),
        ({"onJobFailureMessagePatterns": ["exit code 3"]}, "PodFailurePolicy", "failed with exit code 31.", True),
        ({"onJobFailureMessagePatterns": ["^exit code 3$"]}, "PodFailurePolicy", "failed with exit code 31.", False),
        ({"onJobFailureMessagePatterns": ["nothing", "c.de"]}, "PodFailurePolicy", "failed with exit code 31.", True),
        ({"onJobFailureMessagePatterns": ["("]}, "PodFailurePolicy", "(", False),
        (BOTH, "PodFailurePolicy", "exit code 31", True),
        (BOTH, "PodFailurePolicy", "exit code 41", False),
        (BOTH, "DeadlineExceeded", "exit code 31", False),
        ({"targetReplicatedJobs": ["a"]}, "X", "", True),
        ({"targetReplicatedJobs": ["b"]}, "X", "", False),
    ],
)
def test_a_rule_applies_when_reason_message_and_target_all_do(
    fields: dict[str, object], reason: str, message: str, applies: bool
) -> None:
    rule = {"name": "r", "action": "FailJobSet", **fields}
    world = after_failures(
        World(jobset(rj("a"), rj("b"), failurePolicy=failure_policy(1, rule))), ("js-a-0", reason, message)
    )
    failed = ("True", "FailJobSetFailurePolicyAction") if applies else None
    assert world.condition("Failed") == failed
    assert world.condition("RestartingJobSet") == (None if applies else ("True", "DefaultFailurePolicy"))


def test_without_a_policy_the_first_failure_ends_the_jobset() -> None:
    world = after_failures(World(jobset(rj("a", 3))), ("js-a-2", "X", ""), ("js-a-1", "X", ""))
    (failed,) = world.status["conditions"]
    assert failed["reason"] == "FailedJobs"
    assert failed["message"] == "jobset failed due to one or more job failures (first failed job: js-a-2)"
    assert world.status["terminalState"] == "Failed"


def test_failures_of_the_same_second_go_by_name() -> None:
    world = World(jobset(rj("a", 3)))
    world.settle()
    world.fail("js-a-2", "js-a-1")
    world.one_pass()
    assert world.status["conditions"][0]["message"].endswith("(first failed job: js-a-1)")


def test_the_first_rule_that_any_failed_job_matches_wins() -> None:
    rules = (
        {"name": "for-b", "action": "RestartJobSetAndIgnoreMaxRestarts", "targetReplicatedJobs": ["b"]},
        {"name": "rest", "action": "FailJobSet"},
    )
    world = World(jobset(rj("a"), rj("b"), failurePolicy=failure_policy(0, *rules)))
    after_failures(world, ("js-a-0", "X", ""), ("js-b-0", "X", ""))
    assert world.condition("RestartingJobSet") == ("True", "FailurePolicy_for-b")
    assert (world.status["restarts"], world.status.get("restartsCountTowardsMax")) == (1, None)
    assert [event.reason for event in world.last.events] == [
        "FailurePolicy_for-b",
        "RestartJobSetAndIgnoreMaxRestartsFailurePolicyAction",
    ]


def test_a_rule_without_a_name_is_named_by_its_place() -> None:
    world = World(jobset(rj("a"), failurePolicy=failure_policy(1, {"action": "RestartJobSet"})))
    after_failures(world, ("js-a-0", "X", ""))
    assert world.condition("RestartingJobSet") == ("True", "FailurePolicy_failurePolicyRule0")


def test_all_jobs_that_failed_at_once_are_restarted_in_one_pass_and_counted_each() -> None:
    world = World(jobset(rj("a", 4), failurePolicy=failure_policy(3, {"name": "r", "action": "RestartJob"})))
    after_failures(world, ("js-a-3", "X", ""), ("js-a-0", "X", ""), ("js-a-1", "X", ""))
    assert world.counts("a")["jobRestarts"] == [1, 1, 0, 1]
    assert world.counts("a")["jobRestartsCountTowardsMax"] == [1, 1, 0, 1]
    assert world.status["restarts"] == 0
    assert world.condition("RestartingJobSet") is None
    named = [event.message.rpartition(" ")[2] for event in world.last.events]
    assert named == ["js-a-3)", "js-a-0)", "js-a-1)"]
    world.settle()
    world.collect()
    world.settle()
    attempts = [world.labels(name)["jobset.sigs.k8s.io/job-restart-attempt"] for name in sorted(world.jobs)]
    assert attempts == ["1", "1", "0", "1"]


def test_the_restart_above_the_maximum_fails_the_jobset_also_among_failures_of_one_pass() -> None:
    world = World(jobset(rj("a", 4), failurePolicy=failure_policy(2, {"name": "r", "action": "RestartJob"})))
    after_failures(world, ("js-a-3", "X", ""), ("js-a-0", "X", ""), ("js-a-1", "X", ""))
    assert world.counts("a")["jobRestarts"] == [1, 0, 0, 1]
    assert world.condition("Failed") == ("True", "ReachedMaxRestarts")
    assert world.status["conditions"][0]["message"].endswith("(first failed job: js-a-1)")


def test_a_failure_that_concerns_the_whole_set_follows_the_restarts_of_single_jobs() -> None:
    rules = ({"name": "one", "action": "RestartJob", "targetReplicatedJobs": ["a"]},)
    world = World(jobset(rj("a", 2), rj("b"), failurePolicy=failure_policy(5, *rules)))
    after_failures(world, ("js-b-0", "X", ""), ("js-a-1", "X", ""))
    assert world.counts("a")["jobRestarts"] == [0, 1]
    assert (world.status["restarts"], world.status["restartsCountTowardsMax"]) == (1, 1)


def test_individual_restarts_count_towards_the_maximum_of_the_whole() -> None:
    rules = ({"name": "one", "action": "RestartJob", "targetReplicatedJobs": ["a"]},)
    world = World(jobset(rj("a"), rj("b"), failurePolicy=failure_policy(1, *rules)))
    after_failures(world, ("js-a-0", "X", ""))
    world.settle()
    world.collect()
    after_failures(world, ("js-b-0", "X", ""))
    assert world.condition("Failed") == ("True", "ReachedMaxRestarts")


def test_restarting_one_job_without_counting() -> None:
    rule = {"name": "r", "action": "RestartJobAndIgnoreMaxRestarts"}
    world = World(jobset(rj("a", 2), failurePolicy=failure_policy(0, rule)))
    for times in (1, 2, 3):
        after_failures(world, ("js-a-1", "X", ""))
        assert world.counts("a")["jobRestarts"] == [0, times]
        assert "jobRestartsCountTowardsMax" not in world.counts("a")
        world.settle()
        world.collect()
        world.settle()
    assert "js-a-0" in world.jobs
    assert world.labels("js-a-0")["jobset.sigs.k8s.io/job-restart-attempt"] == "0"


def test_a_job_made_before_the_gate_was_on_is_restarted_once() -> None:
    """Without its attempt label the original never sees such a Job as outdated, and counts until it fails."""
    world = World(jobset(rj("a"), failurePolicy=failure_policy(2, {"name": "r", "action": "RestartJob"})))
    world.settle()
    del world.labels("js-a-0")["jobset.sigs.k8s.io/job-restart-attempt"]
    world.fail("js-a-0")
    world.settle()
    assert world.counts("a")["jobRestarts"] == [1]
    assert "deletionTimestamp" in world.jobs["js-a-0"]["metadata"]


def test_with_the_gate_off_restarting_one_job_is_refused_in_words_and_nothing_spins() -> None:
    rule = {"name": "r", "action": "RestartJob"}
    world = World(jobset(rj("a"), failurePolicy=failure_policy(1, rule)), FeatureGates(restart_job=False))
    after_failures(world, ("js-a-0", "X", ""))
    assert world.condition("Blocked") == ("True", "FeatureGateOff")
    assert not world.one_pass()


def test_with_the_gate_off_jobs_bear_no_own_attempt_and_counters_are_dropped() -> None:
    world = World(jobset(rj("a")), FeatureGates(restart_job=False))
    world.raw["status"] = {"restarts": 0, "replicatedJobsStatus": [{"name": "a", "jobRestarts": [4]}]}
    world.settle()
    assert "jobset.sigs.k8s.io/job-restart-attempt" not in world.labels("js-a-0")
    assert "jobRestarts" not in world.counts("a")


def test_a_failure_while_suspended_restarts_and_creates_nothing_in_that_pass() -> None:
    world = World(jobset(rj("a", 2), failurePolicy=failure_policy(1)))
    world.settle()
    world.edit(suspend=True)
    world.fail("js-a-0")
    world.one_pass()
    assert world.status["restarts"] == 1
    assert world.last.actions == ()


def test_with_the_gate_off_an_index_that_was_tampered_with_does_not_matter() -> None:
    world = World(jobset(rj("a"), failurePolicy=failure_policy(1)), FeatureGates(restart_job=False))
    world.settle()
    world.labels("js-a-0")["jobset.sigs.k8s.io/job-index"] = "none"
    after_failures(world, ("js-a-0", "X", ""))
    assert world.status["restarts"] == 1
