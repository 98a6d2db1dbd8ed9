"""The JobSet controller on the embedded API server: what it notices, what it sends, and what it does not send."""

import asyncio
from typing import Any

from jobset.api.errors import Unavailable
from jobset.api.meta import Object, condition_of
from jobset.api.resources import EVENTS, JOBS, JOBSETS, PERSISTENT_VOLUME_CLAIMS, SERVICES, Resource
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.client import InProcessClient
from jobset.cluster.model.kinds.kind import Kind, Subresource
from jobset.cluster.store.memory import MemoryStore
from jobset.core.features import FeatureGates
from jobset.local.admission import serve_jobsets
from jobset.operator.jobset import JobSetController
from jobset.sim.loop import wall_clock

POD = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}


class RecordingClient(InProcessClient):
    """Remembers what was written; `refuse` makes the next writes of a resource fail."""

    def __init__(self, service: ApiService) -> None:
        super().__init__(service)
        self.writes: list[tuple[str, str]] = []
        self.refuse: dict[Resource, int] = {}

    async def create(self, resource: Resource, body: Object, *, dry_run: bool = False) -> Object:
        self._note("create", resource)
        return await super().create(resource, body, dry_run=dry_run)

    async def patch(self, resource: Resource, *arguments: Any, **options: Any) -> Object:
        self._note("patch " + options.get("subresource", ""), resource)
        return await super().patch(resource, *arguments, **options)

    async def delete(self, resource: Resource, *arguments: Any, **options: Any) -> Object:
        self._note("delete", resource)
        return await super().delete(resource, *arguments, **options)

    def _note(self, verb: str, resource: Resource) -> None:
        self.writes.append((verb.strip(), resource.plural))
        if self.refuse.get(resource, 0):
            self.refuse[resource] -= 1
            raise Unavailable("try again")


class Setup:
    """`user` acts on the cluster, `client` is the controller's."""

    def __init__(self, *, admission: bool = True) -> None:
        self.service = ApiService(MemoryStore(), now=wall_clock(), seed=1)
        if admission:
            serve_jobsets(self.service, FeatureGates())
        else:
            status = Subresource(lambda new, old: {**old, "status": new["status"]})
            self.service.register(Kind(JOBSETS, subresources={"status": status}))
        self.user = InProcessClient(self.service)
        self.client = RecordingClient(self.service)

    async def __aenter__(self) -> "Setup":
        self._group = asyncio.TaskGroup()
        group = await self._group.__aenter__()
        self._running = group.create_task(JobSetController(self.client, wall_clock()).run())
        await asyncio.sleep(1)
        return self

    async def __aexit__(self, *error: Any) -> None:
        self._running.cancel()
        await self._group.__aexit__(*error)

    async def create(self, replicas: int = 2, name: str = "js", **spec: Any) -> None:
        pods = {"parallelism": 1, "completions": 1, "template": {"spec": POD}}
        replicated_job = {"name": "w", "replicas": replicas, "template": {"spec": pods}}
        metadata = {"name": name, "namespace": "default"}
        body = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": metadata,
            "spec": {"replicatedJobs": [replicated_job], **spec},
        }
        await self.user.create(JOBSETS, body)
        await asyncio.sleep(1)

    async def jobset(self) -> Object:
        return await self.user.get(JOBSETS, "default", "js", dict)

    async def jobs(self) -> list[Object]:
        return list((await self.user.list(JOBS, dict)).items)

    async def set_job_status(self, name: str, **status: Any) -> None:
        await self.user.patch(JOBS, "default", name, {"status": status}, subresource="status")

    async def events(self, reason: str) -> list[Object]:
        return [event for event in (await self.user.list(EVENTS, dict)).items if event["reason"] == reason]


async def test_a_new_jobset_costs_one_write_for_each_object_and_one_for_its_status() -> None:
    async with Setup() as s:
        await s.create(5)
        assert sorted(s.client.writes) == [
            *[("create", "jobs")] * 5,
            ("create", "services"),
            ("patch status", "jobsets"),
        ]


async def test_changes_that_cannot_matter_cause_no_pass_and_no_write() -> None:
    async with Setup() as s:
        await s.create(1)
        await s.set_job_status("js-w-0", active=1, ready=1)
        await asyncio.sleep(1)
        s.client.writes.clear()
        await s.set_job_status("js-w-0", active=1, ready=1, uncountedTerminatedPods={"failed": ["x"]})
        await s.user.patch(JOBSETS, "default", "js", {"metadata": {"labels": {"a": "b"}}})
        await asyncio.sleep(1)
        assert s.client.writes == []


