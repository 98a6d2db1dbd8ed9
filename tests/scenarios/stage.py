"""A stage for the numbered scenarios: API server, JobSet admission and JobSet controller in process, no Job controller.

As in the original's suites the test plays the Job controller and the garbage collector. Time is virtual: `settle` lets
everybody finish what they can do now.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from jobset.api.errors import NotFound
from jobset.api.meta import Object, condition_of, controller_of, format_time
from jobset.api.resources import EVENTS, JOBS, JOBSETS, PERSISTENT_VOLUME_CLAIMS, SERVICES, Resource
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.client import InProcessClient
from jobset.cluster.model.kinds.kind import Kind, Subresource
from jobset.cluster.store.memory import MemoryStore
from jobset.core.features import FeatureGates
from jobset.local.admission import serve_jobsets
from jobset.operator.jobset import JobSetController
from jobset.sim.invariants import Snapshot, check_invariants
from jobset.sim.loop import wall_clock

NAMESPACE = "default"
A, B = "replicated-job-a", "replicated-job-b"
PREFIX = "jobset.sigs.k8s.io/"


def pod_spec(**fields: Any) -> Object:
    return {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}], **fields}


def replicated(name: str, replicas: int = 1, *, pods: int = 1, **fields: Any) -> Object:
    spec = {"parallelism": pods, "completions": pods, "template": {"spec": pod_spec()}, **fields.pop("job", {})}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **fields}


def base(*replicated_jobs: Object, name: str = "js", metadata: Object | None = None, **spec: Any) -> Object:
    """Without arguments: replicated-job-a once and replicated-job-b three times, as in the original's suites."""
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": NAMESPACE, **(metadata or {})},
        "spec": {"replicatedJobs": list(replicated_jobs) or [replicated(A), replicated(B, 3)], **spec},
    }


def rule(action: str, name: str = "Rule1", **fields: Any) -> Object:
    return {"name": name, "action": action, **fields}


def policy(max_restarts: int = 0, *rules: Object, strategy: str = "Recreate") -> Object:
    return {"maxRestarts": max_restarts, "restartStrategy": strategy, "rules": list(rules)}


