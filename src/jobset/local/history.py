"""What each attempt of a JobSet did, learnt from the objects as they change: start, ready, end, and who failed first.

Stands beside the controllers and only reads. It decides nothing; `run` and the summary ask it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from msgspec import Struct, field

from jobset.api import labels
from jobset.api.meta import Object, condition_of, parse_time
from jobset.cluster.kubelet.cri_log import LogLine

ENDED_BY_SIGNAL = (128 + 15, 128 + 9)
"""Exit codes of a container that was told to end."""

FailureKey: TypeAlias = tuple[str, str, int]
TailOf: TypeAlias = Callable[[Object, str, int], tuple[LogLine, ...]]
"""(pod, container, attempt) -> the last lines it wrote"""


class ContainerFailure(Struct, frozen=True):
    """A container that ended badly. `exit_code` is 128+N for signal N.

    `log_tail` are its last lines, or what was in the way when it did not even start.
    """

    pod: str
    container: str
    exit_code: int
    reason: str
    finished_at: str
    """RFC 3339 in whole seconds, as the pod's status has it."""
    last_output_at: str = ""
    log_tail: tuple[str, ...] = ()


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
        forgiven = (0, *ENDED_BY_SIGNAL) if pod["metadata"].get("deletionTimestamp") else (0,)
        for name, restarts, terminated in _ended(pod):
            key = (pod["metadata"]["uid"], name, restarts)
            if key in self._seen:
                continue
            self._seen.add(key)
            if terminated.get("exitCode", 0) not in forgiven:
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


def in_order(failures: Iterable[ContainerFailure]) -> list[ContainerFailure]:
    """Which failed first: ends are known to the second only, so those within one are told apart by their last output.

    Whoever fails because a neighbour is gone says so after the neighbour's own last words.
    """
    by_end = sorted(failures, key=lambda each: each.finished_at)
    if not by_end:
        return []
    limit = parse_time(by_end[0].finished_at) + timedelta(seconds=1)
    together = [each for each in by_end if parse_time(each.finished_at) <= limit]
    return sorted(together, key=lambda each: each.last_output_at) + by_end[len(together) :]


def _ended(pod: Object) -> Iterator[tuple[str, int, Object]]:
    status = pod.get("status") or {}
    for kind in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(kind) or ():
            restarts = container.get("restartCount", 0)
            if ended := (container.get("state") or {}).get("terminated"):
                yield container["name"], restarts, ended
            if (before := (container.get("lastState") or {}).get("terminated")) and restarts > 0:
                yield container["name"], restarts - 1, before


def _message(jobset: Object, condition_type: str) -> str:
    return str((condition_of(jobset, condition_type) or {}).get("message", ""))


def _all_ready(jobset: Object, status: Object) -> bool:
    wanted: int = sum(job.get("replicas", 1) for job in jobset["spec"].get("replicatedJobs") or ())
    entries = status.get("replicatedJobsStatus") or ()
    up: int = sum(entry.get("ready", 0) + entry.get("succeeded", 0) for entry in entries)
    return 0 < wanted <= up
