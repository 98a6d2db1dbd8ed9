"""A world of one Job for property tests: applies plans write by write, and may stop after any of them, like a crash."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta

from cluster.job.builders import T0, suffixes
from jobset.api.merge_patch import apply_merge_patch
from jobset.api.meta import Object, format_time
from jobset.cluster.model.job.backoff import NO_FAILURES, RetryDelays
from jobset.cluster.model.job.conditions import has, is_finished
from jobset.cluster.model.job.indexes import parse_indexes
from jobset.cluster.model.job.plan import Observed, plan
from jobset.cluster.model.job.pods import is_finalized, read_pod
from jobset.cluster.model.job.spec import read_spec
from jobset.cluster.model.kinds.job_status_validation import validate_job_status_update
from jobset.core.actions import Action, CreateObject, DeleteObject, PatchObject, Plan

GRACE_S = 30


class Crash(Exception):
    """The controller died between two writes."""


@dataclass
class World:
    job: Object
    pods: dict[str, Object] = field(default_factory=dict)
    elapsed_s: float = 0
    writes_left: int | None = None
    named: list[str] = field(default_factory=list)
    """UIDs that a status ever named as failed, in order."""
    failures = NO_FAILURES
    names = suffixes()

    @property
    def status(self) -> Object:
        status: Object = self.job["status"]
        return status

    # What the controller does.

    def look(self, writes: int | None = None) -> None:
        """One pass, which dies after so many writes."""
        self.writes_left = writes
        now = T0 + timedelta(seconds=self.elapsed_s)
        delays = RetryDelays(1.0, 8.0)
        observed = Observed(self.job, list(self.pods.values()), now, self.names, (), self.failures, delays)
        planned = plan(observed)
        try:
            for step in planned.steps:
                self._carry_out(step)
        except Crash:
            self.failures = NO_FAILURES
        else:
            self.failures = planned.failures

    def settle(self) -> None:
        """Passes until nothing changes any more."""
        for _ in range(20):
            before = self.job, dict(self.pods)
            self.look()
            if before == (self.job, self.pods):
                return
        raise AssertionError("passes go on without end")

    def _carry_out(self, step: Plan) -> None:
        for action in step.actions:
            self._count_write()
            self._act(action)
            self.check_pods()
        if step.status is not None:
            self._count_write()
            self._write_status(step.status)

    def _count_write(self) -> None:
        if self.writes_left is not None:
            self.writes_left -= 1
            if self.writes_left < 0:
                raise Crash

    def _act(self, action: Action) -> None:
        match action:
            case CreateObject(body=body):
                name = body["metadata"]["name"]
                assert name not in self.pods
                moment = format_time(T0 + timedelta(seconds=self.elapsed_s))
                metadata = {**body["metadata"], "uid": f"uid-{name}", "creationTimestamp": moment}
                self.pods[name] = {**body, "metadata": metadata, "status": {"phase": "Pending"}}
                assert self._places_taken() <= self.job["spec"]["parallelism"], "too many pods at once"
            case PatchObject(name=name, patch=patch):
                if name in self.pods:
                    self.pods[name] = apply_merge_patch(self.pods[name], patch)
                    self._reap(name)
            case DeleteObject(name=name):
                self.delete(name)

    def _write_status(self, new: Object) -> None:
        old = self.status
        for uid in (new.get("uncountedTerminatedPods") or {}).get("failed", ()):
            if uid not in (old.get("uncountedTerminatedPods") or {}).get("failed", ()):
                self.named.append(uid)
        spec = read_spec(self.job)
        if not spec.indexed:
            assert new.get("succeeded", 0) >= old.get("succeeded", 0), "succeeded fell"
        else:
            kept = parse_indexes(old.get("completedIndexes", ""), spec.completions or 0)
            assert len(parse_indexes(new.get("completedIndexes", ""), 1000)) >= len(kept), "an index was forgotten"
        below = spec.completions or 0
        lost = parse_indexes(old.get("failedIndexes", ""), below)
        assert parse_indexes(new.get("failedIndexes", ""), below).common(lost) == len(lost), "a failed index revived"
        assert new.get("failed", 0) >= old.get("failed", 0), "failed fell"
        assert not is_finished(self.job), "a finished Job was written again"
        changed = {**self.job, "status": new}
        assert validate_job_status_update(changed, self.job) == []
        self.job = changed
        self.check_status()

    # What everybody else does.

    def delete(self, name: str) -> None:
        pod = self.pods.get(name)
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            return
        grace = GRACE_S if pod["spec"].get("nodeName") and not read_pod(pod).ended else 0
        end = format_time(T0 + timedelta(seconds=self.elapsed_s + grace))
        metadata = {**pod["metadata"], "deletionTimestamp": end, "deletionGracePeriodSeconds": grace}
        self.pods[name] = {**pod, "metadata": metadata}
        self._reap(name)

    def run(self, name: str) -> None:
        pod = self.pods[name]
        if pod["status"]["phase"] == "Pending" and not read_pod(pod).deleted:
            self.pods[name] = {**pod, "spec": {**pod["spec"], "nodeName": "n"}, "status": {"phase": "Running"}}

    def end(self, name: str, exit_code: int) -> None:
        pod = self.pods[name]
        if read_pod(pod).ended:
            return
        moment = format_time(T0 + timedelta(seconds=self.elapsed_s))
        ended = {"name": "c", "state": {"terminated": {"exitCode": exit_code, "finishedAt": moment}}}
        phase = "Failed" if exit_code else "Succeeded"
        self.pods[name] = {**pod, "status": {"phase": phase, "containerStatuses": [ended]}}
        self._reap(name)

    def change_spec(self, **spec: object) -> None:
        if not is_finished(self.job):
            self.job = {**self.job, "spec": {**self.job["spec"], **spec}}

    def _reap(self, name: str) -> None:
        """A deleted pod without finalizers goes once nothing runs in it any more."""
        pod = self.pods[name]
        lingers = pod["metadata"].get("deletionGracePeriodSeconds") and not read_pod(pod).ended
        if "deletionTimestamp" in pod["metadata"] and not pod["metadata"].get("finalizers") and not lingers:
            del self.pods[name]

    # What must hold.

    def check_pods(self) -> None:
        spec = read_spec(self.job)
        if not spec.indexed:
            return
        places = [pod.index for pod in map(read_pod, self.pods.values()) if self._holds_place(pod.raw)]
        assert len(places) == len(set(places)), f"two live pods of one index: {sorted(places)}"

    def _places_taken(self) -> int:
        return sum(self._holds_place(pod) for pod in self.pods.values())

    def _holds_place(self, raw: Object) -> bool:
        pod = read_pod(raw)
        if pod.ended:
            return False
        return True if read_spec(self.job).replaces_only_failed else not pod.deleted

    def check_status(self) -> None:
        assert not (has(self.job, "Complete") and has(self.job, "Failed"))
        assert not (has(self.job, "SuccessCriteriaMet") and has(self.job, "FailureTarget"))
        assert has(self.job, "FailureTarget") or not has(self.job, "Failed")
        assert has(self.job, "SuccessCriteriaMet") or not has(self.job, "Complete")
        if is_finished(self.job):
            assert not any(read_pod(pod).terminating for pod in self.pods.values()), "finished before its pods"
            assert not self.status.get("active")

    def check_settled(self) -> None:
        """After `settle`: everything that ended is counted, once."""
        self.check_status()
        named = self.status["uncountedTerminatedPods"].get("failed", [])
        waiting = [pod for pod in self.pods.values() if pod["metadata"]["uid"] in named]
        assert len(waiting) == len(named), "a pod that is gone was not counted"
        assert all(is_finalized(pod) for pod in waiting), "a pod was let go and not counted"
        assert len(self.named) == len(set(self.named)), "a failure was named twice"
        assert self.status.get("failed", 0) + len(waiting) == len(self.named)
        active = sum(read_pod(pod).active for pod in self.pods.values())
        assert self.status.get("active", 0) == active
        if is_finished(self.job):
            assert active == 0
            assert not any(is_finalized(pod) for pod in self.pods.values())
        elif self.job["spec"].get("completions") is not None:  # a work queue that saw a success is left running
            assert active <= (0 if self.job["spec"].get("suspend") else self.job["spec"]["parallelism"])
        limit = self.job["spec"].get("backoffLimitPerIndex")
        if limit is not None:
            failures = Counter(uid.rsplit("-", 1)[0] for uid in self.named)
            assert all(count <= limit + 1 for count in failures.values()), f"more failures than allowed: {failures}"
