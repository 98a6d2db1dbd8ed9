"""What there is to see of a run, as plain values: JobSets, replicated jobs, Jobs and pods. Pure; it draws nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import Struct

from jobset.api import labels
from jobset.api.meta import Object, condition_of

PodState: TypeAlias = Literal[
    "gated", "pending", "starting", "running", "ready", "terminating", "succeeded", "failed", "backing off"
]
JobState: TypeAlias = Literal["suspended", "waiting", "starting", "ready", "succeeded", "failed", "ending"]


class PodRow(Struct, frozen=True):
    name: str
    state: PodState
    restarts: int
    node: str
    note: str = ""
    """Why it waits, or how it failed, in a few words."""

    @property
    def waits(self) -> bool:
        return self.state in ("gated", "pending", "starting", "backing off")


class JobRow(Struct, frozen=True):
    name: str
    state: JobState
    pods: tuple[PodRow, ...]


class GroupRow(Struct, frozen=True):
    """A replicated job. `wanted` counts its Jobs."""

    name: str
    wanted: int
    ready: int
    succeeded: int
    failed: int
    jobs: tuple[JobRow, ...]
    note: str = ""


class SetRow(Struct, frozen=True):
    """A JobSet, or a Job or Pod that stands alone (then with one group)."""

    kind: str
    name: str
    state: str
    restarts: int
    groups: tuple[GroupRow, ...]

    @property
    def wanted(self) -> int:
        return sum(group.wanted for group in self.groups)

    @property
    def done(self) -> int:
        return sum(group.succeeded for group in self.groups)

    @property
    def up(self) -> int:
        return sum(group.ready + group.succeeded for group in self.groups)


def jobset_row(jobset: Object, jobs: Iterable[Object], pods: Iterable[Object]) -> SetRow:
    """`jobs` and `pods` are those of this JobSet, of whatever attempt."""
    pods_of: dict[str, list[Object]] = {}
    for pod in pods:
        pods_of.setdefault(pod["metadata"].get("labels", {}).get(labels.BATCH_JOB_NAME, ""), []).append(pod)
    jobs_of: dict[str, list[Object]] = {}
    for job in jobs:
        jobs_of.setdefault(job["metadata"].get("labels", {}).get(labels.REPLICATED_JOB_NAME, ""), []).append(job)
    status = jobset.get("status") or {}
    counts = {entry["name"]: entry for entry in status.get("replicatedJobsStatus") or ()}
    groups = []
    for replicated in jobset["spec"].get("replicatedJobs") or ():
        name, count = replicated["name"], counts.get(replicated["name"], {})
        rows = sorted(
            (job_row(job, pods_of.get(job["metadata"]["name"], ())) for job in jobs_of.get(name, ())),
            key=lambda row: _natural(row.name),
        )
        note = "" if rows else _waits_for(replicated)
        groups.append(
            GroupRow(
                name,
                replicated.get("replicas", 1),
                count.get("ready", 0),
                count.get("succeeded", 0),
                count.get("failed", 0),
                tuple(rows),
                note,
            )
        )
    return SetRow("JobSet", jobset["metadata"]["name"], jobset_state(jobset), status.get("restarts", 0), tuple(groups))


def jobset_state(jobset: Object) -> str:
    """One word for where a JobSet stands."""
    status = jobset.get("status") or {}
    if status.get("terminalState"):
        return str(status["terminalState"])
    if jobset["spec"].get("suspend"):
        return "Suspended"
    if _is_true(jobset, "RestartingJobSet"):
        return "Restarting"
    entries = status.get("replicatedJobsStatus") or ()
    wanted = sum(job.get("replicas", 1) for job in jobset["spec"].get("replicatedJobs") or ())
    up = sum(entry.get("ready", 0) + entry.get("succeeded", 0) for entry in entries)
    return "Running" if wanted and up >= wanted else "Starting"


def lone_row(kind: str, obj: Object, pods: Iterable[Object]) -> SetRow:
    """A Job or Pod that belongs to no JobSet."""
    name = obj["metadata"]["name"]
    if kind == "Job":
        job = job_row(obj, pods)
    else:
        pod = pod_row(obj)
        states: dict[str, JobState] = {"succeeded": "succeeded", "failed": "failed", "ready": "ready"}
        job = JobRow(name, states.get(pod.state, "starting"), (pod,))
    words = {"succeeded": "Completed", "failed": "Failed", "ready": "Running", "suspended": "Suspended"}
    group = GroupRow(
        name, 1, int(job.state == "ready"), int(job.state == "succeeded"), int(job.state == "failed"), (job,)
    )
    return SetRow(kind, name, words.get(job.state, "Starting"), 0, (group,))


def counts(group: GroupRow) -> str:
    """How far a replicated job is: `1 ready, 2 succeeded of 4 (why it waits)`."""
    parts = [f"{group.ready} ready"] if group.ready or not group.succeeded else []
    parts += [f"{group.succeeded} succeeded"] if group.succeeded else []
    parts += [f"{group.failed} failed"] if group.failed else []
    return f"{', '.join(parts)} of {group.wanted}" + (f" ({group.note})" if group.note else "")


def pod_notes(row: SetRow) -> list[str]:
    """Why pods wait, each reason once."""
    pods = [pod for group in row.groups for job in group.jobs for pod in job.pods if pod.note and pod.waits]
    count = Counter(pod.note for pod in pods)
    first = {pod.note: pod.name for pod in reversed(pods)}
    others = {note: f" and {count[note] - 1} more" if count[note] > 1 else "" for note in count}
    return [f"Pod {first[note]}{others[note]}: {note}" for note in count]


def job_row(job: Object, pods: Iterable[Object]) -> JobRow:
    rows = sorted((pod_row(pod) for pod in pods), key=lambda row: _natural(row.name))
    return JobRow(job["metadata"]["name"], _job_state(job), tuple(rows))


def _job_state(job: Object) -> JobState:
    spec, status = job["spec"], job.get("status") or {}
    if _is_true(job, "Complete"):
        return "succeeded"
    if job["metadata"].get("deletionTimestamp"):
        return "ending"
    if _is_true(job, "Failed") or _is_true(job, "FailureTarget"):
        return "failed"
    if spec.get("suspend"):
        return "suspended"
    wanted = min(spec.get("parallelism", 1), spec.get("completions") or spec.get("parallelism", 1))
    if status.get("ready", 0) + status.get("succeeded", 0) >= wanted:
        return "ready"
    return "starting" if status.get("active") else "waiting"


def pod_row(pod: Object) -> PodRow:
    status = pod.get("status") or {}
    containers = status.get("containerStatuses") or ()
    restarts = sum(container.get("restartCount", 0) for container in containers)
    state, note = _pod_state(pod, status)
    return PodRow(pod["metadata"]["name"], state, restarts, pod["spec"].get("nodeName", ""), note)


def _pod_state(pod: Object, status: Object) -> tuple[PodState, str]:
    phase = status.get("phase", "Pending")
    if phase in ("Succeeded", "Failed"):
        return ("succeeded", "") if phase == "Succeeded" else ("failed", _exit_note(status))
    if pod["metadata"].get("deletionTimestamp"):
        return "terminating", ""
    if pod["spec"].get("schedulingGates"):
        return "gated", "waits for its scheduling gate"
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in ("CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError"):
            return "backing off", waiting.get("message") or waiting["reason"]
    if phase == "Pending":
        scheduled = condition_of(pod, "PodScheduled") or {}
        note = scheduled.get("message", "") if scheduled.get("status") == "False" else ""
        return ("starting" if pod["spec"].get("nodeName") else "pending"), note
    return ("ready" if _is_true(pod, "Ready") else "running"), ""


def _exit_note(status: Object) -> str:
    for container in status.get("containerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated") or {}
        if ended.get("exitCode"):
            return f"exit code {ended['exitCode']}"
    return str(status.get("reason", ""))


def _waits_for(replicated: Object) -> str:
    waits = [f"{item['name']} {item['status'].lower()}" for item in replicated.get("dependsOn") or ()]
    return "waits for " + " and ".join(waits) if waits else ""


def _is_true(obj: Object, condition: str) -> bool:
    return (condition_of(obj, condition) or {}).get("status") == "True"


def _natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sorts w-2 before w-10."""
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in name.split("-"))
