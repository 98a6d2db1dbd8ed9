"""What each attempt of a JobSet did, learnt from the objects as they change: start, ready, end, and who failed first.

Stands beside the controllers and only reads. It decides nothing; `run` and the summary ask it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct, field

from jobset.api import labels
from jobset.api.meta import Object, condition_of
from jobset.cluster.kubelet.cri_log import LogLine
from jobset.core.failed_containers import ContainerFailure, ended_containers, is_bad_end

FailureKey: TypeAlias = tuple[str, str, int]
TailOf: TypeAlias = Callable[[Object, str, int], tuple[LogLine, ...]]
"""(pod, container, attempt) -> the last lines it wrote"""


class Attempt(Struct):
    """One run of the whole set. `cause` is the JobSet's own sentence for its end."""

    number: int
    started_at: datetime
    ready_at: datetime | None = None
    ended_at: datetime | None = None
    outcome: Literal["Running", "Restarted", "Completed", "Failed"] = "Running"
    cause: str = ""
    failures: list[ContainerFailure] = field(default_factory=list)
    """As they became known (see `in_order` for which came first). Those that were terminated are not in it."""


class JobRestart(Struct):
    """One Job restarted alone (failure policy action RestartJob)."""

    job: str
    at: datetime
    attempt: int
    failure: ContainerFailure | None


class History:
    """Of one JobSet, Job or Pod: feed it every version of the JobSet, and of the pods, in order, and the end."""

    def __init__(self, now: Callable[[], datetime], tail_of: TailOf) -> None:
        self.attempts = [Attempt(0, now())]
        self.job_restarts: list[JobRestart] = []
        self._now = now
        self._tail_of = tail_of
        self._seen: set[FailureKey] = set()
        self._job_counts: dict[str, int] = {}
        self._latest_failure: dict[str, ContainerFailure] = {}

    def jobset_changed(self, jobset: Object) -> None:
        status = jobset.get("status") or {}
        restarts = status.get("restarts", 0)
        current = self.attempts[-1]
        if restarts > current.number:
            self._end(current, "Restarted", _message(jobset, "RestartingJobSet"))
            current = Attempt(restarts, self._now())
            self.attempts.append(current)
        self._count_job_restarts(jobset, status)
        if current.ready_at is None and _all_ready(jobset, status):
            current.ready_at = self._now()

    def end(self, outcome: Literal["Completed", "Failed"], cause: str) -> None:
        """It is finished. What pods failed may still become known."""
        self._end(self.attempts[-1], outcome, cause)

    def pod_changed(self, pod: Object) -> None:
        """Notes containers of this pod that ended with another code than 0, unless somebody ended them.

        A pod's own end may come to light after its set was restarted because of a neighbour that failed with it.
        """
        number = int(pod["metadata"].get("labels", {}).get(labels.RESTART_ATTEMPT, "0"))
        attempt = next((each for each in self.attempts if each.number == number), None)
        if attempt is None:
            return
        for name, restarts, terminated in ended_containers(pod):
            key = (pod["metadata"]["uid"], name, restarts)
            if key in self._seen:
                continue
            self._seen.add(key)
            if is_bad_end(pod, terminated):
                failure = self._failure(pod, name, restarts, terminated)
                attempt.failures.append(failure)
                job = pod["metadata"].get("labels", {}).get(labels.BATCH_JOB_NAME, "")
                self._latest_failure[job] = failure

    def _failure(self, pod: Object, container: str, restarts: int, terminated: Object) -> ContainerFailure:
        tail = self._tail_of(pod, container, restarts)
        return ContainerFailure(
            pod["metadata"]["name"],
            container,
            terminated["exitCode"],
            terminated.get("reason") or "Error",
            terminated.get("finishedAt", ""),
            tail[-1].time if tail else "",
            tuple(line.text for line in tail) or tuple(terminated.get("message", "").splitlines()),
        )

    def _end(self, attempt: Attempt, outcome: Literal["Restarted", "Completed", "Failed"], cause: str) -> None:
        attempt.outcome, attempt.cause, attempt.ended_at = outcome, cause, self._now()

    def _count_job_restarts(self, jobset: Object, status: Object) -> None:
        for entry in status.get("replicatedJobsStatus") or ():
            for index, count in enumerate(entry.get("jobRestarts") or ()):
                job = f"{jobset['metadata']['name']}-{entry['name']}-{index}"
                if count > self._job_counts.get(job, 0):
                    self._job_counts[job] = count
                    self.job_restarts.append(JobRestart(job, self._now(), count, self._latest_failure.get(job)))


def _message(jobset: Object, condition_type: str) -> str:
    return str((condition_of(jobset, condition_type) or {}).get("message", ""))


def _all_ready(jobset: Object, status: Object) -> bool:
    wanted: int = sum(job.get("replicas", 1) for job in jobset["spec"].get("replicatedJobs") or ())
    entries = status.get("replicatedJobsStatus") or ()
    up: int = sum(entry.get("ready", 0) + entry.get("succeeded", 0) for entry in entries)
    return 0 < wanted <= up
