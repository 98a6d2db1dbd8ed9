"""What a run remembers of its attempts: who failed first, with which words, and what restarted why."""

from datetime import UTC, datetime, timedelta
from typing import Any

from jobset.api import labels
from jobset.cluster.kubelet.cri_log import LogLine
from jobset.core.failed_containers import ContainerFailure, in_order
from jobset.local.history import History

START = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def pass_s(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


def history_of(clock: Clock) -> History:
    return History(clock, lambda pod, container, attempt: (LogLine("t", "stderr", f"bye {container} {attempt}"),))


def jobset(restarts: int = 0, ready: int = 0, job_restarts: list[int] | None = None, message: str = "") -> Any:
    entry = {"name": "w", "ready": ready, "succeeded": 0, "jobRestarts": job_restarts or []}
    status: dict[str, Any] = {"restarts": restarts, "replicatedJobsStatus": [entry]}
    if message:
        status["conditions"] = [{"type": "RestartingJobSet", "status": "True", "message": message}]
    return {"metadata": {"name": "js"}, "spec": {"replicatedJobs": [{"name": "w", "replicas": 2}]}, "status": status}


def pod(
    name: str, code: int, *, attempt: int = 0, job: str = "js-w-0", restarts: int = 0, deleted: bool = False
) -> Any:
    ended = {"exitCode": code, "reason": "Error", "finishedAt": "2026-01-01T00:00:05Z"}
    metadata: dict[str, Any] = {
        "name": name,
        "uid": name,
        "labels": {labels.RESTART_ATTEMPT: str(attempt), labels.BATCH_JOB_NAME: job},
    }
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:05Z"
    container = {"name": "main", "restartCount": restarts, "state": {"terminated": ended}}
    return {"metadata": metadata, "status": {"containerStatuses": [container]}}


def test_an_attempt_from_start_over_ready_to_restart() -> None:
    clock = Clock()
    history = history_of(clock)
    clock.pass_s(2)
    history.jobset_changed(jobset(ready=1))
    assert history.attempts[0].ready_at is None
    clock.pass_s(1)
    history.jobset_changed(jobset(ready=2))
    clock.pass_s(4)
    history.jobset_changed(jobset(restarts=1, message="worker failed"))
    first, second = history.attempts
    assert (first.number, first.outcome, first.cause) == (0, "Restarted", "worker failed")
    assert first.ready_at == START + timedelta(seconds=3)
    assert first.ended_at == second.started_at == START + timedelta(seconds=7)
    history.end("Completed", "done")
    assert (second.outcome, second.cause) == ("Completed", "done")


def test_failures_belong_to_the_attempt_of_their_pod() -> None:
    history = history_of(Clock())
    history.jobset_changed(jobset(restarts=1))
    history.pod_changed(pod("late", 1, attempt=0))
    history.pod_changed(pod("new", 2, attempt=1))
    assert [failure.pod for failure in history.attempts[0].failures] == ["late"]
    assert [failure.exit_code for failure in history.attempts[1].failures] == [2]
    assert history.attempts[1].failures[0].log_tail == ("bye main 0",)


def test_each_end_counts_once_and_those_that_were_told_to_end_do_not() -> None:
    history = history_of(Clock())
    for _ in range(2):
        history.pod_changed(pod("failed", 3))
    history.pod_changed(pod("fine", 0))
    history.pod_changed(pod("ended", 143, deleted=True))
    history.pod_changed(pod("killed", 137, deleted=True))
    history.pod_changed(pod("out-of-memory", 137))
    assert [failure.pod for failure in history.attempts[0].failures] == ["failed", "out-of-memory"]


def test_a_container_that_restarts_fails_anew_each_time() -> None:
    history = history_of(Clock())
    first, second = pod("p", 1), pod("p", 1, restarts=1)
    second["status"]["containerStatuses"][0]["lastState"] = first["status"]["containerStatuses"][0]["state"]
    history.pod_changed(first)
    history.pod_changed(second)
    assert [failure.log_tail for failure in history.attempts[0].failures] == [("bye main 0",), ("bye main 1",)]


def test_a_job_that_restarts_alone_is_told_with_its_cause() -> None:
    history = history_of(Clock())
    history.pod_changed(pod("p", 4, job="js-w-1"))
    history.jobset_changed(jobset(job_restarts=[0, 1]))
    history.jobset_changed(jobset(job_restarts=[0, 1]))
    (restart,) = history.job_restarts
    assert (restart.job, restart.attempt) == ("js-w-1", 1)
    assert restart.failure is not None
    assert restart.failure.exit_code == 4


def test_what_did_not_start_is_told_with_the_obstacle() -> None:
    history = History(Clock(), lambda *_: ())
    given = pod("p", 128)
    given["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = "no such executable"
    history.pod_changed(given)
    assert history.attempts[0].failures[0].log_tail == ("no such executable",)


def failure(pod: str, second: int, last_output: str) -> ContainerFailure:
    return ContainerFailure(pod, "main", 1, "Error", f"2026-01-01T00:00:{second:02}Z", last_output)


def test_who_failed_first() -> None:
    first = failure("first", 4, "2026-01-01T00:00:03.2Z")
    neighbour = failure("neighbour", 3, "2026-01-01T00:00:03.4Z")
    later = failure("later", 9, "2026-01-01T00:00:01.0Z")
    assert in_order([later, neighbour, first]) == [first, neighbour, later]
    assert in_order([]) == []
