"""Whole lives of JobSets, pass by pass, as readable transcripts.

The numbers are passes; the test is the Job controller. What is told is what changed.
"""

# ruff: noqa: E501 (a transcript's lines are as long as the events' texts)

from played import World, failure_policy, jobset, rj


def transcript(text: str) -> str:
    return "\n".join(line[4:] for line in text.strip("\n").splitlines() if line.strip())


def test_a_jobset_runs_and_completes() -> None:
    world = World(jobset(rj("a"), rj("b", 2)))
    world.settle()
    world.ready()
    world.settle()
    world.succeed("js-a-0", "js-b-0")
    world.settle()
    world.succeed("js-b-1")
    world.settle()
    assert world.told() == transcript(
        """
     1 create Service js
     1 create Job js-a-0 attempt 0
     1 create Job js-b-0 attempt 0
     1 create Job js-b-1 attempt 0
     1 status counts
     2 status a(active=1) b(active=2)
     4 status a(ready=1) b(ready=2)
     6 status a(ready=0 succeeded=1 active=0) b(ready=1 succeeded=1 active=1)
     8 status terminalState=Completed Completed=True/AllJobsCompleted b(ready=0 succeeded=2 active=0)
     8 Normal AllJobsCompleted: jobset completed successfully
    """
    )


def test_a_restart_recreates_each_job_as_soon_as_its_name_is_free_and_the_last_one_fails_the_jobset() -> None:
    world = World(jobset(rj("a"), rj("b", 2), failurePolicy=failure_policy(1)))
    world.settle()
    world.ready()
    world.settle()
    world.told()
    world.fail("js-b-1")
    world.settle()
    world.collect("js-b-1")
    world.settle()
    world.collect()
    world.settle()
    world.ready()
    world.settle()
    world.fail("js-a-0")
    world.settle()
    assert world.told() == transcript(
        """
     6 status restarts=1 restartsCountTowardsMax=1 RestartingJobSet=True/DefaultFailurePolicy b(ready=1 failed=1 active=1)
     6 Warning DefaultFailurePolicy: applying RestartJobSet failure policy action (first failed job: js-b-1)
     6 Warning RestartJobSetFailurePolicyAction: applying RestartJobSet failure policy action (first failed job: js-b-1)
     7 delete Job js-a-0
     7 delete Job js-b-0
     7 delete Job js-b-1
     7 status a(ready=0 active=0) b(ready=0 failed=0 active=0)
     9 create Job js-b-1 attempt 1
    10 status b(active=1)
    12 create Job js-a-0 attempt 1
    12 create Job js-b-0 attempt 1
    13 status a(active=1) b(active=2)
    15 status RestartingJobSet=False/JobsReady a(ready=1) b(ready=2)
    15 Normal JobsReady: all jobs are ready
    17 status terminalState=Failed RestartingJobSet=False/JobSetFailed Failed=True/ReachedMaxRestarts a(ready=0 failed=1 active=0)
    17 Warning ReachedMaxRestarts: jobset failed due to reaching max number of restarts (first failed job: js-a-0)
    17 Normal JobSetFailed: jobset failed
    18 delete Job js-b-0
    18 delete Job js-b-1
    """
    )


def test_blocking_recreate_waits_for_the_last_job_of_the_attempt() -> None:
    world = World(jobset(rj("a", 3), failurePolicy=failure_policy(1, strategy="BlockingRecreate")))
    world.settle()
    world.fail("js-a-0")
    world.settle()
    world.told()
    world.collect("js-a-0", "js-a-1")
    world.settle()
    assert world.told() == ""
    world.collect()
    world.settle()
    assert [line[3:] for line in world.told().splitlines()][:3] == [
        "create Job js-a-0 attempt 1",
        "create Job js-a-1 attempt 1",
        "create Job js-a-2 attempt 1",
    ]


def test_in_place_restart_strategy_recreates_when_a_job_failed() -> None:
    world = World(jobset(rj("a", 2), failurePolicy=failure_policy(1, strategy="InPlaceRestart")))
    world.settle()
    world.fail("js-a-0")
    world.settle()
    world.collect()
    world.settle()
    assert {world.labels(name)["jobset.sigs.k8s.io/restart-attempt"] for name in world.jobs} == {"1"}


def test_a_restart_begins_when_the_job_controller_gives_a_job_up_not_when_its_last_pod_is_gone() -> None:
    world = World(jobset(rj("a", 2), failurePolicy=failure_policy(1)))
    world.settle()
    world.ready()
    world.settle()
    world.fail("js-a-1", reason="PodFailurePolicy", message="exit code 3", target_only=True)
    world.settle()
    assert world.status["restarts"] == 1
    assert all("deletionTimestamp" in job["metadata"] for job in world.jobs.values())


def test_suspending_and_resuming_with_a_changed_template() -> None:
    world = World(jobset(rj("a"), rj("b", 2)))
    world.settle()
    world.ready()
    world.settle()
    world.told()
    world.edit(suspend=True)
    world.settle()
    changed = rj("a", template={"metadata": {"labels": {"x": "y"}}, "spec": {"nodeSelector": {"pool": "one"}}})
    world.edit(suspend=False, replicatedJobs=[changed, rj("b", 2)])
    world.settle()
    assert world.told() == transcript(
        """
     6 patch Job js-a-0 spec.suspend=True
     6 patch Job js-b-0 spec.suspend=True
     6 patch Job js-b-1 spec.suspend=True
     6 status Suspended=True/SuspendedJobs
     6 Normal SuspendedJobs: jobset is suspended
     7 status a(ready=0 active=0 suspended=1) b(ready=0 active=0 suspended=2)
     9 patch Job js-a-0 status.startTime=None
     9 patch Job js-b-0 spec.suspend=False
     9 patch Job js-b-1 spec.suspend=False
    10 patch Job js-a-0 spec.suspend=False spec.template.metadata.labels.x=y spec.template.spec.nodeSelector.pool=one
    10 status Suspended=False/ResumeJobs b(suspended=0)
    10 Normal ResumeJobs: jobset is resumed
    11 status a(active=1 suspended=0)
    """
    )


