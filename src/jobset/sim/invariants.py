"""What must hold of a JobSet, its Jobs and pods at every moment, whatever happened before. Pure.

One function, asked after every step of a simulation and after every loop test. It looks at raw objects only, so it
cannot share a mistake with the code it checks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from jobset.api import labels
from jobset.api.meta import Object, condition_of, controller_of


class Snapshot(Struct, frozen=True):
    """The objects of one moment. `settled`: no controller has anything left to do."""

    jobsets: tuple[Object, ...]
    jobs: tuple[Object, ...] = ()
    pods: tuple[Object, ...] = ()
    settled: bool = False


def check_invariants(before: Snapshot | None, now: Snapshot) -> list[str]:
    """The violations, in words; `before` is an earlier moment of the same world."""
    found = list(_one_live_pod_each(now.pods))
    jobs_of: dict[str, list[Object]] = {}
    for job in now.jobs:
        jobs_of.setdefault((controller_of(job) or {}).get("uid", ""), []).append(job)
    earlier = {each["metadata"]["uid"]: each for each in before.jobsets} if before is not None else {}
    for jobset in now.jobsets:
        uid = jobset["metadata"]["uid"]
        problems = [
            *_counters_never_fall(earlier.get(uid), jobset),
            *_restarts_are_bounded(jobset),
            *_an_end_is_final(earlier.get(uid), jobset),
            *(_settled(jobset, jobs_of.get(uid, [])) if now.settled else ()),
        ]
        found += [f"JobSet {jobset['metadata']['name']}: {problem}" for problem in problems]
    return found


def _one_live_pod_each(pods: Iterable[Object]) -> Iterable[str]:
    live: Counter[tuple[str, str, str]] = Counter()
    for pod in pods:
        metadata = pod["metadata"]
        phase = (pod.get("status") or {}).get("phase")
        if metadata.get("deletionTimestamp") or phase in ("Succeeded", "Failed"):
            continue
        index = (metadata.get("annotations") or {}).get(labels.JOB_COMPLETION_INDEX)
        if index is not None:
            job = (metadata.get("labels") or {}).get(labels.BATCH_JOB_NAME, "")
            live[metadata.get("namespace", ""), job, index] += 1
    return [f"{count} live pods of Job {job} index {index}" for (_, job, index), count in live.items() if count > 1]


def _counters_never_fall(before: Object | None, now: Object) -> Iterable[str]:
    old, new = _counters(before or {}), _counters(now)
    return [
        f"{name} fell from {value} to {new.get(name, 0)}" for name, value in old.items() if new.get(name, 0) < value
    ]


def _counters(jobset: Object) -> dict[str, int]:
    status = jobset.get("status") or {}
    found = {name: status.get(name) or 0 for name in ("restarts", "restartsCountTowardsMax")}
    for entry in status.get("replicatedJobsStatus") or ():
        for name in ("jobRestarts", "jobRestartsCountTowardsMax"):
            found.update({f"{entry['name']}.{name}[{i}]": n for i, n in enumerate(entry.get(name) or ())})
    return found


def _restarts_are_bounded(jobset: Object) -> Iterable[str]:
    policy = jobset["spec"].get("failurePolicy") or {}
    counters = _counters(jobset)
    total = sum(value for name, value in counters.items() if "CountTowardsMax" in name)
    most = max(policy.get("maxRestarts") or 0, 0)
    return [f"{total} counted restarts, at most {most} are allowed"] if total > most else []


def _an_end_is_final(before: Object | None, now: Object) -> Iterable[str]:
    ended = [type_ for type_ in ("Completed", "Failed") if _holds(now, type_)]
    if len(ended) > 1:
        yield "both Completed and Failed"
    if (now.get("status") or {}).get("terminalState", "") != (ended[0] if ended else ""):
        yield f"terminalState does not tell {ended}"
    if before is not None and any(_holds(before, type_) and type_ not in ended for type_ in ("Completed", "Failed")):
        yield "left its terminal state"


def _settled(jobset: Object, jobs: list[Object]) -> Iterable[str]:
    attempt = (jobset.get("status") or {}).get("restarts") or 0
    over = _holds(jobset, "Completed") or _holds(jobset, "Failed")
    for job in jobs:
        metadata = job["metadata"]
        if metadata.get("deletionTimestamp"):
            continue
        if int(metadata["labels"][labels.RESTART_ATTEMPT]) < attempt:
            yield f"Job {metadata['name']} outlived its attempt"
        ended = any(_holds(job, type_) for type_ in ("Complete", "Failed", "FailureTarget"))
        if over and not ended:
            yield f"is finished, but Job {metadata['name']} is active"


def _holds(obj: Object, type_: str) -> bool:
    condition = condition_of(obj, type_)
    return condition is not None and condition["status"] == "True"