class Stage:
    """What a scenario does and asks. Jobs are named by replicated job and index: `b(1)`."""

    def __init__(self, client: InProcessClient) -> None:
        self.client = client
        self.now = wall_clock()
        self._before: Snapshot | None = None

    # the user

    async def create(self, jobset: Object) -> Object:
        created = await self.client.create(JOBSETS, jobset)
        await self.settle()
        return created

    async def edit(self, name: str = "js", **spec: Any) -> None:
        """Update fields of the spec, as a user would."""
        jobset = await self.client.get(JOBSETS, NAMESPACE, name, dict)
        await self.client.update(JOBSETS, {**jobset, "spec": {**jobset["spec"], **spec}})
        await self.settle()

    async def delete(self, resource: Resource, name: str, propagation: Any = "Background") -> None:
        await self.client.delete(resource, NAMESPACE, name, propagation=propagation)
        await self.settle()

    # the Job controller

    async def ready(self, *names: str) -> None:
        for name in names or await self.job_names():
            pods = (await self.job(name))["spec"]["parallelism"]
            await self._write_status(name, {"active": pods, "ready": pods}, started=True)
        await self.settle()

    async def succeed(self, *names: str) -> None:
        for name in names or await self.job_names():
            pods = (await self.job(name))["spec"]["completions"]
            status = {"active": 0, "ready": 0, "succeeded": pods, "completionTime": format_time(self.now())}
            conditions = [self._condition("SuccessCriteriaMet"), self._condition("Complete")]
            await self._write_status(name, {**status, "conditions": conditions}, started=True)
        await self.settle()

    async def fail(self, *names: str, reason: str = "BackoffLimitExceeded", message: str = "it failed") -> None:
        """At once: the controller sees all of them in the same pass."""
        for name in names:
            conditions = [self._condition(type_, reason, message) for type_ in ("FailureTarget", "Failed")]
            status = {"active": 0, "ready": 0, "failed": 1, "conditions": conditions}
            await self._write_status(name, status, started=True)
        await self.settle()

    async def see_suspended(self) -> None:
        """Every suspended Job gets its own Suspended condition."""
        for name in await self.job_names():
            job = await self.job(name)
            if job["spec"].get("suspend") and condition_of(job, "Suspended") is None:
                await self._write_status(name, {"conditions": [self._condition("Suspended", "JobSuspended")]})
        await self.settle()

    # the garbage collector

    async def collect(self, *names: str) -> None:
        """Let Jobs go whose deletion waits for their pods; then delete what lost its owner."""
        for name in names or await self.job_names():
            if "deletionTimestamp" in (await self.job(name))["metadata"]:
                await self.client.patch(JOBS, NAMESPACE, name, {"metadata": {"finalizers": None}})
        await self.settle()

    async def collect_orphans(self) -> None:
        owners = {jobset["metadata"]["uid"] for jobset in await self.list(JOBSETS)}
        for resource in (JOBS, SERVICES, PERSISTENT_VOLUME_CLAIMS):
            for obj in await self.list(resource):
                owner = controller_of(obj)
                if owner is not None and owner["uid"] not in owners:
                    await self.client.delete(resource, NAMESPACE, obj["metadata"]["name"], propagation="Background")
        await self.settle()

    # time, and what is there

    async def settle(self, seconds: float = 1.0) -> None:
        await asyncio.sleep(seconds)
        now = Snapshot(tuple(await self.list(JOBSETS)), tuple(await self.list(JOBS)), settled=True)
        assert check_invariants(self._before, now) == []
        self._before = now

    async def list(self, resource: Resource) -> list[Object]:
        return list((await self.client.list(resource, dict, namespace=NAMESPACE)).items)

    async def jobset(self, name: str = "js") -> Object:
        return await self.client.get(JOBSETS, NAMESPACE, name, dict)

    async def status(self, name: str = "js") -> Object:
        status: Object = (await self.jobset(name)).get("status", {})
        return status

    async def job(self, name: str) -> Object:
        return await self.client.get(JOBS, NAMESPACE, name, dict)

    async def job_names(self) -> list[str]:
        return sorted(job["metadata"]["name"] for job in await self.list(JOBS))

    async def exists(self, resource: Resource, name: str) -> bool:
        try:
            await self.client.get(resource, NAMESPACE, name, dict)
        except NotFound:
            return False
        return True

    async def condition(self, type_: str, name: str = "js") -> tuple[str, str] | None:
        """(status, reason)"""
        found = condition_of(await self.jobset(name), type_)
        return None if found is None else (found["status"], found["reason"])

    async def is_active(self, name: str = "js") -> bool:
        return not (await self.status(name)).get("terminalState")

    async def counts(self, replicated_job: str, *fields: str) -> tuple[Any, ...]:
        entries = {entry["name"]: entry for entry in (await self.status())["replicatedJobsStatus"]}
        return tuple(entries[replicated_job].get(field) for field in fields)

    async def restarts(self) -> tuple[int, int]:
        """(all, counted)"""
        status = await self.status()
        return status["restarts"], status.get("restartsCountTowardsMax", 0)

    async def attempts(self) -> list[str]:
        """Of the Jobs that are not being deleted."""
        jobs = [job["metadata"] for job in await self.list(JOBS)]
        return sorted(job["labels"][f"{PREFIX}restart-attempt"] for job in jobs if "deletionTimestamp" not in job)

    async def suspended(self) -> dict[str, bool]:
        return {job["metadata"]["name"]: job["spec"]["suspend"] for job in await self.list(JOBS)}

    async def events(self) -> list[Object]:
        return await self.list(EVENTS)

    def _condition(self, type_: str, reason: str = "", message: str = "") -> Object:
        time = format_time(self.now())
        return {"type": type_, "status": "True", "reason": reason, "message": message, "lastTransitionTime": time}

    async def _write_status(self, name: str, status: Object, *, started: bool = False) -> None:
        if started and not (await self.job(name)).get("status", {}).get("startTime"):
            status = {**status, "startTime": format_time(self.now())}
        await self.client.patch(JOBS, NAMESPACE, name, {"status": status}, subresource="status")


UNCHECKED = Kind(JOBSETS, subresources={"status": Subresource(lambda new, old: {**old, "status": new["status"]})})
"""JobSets without definition and admission: whatever comes is stored."""


@asynccontextmanager
async def stage(gates: FeatureGates | None = None, *, admission: bool = True) -> AsyncIterator[Stage]:
    """Without `admission` JobSets are stored as they come, as on a cluster without webhooks."""
    gates = gates or FeatureGates()
    now = wall_clock()
    service = ApiService(MemoryStore(), now=now, seed=1)
    if admission:
        serve_jobsets(service, gates)
    else:
        service.register(UNCHECKED)
    client = InProcessClient(service)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(JobSetController(client, now, gates).run())
        yield Stage(client)
        running.cancel()


def a(index: int = 0, jobset: str = "js") -> str:
    return f"{jobset}-{A}-{index}"


def b(index: int, jobset: str = "js") -> str:
    return f"{jobset}-{B}-{index}"