def test_in_order_startup_goes_on_when_each_is_ready_and_stays_complete_when_readiness_is_lost() -> None:
    world = World(jobset(rj("a"), rj("b", 2), startupPolicy={"startupPolicyOrder": "InOrder"}))
    world.settle()
    world.ready()
    world.settle()
    world.ready()
    world.settle()
    world.lose_readiness("js-a-0")
    world.settle()
    world.succeed()
    world.settle()
    assert world.told() == transcript(
        """
     1 create Service js
     1 create Job js-a-0 attempt 0
     1 status StartupPolicyInProgress=True/InOrderStartupPolicyInProgress
     1 Normal InOrderStartupPolicyInProgress: in order startup policy is in progress
     2 status a(active=1)
     4 create Job js-b-0 attempt 0
     4 create Job js-b-1 attempt 0
     4 status a(ready=1)
     5 status b(active=2)
     7 status StartupPolicyInProgress=False/InOrderStartupPolicyCompleted StartupPolicyCompleted=True/InOrderStartupPolicyCompleted b(ready=2)
     7 Normal InOrderStartupPolicyCompleted: in order startup policy has completed
     9 status a(ready=0)
    11 status terminalState=Completed Completed=True/AllJobsCompleted a(succeeded=1 active=0) b(ready=0 succeeded=2 active=0)
    11 Normal AllJobsCompleted: jobset completed successfully
    """
    )


def test_in_order_startup_begins_anew_after_a_restart_and_the_conditions_say_so() -> None:
    policy = {"startupPolicyOrder": "InOrder"}
    world = World(jobset(rj("a"), rj("b"), startupPolicy=policy, failurePolicy=failure_policy(1)))
    world.settle()
    world.ready()
    world.settle()
    world.ready()
    world.settle()
    assert world.condition("StartupPolicyCompleted") == ("True", "InOrderStartupPolicyCompleted")
    world.sleep(60)
    world.fail("js-b-0")
    world.settle()
    world.collect()
    world.settle()
    assert sorted(world.jobs) == ["js-a-0"]
    assert world.condition("StartupPolicyInProgress") == ("True", "InOrderStartupPolicyInProgress")
    ended = next(each for each in world.status["conditions"] if each["type"] == "StartupPolicyCompleted")
    assert ended == {
        "type": "StartupPolicyCompleted",
        "status": "False",
        "reason": "InOrderStartupPolicyInProgress",
        "message": "in order startup policy is in progress",
        "lastTransitionTime": "2026-01-01T00:01:00Z",
    }


def test_nothing_is_written_while_nothing_changes() -> None:
    world = World(jobset(rj("a", 3)))
    world.settle()
    world.ready()
    world.settle()
    for _ in range(3):
        assert not world.one_pass()


def test_a_jobset_being_deleted_or_managed_elsewhere_is_left_alone() -> None:
    elsewhere = World(jobset(rj("a"), managedBy="kueue.x-k8s.io/multikueue"))
    assert not elsewhere.one_pass()
    ours = World(jobset(rj("a"), managedBy="jobset.sigs.k8s.io/jobset-controller"))
    assert ours.one_pass()
    leaving = World(jobset(rj("a")))
    leaving.raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert not leaving.one_pass()


def test_a_finished_jobset_keeps_its_outcome_and_deletes_what_runs_and_what_is_outdated() -> None:
    world = World(jobset(rj("a", 3), successPolicy={"operator": "Any"}, failurePolicy=failure_policy(1)))
    world.settle()
    world.fail("js-a-0")
    world.settle()
    world.collect("js-a-1", "js-a-2")  # js-a-0 of attempt 0 is still there
    world.settle()
    world.succeed("js-a-1")
    world.told()
    del world.jobs["js-a-0"]["metadata"]["deletionTimestamp"]  # as if its deletion had been refused so far
    world.settle()
    deleted = [line[3:] for line in world.told().splitlines() if "delete" in line]
    assert "delete Job js-a-2" in deleted
    assert "delete Job js-a-0" in deleted
    assert "delete Job js-a-1" not in deleted


def test_ttl_counts_from_the_end() -> None:
    world = World(jobset(rj("a"), ttlSecondsAfterFinished=30))
    world.settle()
    world.succeed("js-a-0")
    world.settle()
    assert world.last.requeue_after_s == 30
    world.sleep(29)
    world.settle()
    assert (world.deleted, world.last.requeue_after_s) == (False, 1)
    world.sleep(1)
    world.settle()
    assert world.deleted


def test_a_jobset_without_a_single_job_is_complete_but_not_while_suspended() -> None:
    world = World(jobset(rj("a", 0), suspend=True))
    world.settle()
    assert world.condition("Completed") is None
    world.edit(suspend=False)
    world.settle()
    assert world.condition("Completed") == ("True", "AllJobsCompleted")


def test_without_any_policy_all_jobs_must_succeed() -> None:
    raw = jobset(rj("a", 2))
    del raw["spec"]["successPolicy"]
    world = World(raw)
    world.settle()
    world.succeed("js-a-0")
    world.settle()
    assert world.condition("Completed") is None
    world.succeed("js-a-1")
    world.settle()
    assert world.condition("Completed") == ("True", "AllJobsCompleted")
