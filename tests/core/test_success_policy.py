"""Success policy: which successes are enough."""

import pytest
from played import World, failure_policy, jobset, rj


@pytest.mark.parametrize(
    ("policy", "succeeded", "completes"),
    [
        ({"operator": "All"}, ["js-a-0", "js-b-0", "js-b-1"], True),
        ({"operator": "All"}, ["js-a-0", "js-b-0"], False),
        ({"operator": "All", "targetReplicatedJobs": ["b"]}, ["js-b-0", "js-b-1"], True),
        ({"operator": "All", "targetReplicatedJobs": ["b"]}, ["js-a-0", "js-b-1"], False),
        ({"operator": "All", "targetReplicatedJobs": ["a"]}, ["js-a-0"], True),
        ({"operator": "Any"}, ["js-b-1"], True),
        ({"operator": "Any", "targetReplicatedJobs": ["a"]}, ["js-b-0", "js-b-1"], False),
        ({"operator": "Any", "targetReplicatedJobs": ["a"]}, ["js-a-0"], True),
    ],
)
def test_enough(policy: dict[str, object], succeeded: list[str], completes: bool) -> None:
    world = World(jobset(rj("a"), rj("b", 2), successPolicy=policy))
    world.settle()
    world.succeed(*succeeded)
    world.settle()
    assert (world.condition("Completed") is not None) == completes
    assert world.status.get("terminalState", "") == ("Completed" if completes else "")


def test_failure_comes_before_success() -> None:
    world = World(jobset(rj("a", 2), successPolicy={"operator": "Any"}, failurePolicy=failure_policy(1)))
    world.settle()
    world.succeed("js-a-0")
    world.fail("js-a-1")
    world.one_pass()
    assert world.condition("Completed") is None
    assert world.status["restarts"] == 1


def test_success_ends_a_restart_that_never_got_ready() -> None:
    world = World(jobset(rj("a", 2), successPolicy={"operator": "Any"}, failurePolicy=failure_policy(1)))
    world.settle()
    world.fail("js-a-1")
    world.settle()
    world.collect()
    world.settle()
    world.succeed("js-a-0")
    world.settle()
    assert world.condition("RestartingJobSet") == ("False", "JobSetCompleted")
