"""A pass costs in proportion to the Jobs it handles: counted in calls, so that no clock can make it flicker."""

import sys
from collections.abc import Callable

import pytest
from played import World, failure_policy, jobset, rj

from jobset.core.plan import plan


def fresh(jobs: int) -> World:
    return World(jobset(rj("a", jobs // 2), rj("b", jobs // 2)))


def running(jobs: int) -> World:
    world = fresh(jobs)
    world.settle()
    world.ready()
    world.settle()
    return world


def suspended(jobs: int) -> World:
    world = running(jobs)
    world.edit(suspend=True)
    return world


def all_failed(jobs: int) -> World:
    rules = [
        {"name": f"r{n}", "action": "RestartJob", "onJobFailureMessagePatterns": [pattern]}
        for n, pattern in enumerate(("never", "x+"))
    ]
    world = World(jobset(rj("a", jobs), failurePolicy=failure_policy(10**6, *rules)))
    world.settle()
    world.fail(*sorted(world.jobs), message="xx")
    return world


def restarting(jobs: int) -> World:
    world = World(jobset(rj("a", jobs), failurePolicy=failure_policy(1)))
    world.settle()
    world.fail("js-a-0")
    world.one_pass()
    return world


def calls(make: Callable[[int], World], jobs: int) -> int:
    """How many functions one observation and plan call."""
    world = make(jobs)
    observe = world.observe
    count = 0

    def profiler(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profiler)
    try:
        plan(observe())
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("make", [fresh, running, suspended, all_failed, restarting])
def test_ten_times_the_jobs_cost_ten_times_the_calls(make: Callable[[int], World]) -> None:
    calls(make, 100)  # fill caches
    assert calls(make, 1000) <= 12 * calls(make, 100)