async def test_refused_writes_are_tried_again_and_the_others_are_not_repeated() -> None:
    async with Setup() as s:
        s.client.refuse[JOBS] = 2
        await s.create(4)
        assert len(await s.jobs()) == 4
        assert s.client.writes.count(("create", "jobs")) == 6


async def test_an_unavailable_status_is_written_in_the_end_and_its_events_sent_once() -> None:
    async with Setup() as s:
        await s.create(2)
        s.client.refuse[JOBSETS] = 3
        conditions = [
            {
                "type": "FailureTarget",
                "status": "True",
                "reason": "X",
                "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ]
        await s.set_job_status("js-w-1", conditions=conditions)
        await asyncio.sleep(5)
        assert (await s.jobset())["status"]["terminalState"] == "Failed"
        (event,) = await s.events("FailedJobs")
        assert "series" not in event
        assert event["regarding"]["name"] == "js"
        assert event["reportingController"] == "jobset"


async def test_a_foreign_job_is_told_once_does_not_spin_and_is_replaced_when_it_goes() -> None:
    async with Setup() as s:
        foreign = {"metadata": {"name": "js-w-1", "namespace": "default"}, "spec": {"template": {"spec": POD}}}
        await s.user.create(JOBS, foreign)
        await s.create(2)
        s.client.writes.clear()
        await asyncio.sleep(3600)
        assert s.client.writes == []
        blocked = condition_of(await s.jobset(), "Blocked")
        assert blocked is not None
        assert (blocked["status"], blocked["reason"]) == ("True", "ForeignJob")
        assert len(await s.events("ForeignJob")) == 1
        await s.user.delete(JOBS, "default", "js-w-1", propagation="Background")
        await asyncio.sleep(1)
        blocked = condition_of(await s.jobset(), "Blocked")
        assert blocked is not None
        assert (blocked["status"], blocked["reason"]) == ("False", "Unblocked")
        assert all(job["metadata"]["ownerReferences"] for job in await s.jobs())


async def test_a_foreign_service_is_told_and_replaced_when_it_goes() -> None:
    async with Setup() as s:
        metadata = {"name": "js", "namespace": "default"}
        await s.user.create(SERVICES, {"metadata": metadata, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}})
        await s.create(1)
        blocked = condition_of(await s.jobset(), "Blocked")
        assert blocked is not None
        assert blocked["reason"] == "ForeignService"
        await s.user.delete(SERVICES, "default", "js")
        await asyncio.sleep(1)
        assert (await s.user.get(SERVICES, "default", "js", dict))["spec"]["clusterIP"] == "None"


async def test_what_was_deleted_by_others_comes_back() -> None:
    async with Setup() as s:
        await s.create(2)
        await s.user.delete(JOBS, "default", "js-w-0", propagation="Background")
        await s.user.delete(SERVICES, "default", "js")
        await asyncio.sleep(1)
        assert len(await s.jobs()) == 2
        assert await s.user.get(SERVICES, "default", "js", dict)


async def test_claims_are_created_once_and_again_when_deleted() -> None:
    async with Setup() as s:
        claim = {
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        container = {"name": "c", "image": "busybox", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}
        pods = {"parallelism": 1, "completions": 1, "template": {"spec": {**POD, "containers": [container]}}}
        await s.create(
            replicatedJobs=[{"name": "w", "replicas": 1, "template": {"spec": pods}}],
            volumeClaimPolicies=[{"templates": [claim]}],
        )
        await s.set_job_status("js-w-0", active=1)
        await asyncio.sleep(1)
        assert s.client.writes.count(("create", "persistentvolumeclaims")) == 1
        await s.user.patch(PERSISTENT_VOLUME_CLAIMS, "default", "data-js", {"metadata": {"finalizers": None}})
        await s.user.delete(PERSISTENT_VOLUME_CLAIMS, "default", "data-js")
        await asyncio.sleep(1)
        assert s.client.writes.count(("create", "persistentvolumeclaims")) == 2


async def test_a_jobset_that_admission_never_saw_is_a_message_and_keeps_nobody_else_waiting() -> None:
    async with Setup(admission=False) as s:
        broken = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "broken", "namespace": "default"},
        }
        await s.user.create(JOBSETS, {**broken, "spec": {"replicatedJobs": [{"name": "w", "replicas": "many"}]}})
        await s.create(2)
        assert len(await s.jobs()) == 2


async def test_jobsets_go_on_beside_each_other() -> None:
    async with Setup() as s:
        for number in range(20):
            await s.create(1, f"js{number}")
        assert len(await s.jobs()) == 20
