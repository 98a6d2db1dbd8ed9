"""One pass over a Job, as a transcript of its writes and the statuses among them."""

from typing import Any

import pytest

from cluster.job.builders import LABELS, T0, at, condition_types, indexed, job, plan_for, pod, statuses, story
from jobset.api.meta import Object, format_time
from jobset.cluster.model.job.backoff import Failures
from jobset.cluster.model.job.plan import JobPlan

START = format_time(T0)
SETTLED: Object = {"ready": 0, "terminating": 0, "uncountedTerminatedPods": {}, "startTime": START}


def created(planned: JobPlan) -> list[Object]:
    return [action.body for step in planned.steps for action in step.actions if hasattr(action, "body")]


def notes(planned: JobPlan) -> list[str]:
    return [note.reason for step in planned.steps for note in step.events]


def last_status(planned: JobPlan) -> Object:
    return statuses(planned)[-1]


def test_a_new_job_gets_its_pods_and_its_status_in_one_step() -> None:
    planned = plan_for(job(parallelism=2, completions=3))
    assert story(planned) == ["+j-00000", "+j-00001", "status"]
    assert statuses(planned) == [{**SETTLED, "active": 2}]


def test_a_settled_job_is_left_alone() -> None:
    owner = job({**SETTLED, "active": 1, "ready": 1}, completions=1)
    planned = plan_for(owner, pod("a", "Running", ready=True))
    assert planned.steps == ()
    assert planned.requeue_after_s is None


