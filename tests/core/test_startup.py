"""dependsOn and startupPolicy: whose turn it is."""

from played import World, failure_policy, jobset, rj

from jobset.core.explain import why_waiting


def on(name: str, status: str) -> dict[str, str]:
    return {"name": name, "status": status}


def test_ready_and_complete_dependencies() -> None:
    world = World(jobset(rj("a"), rj("b", dependsOn=[on("a", "Complete")]), rj("c", 3, dependsOn=[on("b", "Ready")])))
    world.settle()
    assert sorted(world.jobs) == ["js-a-0"]
    world.ready()
    world.settle()
    assert sorted(world.jobs) == ["js-a-0"]
    world.succeed("js-a-0")
    world.settle()
    assert sorted(world.jobs) == ["js-a-0", "js-b-0"]
    world.ready("js-b-0")
    world.settle()
    assert sorted(world.jobs) == ["js-a-0", "js-b-0", "js-c-0", "js-c-1", "js-c-2"]


def test_all_dependencies_must_hold_and_later_replicated_jobs_are_still_looked_at() -> None:
    both = [on("a", "Ready"), on("b", "Complete")]
    world = World(jobset(rj("a"), rj("b"), rj("c", dependsOn=both), rj("d", dependsOn=[on("a", "Ready")])))
    world.settle()
    world.ready("js-a-0")
    world.settle()
    assert sorted(world.jobs) == ["js-a-0", "js-b-0", "js-d-0"]
    assert why_waiting(world.observe())[0] == (
        "Replicated job c waits for dependsOn: b must be complete (0 of 1 Jobs are)."
    )


def test_a_finished_or_failed_dependency_counts_as_ready() -> None:
    world = World(jobset(rj("a", 2), rj("b", dependsOn=[on("a", "Ready")])))
    world.settle()
    world.succeed("js-a-0")
    world.ready("js-a-1")
    world.settle()
    assert "js-b-0" in world.jobs


def test_dependencies_hold_again_after_a_restart() -> None:
    world = World(jobset(rj("a"), rj("b", dependsOn=[on("a", "Ready")]), failurePolicy=failure_policy(1)))
    world.settle()
    world.ready()
    world.settle()
    world.fail("js-b-0")
    world.settle()
    world.collect()
    world.settle()
    assert sorted(world.jobs) == ["js-a-0"]


def test_suspended_jobsets_create_what_in_order_would_hold_back_but_not_what_depends_on_others() -> None:
    in_order = World(jobset(rj("a"), rj("b"), startupPolicy={"startupPolicyOrder": "InOrder"}, suspend=True))
    in_order.settle()
    assert sorted(in_order.jobs) == ["js-a-0", "js-b-0"]
    assert in_order.condition("StartupPolicyInProgress") is None
    depends = World(jobset(rj("a"), rj("b", dependsOn=[on("a", "Ready")]), suspend=True))
    depends.settle()
    assert sorted(depends.jobs) == ["js-a-0"]


def test_resuming_in_order_keeps_the_jobset_suspended_until_the_last_one_has_its_turn() -> None:
    world = World(jobset(rj("a"), rj("b", 2), startupPolicy={"startupPolicyOrder": "InOrder"}, suspend=True))
    world.settle()
    world.edit(suspend=False)
    world.settle()
    assert [world.jobs[name]["spec"]["suspend"] for name in ("js-a-0", "js-b-0", "js-b-1")] == [False, True, True]
    assert world.condition("Suspended") == ("True", "SuspendedJobs")
    world.ready("js-a-0")
    world.settle()
    assert not any(job["spec"]["suspend"] for job in world.jobs.values())
    assert world.condition("Suspended") == ("True", "SuspendedJobs")
    world.ready()
    world.settle()
    assert world.condition("Suspended") == ("False", "ResumeJobs")
    assert world.condition("StartupPolicyCompleted") == ("True", "InOrderStartupPolicyCompleted")
