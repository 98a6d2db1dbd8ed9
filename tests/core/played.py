"""Plays a JobSet's life against `plan` alone, without a server: the test is the Job controller, and each pass leaves
readable lines in a transcript.

    world = World(jobset(rj("a"), rj("b", 2)))
    world.settle()
    world.ready("js-a-0")
    world.fail("js-b-1")
    world.settle()
    assert world.told() == ...
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from jobset.api.jobs import Job
from jobset.api.jobset import from_object
from jobset.api.merge_patch import apply_merge_patch
from jobset.api.meta import Object, controller_of, format_time, is_true
from jobset.api.resources import JOBS, JOBSETS, PERSISTENT_VOLUME_CLAIMS, SERVICES
from jobset.core.actions import Action, CreateObject, DeleteObject, PatchObject, Plan
from jobset.core.features import FeatureGates
from jobset.core.names import service_name
from jobset.core.observed import Observed, observed_of
from jobset.core.plan import plan
from jobset.core.volumes import claim_names
from jobset.sim.loop import START


def rj(name: str, replicas: int = 1, pods: int = 1, **fields: Any) -> Object:
    """A replicated job; `template` in `fields` is the pod template."""
    template = fields.pop("template", {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}})
    spec = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": template}
    return {"name": name, "replicas": replicas, "groupName": "default", "template": {"spec": spec}, **fields}


def jobset(*replicated_jobs: Object, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "js", "namespace": "ns", "uid": "js-uid", "annotations": annotations or {}},
        "spec": {"successPolicy": {"operator": "All"}, "replicatedJobs": list(replicated_jobs), **spec},
    }


def failure_policy(max_restarts: int = 0, *rules: Object, strategy: str = "Recreate") -> Object:
    return {"maxRestarts": max_restarts, "restartStrategy": strategy, "rules": list(rules)}


class World:
    """One JobSet, its Jobs, and everything else that `plan` looks at."""

    def __init__(self, raw: Object, gates: FeatureGates | None = None) -> None:
        self.raw = raw
        self.gates = gates or FeatureGates()
        self.jobs: dict[str, Object] = {}
        self.service: Object | None = None
        self.claims: set[str] = set()
        self.now = START
        self.deleted = False
        self.lines: list[str] = []
        self.passes = 0
        self.last = Plan()
        self._uids = 0

    # what the controller does

    def observe(self) -> Observed:
        view = from_object(self.raw)
        views = {name: msgspec.convert(job, Job) for name, job in self.jobs.items()}
        owned = [job for job in views.values() if job.metadata.controller and job.metadata.controller.uid == "js-uid"]
        return observed_of(
            self.raw,
            view,
            jobs=owned,
            find_job=views.get,
            service=self.service if self.service and self.service["metadata"]["name"] == service_name(view) else None,
            claims=[name for name in claim_names(view) if name in self.claims],
            gates=self.gates,
            now=self.now,
        )

    def one_pass(self) -> bool:
        """Plan and apply once; whether anything came of it."""
        decided = self.last = plan(self.observe())
        self.passes += 1
        before = self.raw.get("status") or {}
        for action in decided.actions:
            self._apply(action)
        if decided.status is not None:
            assert decided.status != before, "a status that does not differ must not be written"
            self._tell(_status_line(before, decided.status))
            self.raw = {**self.raw, "status": decided.status}
        for event in decided.events:
            self._tell(f"{event.type} {event.reason}: {event.message}")
        self._play_job_controller()
        return bool(decided.actions or decided.status)

    def settle(self, limit: int = 30) -> None:
        """Passes until one comes to nothing."""
        for _ in range(limit):
            if not self.one_pass():
                return
        raise AssertionError("the passes never come to rest:\n" + self.told())

    def told(self) -> str:
        """What happened since the last call."""
        lines, self.lines = self.lines, []
        return "\n".join(lines)

    # what the world does

    def ready(self, *names: str) -> None:
        for name in names or sorted(self.jobs):
            pods = self.jobs[name]["spec"]["parallelism"]
            self._set_status(name, active=pods, ready=pods)

    def lose_readiness(self, name: str) -> None:
        self._set_status(name, ready=0)

    def succeed(self, *names: str) -> None:
        for name in names or sorted(self.jobs):
            self._set_status(name, active=0, ready=0, succeeded=self.jobs[name]["spec"]["completions"])
            self._set_condition(name, "Complete", "True", "CompletionsReached", "")

    def fail(
        self, *names: str, reason: str = "BackoffLimitExceeded", message: str = "", target_only: bool = False
    ) -> None:
        for name in names:
            self._set_condition(name, "FailureTarget", "True", reason, message)
            if not target_only:
                self._set_status(name, active=0, ready=0)
                self._set_condition(name, "Failed", "True", reason, message)

    def collect(self, *names: str) -> None:
        """Finish the foreground deletion of these Jobs, or of all that are being deleted."""
        for name in names or [name for name, job in self.jobs.items() if "deletionTimestamp" in job["metadata"]]:
            del self.jobs[name]

    def edit(self, **spec: Any) -> None:
        self.raw = {**self.raw, "spec": {**self.raw["spec"], **spec}}

    def sleep(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def add_foreign_job(self, name: str, owner: Object | None = None) -> None:
        self._uids += 1
        metadata: Object = {"name": name, "namespace": "ns", "uid": f"foreign-{self._uids}"}
        if owner is not None:
            metadata["ownerReferences"] = [{**owner, "controller": True}]
        self.jobs[name] = {"metadata": metadata, "spec": {"parallelism": 1, "completions": 1}, "status": {}}

    # what the test asks

    @property
    def status(self) -> Object:
        status: Object = self.raw.get("status") or {}
        return status

    def condition(self, type_: str) -> tuple[str, str] | None:
        found = [each for each in self.status.get("conditions", ()) if each["type"] == type_]
        return (found[0]["status"], found[0]["reason"]) if found else None

    def counts(self, name: str) -> Object:
        return next(entry for entry in self.status["replicatedJobsStatus"] if entry["name"] == name)

    def labels(self, name: str) -> dict[str, str]:
        labels: dict[str, str] = self.jobs[name]["metadata"]["labels"]
        return labels

    def _tell(self, line: str) -> None:
        self.lines.append(f"{self.passes:>2} {line}")

    def _apply(self, action: Action) -> None:
        match action:
            case CreateObject(resource=resource, body=body):
                self._create(resource.kind, body)
            case DeleteObject():
                self._delete(action)
            case PatchObject():
                self._patch(action)

    def _create(self, kind: str, body: Object) -> None:
        name = body["metadata"]["name"]
        self._uids += 1
        body = {**body, "metadata": {**body["metadata"], "uid": f"uid-{self._uids}"}}
        if kind == JOBS.kind:
            assert name not in self.jobs, f"{name} is created twice"
            self.jobs[name] = {**body, "status": {}}
            labels = body["metadata"]["labels"]
            attempt = labels["jobset.sigs.k8s.io/restart-attempt"]
            own = labels.get("jobset.sigs.k8s.io/job-restart-attempt", "0")
            suspended = " suspended" if body["spec"]["suspend"] else ""
            self._tell(f"create Job {name} attempt {attempt}{'+' + own if own != '0' else ''}{suspended}")
        elif kind == SERVICES.kind:
            assert self.service is None
            self.service = body
            self._tell(f"create Service {name}")
        else:
            assert kind == PERSISTENT_VOLUME_CLAIMS.kind
            assert name not in self.claims
            self.claims.add(name)
            self._tell(f"create PersistentVolumeClaim {name}")

    def _delete(self, action: DeleteObject) -> None:
        self._tell(f"delete {action.resource.kind} {action.name}")
        assert action.propagation == "Foreground"
        if action.resource == JOBSETS:
            self.deleted = True
            metadata = {**self.raw["metadata"], "deletionTimestamp": format_time(self.now)}
            self.raw = {**self.raw, "metadata": metadata}
            return
        job = self.jobs[action.name]
        assert job["metadata"]["uid"] == action.uid
        metadata = {**job["metadata"], "deletionTimestamp": format_time(self.now)}
        self.jobs[action.name] = {**job, "metadata": metadata}

    def _patch(self, action: PatchObject) -> None:
        job = self.jobs[action.name]
        assert action.resource == JOBS
        assert action.uid == job["metadata"]["uid"]
        assert set(action.patch) == ({"status"} if action.subresource else {"spec"})
        patched = apply_merge_patch(job, action.patch)
        assert patched != job, "a patch that changes nothing must not be sent"
        if patched["spec"]["template"] != job["spec"]["template"]:
            conditions = msgspec.convert(job, Job).status.conditions
            assert is_true(conditions, "Suspended"), "the template of a Job may change only while it is seen suspended"
            assert "startTime" not in job["status"], "the template of a started Job may not change"
        self.jobs[action.name] = patched
        self._tell(f"patch Job {action.name} {_flat(action.patch)}")

    def _play_job_controller(self) -> None:
        """Suspends and starts Jobs; which pods get ready, succeed or fail is the test's to say."""
        for name, job in list(self.jobs.items()):
            if "deletionTimestamp" in job["metadata"] or controller_of(job) is None:
                continue
            conditions = {each["type"]: each["status"] for each in job["status"].get("conditions", ())}
            if conditions.keys() & {"Complete", "Failed", "FailureTarget"}:
                continue
            if job["spec"].get("suspend"):
                if conditions.get("Suspended") != "True":
                    self._set_status(name, active=0, ready=0)
                    self._set_condition(name, "Suspended", "True", "JobSuspended", "Job suspended")
            elif "startTime" not in job["status"]:
                self._set_status(name, active=job["spec"]["parallelism"], ready=0, startTime=format_time(self.now))
                if conditions.get("Suspended") == "True":
                    self._set_condition(name, "Suspended", "False", "JobResumed", "Job resumed")

    def _set_status(self, name: str, **fields: Any) -> None:
        job = self.jobs[name]
        self.jobs[name] = {**job, "status": {**job["status"], **fields}}

    def _set_condition(self, name: str, type_: str, status: str, reason: str, message: str) -> None:
        others = [each for each in self.jobs[name]["status"].get("conditions", ()) if each["type"] != type_]
        condition = {"type": type_, "status": status, "reason": reason, "message": message}
        self._set_status(name, conditions=[*others, {**condition, "lastTransitionTime": format_time(self.now)}])


def _flat(patch: Any, path: str = "") -> str:
    if isinstance(patch, dict) and patch:
        return " ".join(_flat(value, f"{path}.{key}" if path else key) for key, value in patch.items())
    return f"{path}={patch}"


def _status_line(before: Object, after: Object) -> str:
    """Only what changed: restart counters, conditions, and per replicated job ready/succeeded/failed of active."""
    parts = [
        f"{key}={after[key]}"
        for key in ("restarts", "restartsCountTowardsMax", "terminalState")
        if after.get(key, 0) != before.get(key, 0)
    ]
    old = {each["type"]: each for each in before.get("conditions", ())}
    new = [each for each in after.get("conditions", ()) if each != old.get(each["type"])]
    parts += [f"{each['type']}={each['status']}/{each['reason']}" for each in new]
    entries = {entry["name"]: entry for entry in before.get("replicatedJobsStatus", ())}
    for entry in reversed(after.get("replicatedJobsStatus", ())):
        was = entries.get(entry["name"], {})
        changed = [f"{key}={value}" for key, value in entry.items() if key != "name" and value != was.get(key, 0)]
        if changed:
            parts.append(f"{entry['name']}({' '.join(changed)})")
    return "status " + (" ".join(parts) or "counts")