def test_pods_share_the_template_and_know_their_index() -> None:
    container = {"name": "c", "image": "x", "env": [{"name": "A", "value": "b"}], "resources": {"limits": {"cpu": "1"}}}
    owner = indexed(completions=2, template={"restartPolicy": "Never", "containers": [container], "subdomain": "web"})
    first, second = created(plan_for(owner))
    assert first["metadata"]["name"] == "j-0-00000"
    assert first["metadata"]["generateName"] == "j-0-"
    assert (first["spec"]["hostname"], first["spec"]["subdomain"]) == ("j-0", "web")
    assert first["metadata"]["labels"] == {**LABELS, "batch.kubernetes.io/job-completion-index": "0"}
    assert first["metadata"]["annotations"] == {"batch.kubernetes.io/job-completion-index": "0"}
    assert first["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]
    assert [variable["name"] for variable in first["spec"]["containers"][0]["env"]] == ["A", "JOB_COMPLETION_INDEX"]
    assert first["spec"]["containers"] is second["spec"]["containers"]
    assert first["spec"]["containers"][0]["resources"] is container["resources"]
    assert len(container["env"]) == 1


def test_pods_without_index_share_the_whole_spec() -> None:
    owner = job(parallelism=2, completions=2)
    assert all(body["spec"] is owner["spec"]["template"]["spec"] for body in created(plan_for(owner)))


def test_a_long_name_is_cut_before_the_index() -> None:
    owner = indexed(completions=11)
    owner["metadata"]["name"] = "x" * 63
    assert created(plan_for(owner))[10]["metadata"]["name"] == "x" * 54 + "-10-00010"


def test_ended_pods_are_named_then_let_go_then_counted() -> None:
    owner = job({**SETTLED, "active": 2}, parallelism=2, completions=4)
    planned = plan_for(owner, pod("a", "Succeeded", finished_s=1), pod("b", "Failed"))
    assert story(planned) == ["+j-00000", "+j-00001", "status", "untrack a", "untrack b", "status"]
    named, counted = statuses(planned)
    assert named["uncountedTerminatedPods"] == {"succeeded": ["uid-a"], "failed": ["uid-b"]}
    assert "succeeded" not in named
    assert (counted["succeeded"], counted["failed"], counted["uncountedTerminatedPods"]) == (1, 1, {})


def test_a_pass_that_was_cut_short_is_taken_up() -> None:
    """After a crash: a is named and has its finalizer, b is named and has lost it, c was not seen yet."""
    uncounted = {"failed": ["uid-a", "uid-b"]}
    owner = job({**SETTLED, "uncountedTerminatedPods": uncounted, "failed": 3}, backoffLimit=6, completions=9)
    pods = [pod("a", "Failed"), pod("b", "Failed", tracked=False), pod("c", "Failed")]
    named, counted = statuses(plan_for(owner, *pods))
    assert (named["failed"], named["uncountedTerminatedPods"]) == (4, {"failed": ["uid-a", "uid-c"]})
    assert (counted["failed"], counted["uncountedTerminatedPods"]) == (6, {})


def test_a_named_pod_that_has_to_stay_is_not_counted() -> None:
    """Its successor was there when it was named and is gone again, so its failure count is needed once more."""
    status = {**SETTLED, "active": 1, "failedIndexes": "", "uncountedTerminatedPods": {"failed": ["uid-a"]}}
    owner = indexed(status, completions=1, backoffLimitPerIndex=3)
    planned = plan_for(owner, pod("a", "Failed", 0))
    assert story(planned) == ["status"]
    assert last_status(planned)["uncountedTerminatedPods"] == {"failed": ["uid-a"]}
    assert "failed" not in last_status(planned)


def test_succeeded_indexes_need_no_uids() -> None:
    owner = indexed({**SETTLED, "active": 2}, completions=3, parallelism=2)
    planned = plan_for(owner, pod("a", "Succeeded", 1), pod("b", "Running", 0))
    assert story(planned) == ["+j-2-00000", "status", "untrack a"]
    assert (last_status(planned)["completedIndexes"], last_status(planned)["succeeded"]) == ("1", 1)


def test_failure_shows_in_the_pass_that_sees_it_and_ends_the_other_pods() -> None:
    owner = job({**SETTLED, "active": 2}, parallelism=2, completions=2, backoffLimit=0)
    planned = plan_for(owner, pod("bad", "Failed"), pod("good", "Running", node="n", ready=True))
    assert story(planned) == ["-good", "status", "untrack bad", "untrack good", "status"]
    announced, counted = statuses(planned)
    assert condition_types(announced) == condition_types(counted) == ["FailureTarget"]
    assert (counted["failed"], counted["terminating"]) == (2, 1)
    assert notes(planned) == []


def test_failed_waits_for_the_last_terminating_pod() -> None:
    target = {"type": "FailureTarget", "status": "True", "reason": "R", "message": "m"}
    owner = job({**SETTLED, "failed": 2, "terminating": 1, "conditions": [target]}, backoffLimit=0)
    lingering = pod("good", "Running", node="n", deleted=True, tracked=False)
    assert plan_for(owner, pod("bad", "Failed", tracked=False), lingering).steps == ()
    planned = plan_for(owner, pod("bad", "Failed", tracked=False), now=60)
    assert condition_types(last_status(planned)) == ["FailureTarget", "Failed"]
    assert last_status(planned)["conditions"][1]["reason"] == "R"
    assert notes(planned) == ["R"]


def test_completion_is_announced_before_it_is_final() -> None:
    planned = plan_for(job({**SETTLED, "active": 1}, completions=1), pod("a", "Succeeded"), now=7)
    assert story(planned) == ["status", "untrack a", "status"]
    announced, final = statuses(planned)
    assert condition_types(announced) == ["SuccessCriteriaMet"]
    assert condition_types(final) == ["SuccessCriteriaMet", "Complete"]
    assert final["completionTime"] == format_time(at(7))
    assert notes(planned) == ["Completed"]


def test_pods_that_a_met_success_policy_ends_have_not_failed() -> None:
    policy = {"rules": [{"succeededIndexes": "0"}]}
    owner = indexed({**SETTLED, "active": 2}, completions=2, successPolicy=policy)
    planned = plan_for(owner, pod("a", "Succeeded", 0), pod("b", "Running", 1, node="n"))
    assert story(planned) == ["-b", "status", "untrack a", "untrack b"]
    assert "failed" not in last_status(planned)
    assert last_status(planned)["conditions"][0]["message"] == "Matched rules at index 0"


def test_a_finished_job_only_lets_go_of_pods() -> None:
    done = {**SETTLED, "conditions": [{"type": "Failed", "status": "True"}]}
    assert story(plan_for(job(done), pod("late"), pod("gone", "Failed", tracked=False))) == ["untrack late"]


def test_a_deleted_job_lets_go_of_all_pods_and_makes_none() -> None:
    owner = job({**SETTLED, "active": 2}, parallelism=3, completions=3)
    owner["metadata"]["deletionTimestamp"] = START
    planned = plan_for(owner, pod("a", "Running"), pod("b", "Succeeded"))
    assert [word for word in story(planned) if word != "status"] == ["untrack a", "untrack b"]
    assert last_status(planned)["succeeded"] == 1
    assert "failed" not in last_status(planned)


def test_suspension_gives_up_pods_without_counting_them() -> None:
    owner = job({**SETTLED, "active": 1, "ready": 1}, suspend=True, backoffLimit=0)
    planned = plan_for(owner, pod("a", "Running", node="n", ready=True))
    assert story(planned) == ["untrack a", "-a", "status"]
    status = last_status(planned)
    assert (status["ready"], status["terminating"]) == (0, 1)
    assert not {"startTime", "active", "failed"} & status.keys()
    assert notes(planned) == ["Suspended"]


def test_resuming_starts_the_clock_anew() -> None:
    suspended = {"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": "Job suspended"}
    status = {"ready": 0, "terminating": 0, "uncountedTerminatedPods": {}, "conditions": [suspended]}
    planned = plan_for(job(status, suspend=False, activeDeadlineSeconds=30), now=100)
    assert last_status(planned)["startTime"] == format_time(at(100))
    assert last_status(planned)["conditions"][0]["reason"] == "JobResumed"
    assert notes(planned) == ["Resumed"]


def test_the_deadline_is_looked_at_in_time_and_fails_all_pods() -> None:
    owner = job({**SETTLED, "active": 1}, activeDeadlineSeconds=30)
    assert plan_for(owner, pod("a", "Running"), now=10).requeue_after_s == 20
    planned = plan_for(owner, pod("a", "Running"), now=30)
    assert last_status(planned)["conditions"][0]["reason"] == "DeadlineExceeded"
    assert last_status(planned)["failed"] == 1


def test_a_replacement_waits_for_the_back_off() -> None:
    owner = job({**SETTLED, "active": 1})
    planned = plan_for(owner, pod("a", "Failed", finished_s=5), now=6)
    assert created(planned) == []
    assert planned.failures == Failures(1, at(5))
    assert planned.requeue_after_s == 9
    later = plan_for(job({**SETTLED, "failed": 1}), failures=planned.failures, now=15)
    assert len(created(later)) == 1


def test_with_a_limit_per_index_each_index_waits_for_itself() -> None:
    owner = indexed({**SETTLED, "active": 2, "failedIndexes": ""}, completions=3, backoffLimitPerIndex=2)
    failed = pod("a", "Failed", 0, finished_s=5, annotations={"batch.kubernetes.io/job-index-failure-count": "1"})
    planned = plan_for(owner, failed, pod("b", "Running", 1), now=10)
    assert [body["metadata"]["name"] for body in created(planned)] == ["j-2-00000"]
    assert planned.requeue_after_s == 15
    assert "untrack a" not in story(planned), "the failure count would be lost"
    later = plan_for(owner, failed, pod("b", "Running", 1), pod("c", index=2), now=25)
    counts = created(later)[0]["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"]
    assert counts == "2"


def test_an_index_that_used_up_its_limit_fails_and_the_others_go_on() -> None:
    owner = indexed({**SETTLED, "failedIndexes": ""}, completions=2, parallelism=1, backoffLimitPerIndex=0)
    planned = plan_for(owner, pod("a", "Failed", 0))
    assert last_status(planned)["failedIndexes"] == "0"
    assert created(planned)[0]["spec"]["hostname"] == "j-1"
    ended = indexed(last_status(planned), completions=2, parallelism=1, backoffLimitPerIndex=0)
    final = plan_for(ended, pod("b", "Succeeded", 1))
    assert last_status(final)["conditions"][-1] == {
        "type": "Failed",
        "status": "True",
        "lastProbeTime": START,
        "lastTransitionTime": START,
        "reason": "FailedIndexes",
        "message": "Job has failed indexes",
    }


@pytest.mark.parametrize(
    ("rule", "reason"),
    [("FailIndex", None), ("Ignore", None), ("Count", None), ("FailJob", "PodFailurePolicy")],
)
def test_failure_policy_actions(rule: str, reason: str | None) -> None:
    policy = {"rules": [{"action": rule, "onExitCodes": {"operator": "In", "values": [1]}}]}
    owner = indexed(
        {**SETTLED, "active": 1, "failedIndexes": ""},
        completions=2,
        backoffLimitPerIndex=5,
        podFailurePolicy=policy,
    )
    status = last_status(plan_for(owner, pod("a", "Failed", 0), pod("b", "Running", 1), now=60))
    assert [c["reason"] for c in status.get("conditions", ())] == ([reason] if reason else [])
    assert status["failedIndexes"] == ("0" if rule == "FailIndex" else "")


def test_too_many_failed_indexes_fail_the_job() -> None:
    owner = indexed({**SETTLED}, completions=9, backoffLimitPerIndex=0, maxFailedIndexes=1)
    planned = plan_for(owner, pod("a", "Failed", 0), pod("b", "Failed", 3))
    assert last_status(planned)["conditions"][0]["reason"] == "MaxFailedIndexesExceeded"


def test_restarts_in_place_count_towards_the_limit() -> None:
    template = {"restartPolicy": "OnFailure", "containers": [{"name": "c", "image": "x"}]}
    owner = job({**SETTLED, "active": 1}, template=template, backoffLimit=2, completions=1)
    assert plan_for(owner, pod("a", "Running", restarts=1)).steps == ()
    planned = plan_for(owner, pod("a", "Running", restarts=2))
    assert condition_types(last_status(planned))[0] == "FailureTarget"


@pytest.mark.parametrize(("policy", "names"), [("Failed", []), ("TerminatingOrFailed", ["j-0-00000"])])
def test_replacement_of_a_terminating_pod(policy: str, names: list[str]) -> None:
    owner = indexed({**SETTLED, "active": 1}, completions=1, podReplacementPolicy=policy)
    planned = plan_for(owner, pod("a", "Running", 0, node="n", deleted=True), now=60)
    assert [body["metadata"]["name"] for body in created(planned)] == names
    assert last_status(planned)["terminating"] == 1
    assert last_status(planned).get("failed") == (1 if names else None)


@pytest.mark.parametrize(
    ("spec", "pods", "expected"),
    [
        ({"parallelism": 3}, [], 3),
        ({"parallelism": 3}, [pod("a", "Succeeded"), pod("b", "Running")], 0),
        ({"parallelism": 5, "completions": 2}, [], 2),
        ({"parallelism": 2, "completions": 3}, [pod("a", "Succeeded"), pod("b", "Running")], 1),
    ],
)
def test_how_many_pods_are_made(spec: Any, pods: list[Object], expected: int) -> None:
    assert len(created(plan_for(job(dict(SETTLED), **spec), *pods))) == expected


def test_a_work_queue_is_complete_when_the_last_pod_ended() -> None:
    owner = job({**SETTLED, "active": 2}, parallelism=2)
    assert "conditions" not in last_status(plan_for(owner, pod("a", "Succeeded"), pod("b", "Running")))
    both = plan_for(owner, pod("a", "Succeeded"), pod("b", "Succeeded"))
    assert condition_types(last_status(both)) == ["SuccessCriteriaMet", "Complete"]


def test_shrinking_drops_pods_and_completed_indexes_beyond() -> None:
    owner = indexed({**SETTLED, "active": 2, "succeeded": 1, "completedIndexes": "2"}, completions=2)
    planned = plan_for(owner, pod("a", "Running", 0), pod("b", "Running", 3), pod("c", "Succeeded", 2, tracked=False))
    assert story(planned) == ["untrack b", "-b", "status"]
    assert not {"succeeded", "completedIndexes", "failed"} & last_status(planned).keys()


def test_one_pass_names_at_most_five_hundred_pods() -> None:
    pods = [pod(f"p{number}", "Succeeded") for number in range(501)]
    planned = plan_for(job({**SETTLED}, parallelism=501, completions=501), *pods)
    assert len(statuses(planned)[0]["uncountedTerminatedPods"]["succeeded"]) == 500
    assert condition_types(last_status(planned)) == ["SuccessCriteriaMet"]
    left = job(last_status(planned), parallelism=501, completions=501)
    assert condition_types(last_status(plan_for(left, pods[500]))) == ["SuccessCriteriaMet", "Complete"]


def test_an_orphan_with_the_right_labels_is_adopted_first_and_a_stray_given_up() -> None:
    orphan, stray = pod("orphan", tracked=False), pod("stray")
    del orphan["metadata"]["ownerReferences"]
    stray["metadata"]["labels"] = {}
    planned = plan_for(job(dict(SETTLED)), stray, orphans=[orphan])
    (step,) = planned.steps
    patches = {action.name: action.patch["metadata"] for action in step.actions if hasattr(action, "patch")}
    assert patches["orphan"]["ownerReferences"][0]["uid"] == "uid-j"
    assert patches["orphan"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]
    assert patches["stray"] == {"ownerReferences": None, "finalizers": None}
