"""The Job and TTL controllers on the embedded API, on virtual time, with the test as the nodes' agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from jobset.api.errors import NotFound
from jobset.api.meta import Object, condition_of, parse_time
from jobset.api.resources import CORE_EVENTS, JOBS, PODS
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.client import InProcessClient
from jobset.cluster.controllers.job import JobController
from jobset.cluster.controllers.ttl import TTLController
from jobset.cluster.model.job.backoff import KUBERNETES_DELAYS, RetryDelays
from jobset.cluster.store.memory import MemoryStore
from jobset.reconcile.informer import SharedInformers
from jobset.sim.loop import wall_clock

TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}
RUNNING = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


@dataclass
class Cluster:
    service: ApiService
    client: InProcessClient

    async def create(self, name: str = "j", **spec: Any) -> Object:
        body = {"metadata": {"name": name, "namespace": "default"}, "spec": {"template": TEMPLATE, **spec}}
        return await self.client.create(JOBS, body)

    async def patch(self, patch: Object, name: str = "j") -> Object:
        return await self.client.patch(JOBS, "default", name, patch)

    async def job(self, name: str = "j") -> Object:
        return await self.client.get(JOBS, "default", name, dict)

    async def pods(self) -> list[Object]:
        return list((await self.client.list(PODS, dict, namespace="default")).items)

    async def report(self, pod: Object, status: Object) -> None:
        await self.client.patch(PODS, "default", pod["metadata"]["name"], {"status": status}, subresource="status")

    async def wait_status(self, holds: Callable[[Object], Any], name: str = "j", timeout_s: float = 60) -> Object:
        async with asyncio.timeout(timeout_s):
            while not holds(status := (await self.job(name)).get("status", {})):
                await asyncio.sleep(0.001)
        return status

    async def wait_pods(self, count: int, timeout_s: float = 60) -> list[Object]:
        async with asyncio.timeout(timeout_s):
            while len(pods := await self.pods()) != count:
                await asyncio.sleep(0.001)
        return pods


@asynccontextmanager
async def running(retry_delays: RetryDelays = KUBERNETES_DELAYS) -> AsyncIterator[Cluster]:
    now = wall_clock()
    service = ApiService(MemoryStore(paranoid=True), now=now, seed=1)
    client = InProcessClient(service)
    informers = SharedInformers(client)
    jobs = JobController(client, informers, now, retry_delays=retry_delays, seed=2)
    ttl = TTLController(client, informers, now)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part.run()) for part in (informers, jobs, ttl)]
        yield Cluster(service, client)
        for task in tasks:
            task.cancel()
    service.store.verify()


def elapsed_s() -> float:
    return asyncio.get_running_loop().time()


async def test_ten_pods_that_become_ready_together_cost_one_status_write() -> None:
    async with running() as cluster:
        await cluster.create(completionMode="Indexed", completions=10, parallelism=10)
        pods = await cluster.wait_pods(10)
        await cluster.wait_status(lambda status: status.get("active") == 10)
        before = int((await cluster.job())["metadata"]["resourceVersion"])
        seen: list[str] = []
        for pod in pods:
            await cluster.report(pod, RUNNING)
            seen.append((await cluster.job())["metadata"]["resourceVersion"])
        await cluster.wait_status(lambda status: status.get("ready") == 10)
        assert set(seen) == {str(before)}
        await asyncio.sleep(5)
        after = int((await cluster.job())["metadata"]["resourceVersion"])
        assert after == before + 11, "ten pods' reports and one status, no more"


async def test_a_failure_is_seen_without_any_delay() -> None:
    async with running() as cluster:
        await cluster.create(backoffLimit=0, parallelism=2, completions=2)
        first, _ = await cluster.wait_pods(2)
        start = elapsed_s()
        await cluster.report(first, {"phase": "Failed"})
        await cluster.wait_status(lambda status: condition_of({"status": status}, "FailureTarget"))
        assert elapsed_s() - start < 0.005
        await cluster.wait_status(lambda status: condition_of({"status": status}, "Failed"))


async def test_edits_of_the_job_meanwhile_make_no_doublets() -> None:
    """The status write conflicts again and again after pods were created."""
    async with running() as cluster:
        await cluster.create(completions=20, parallelism=1)
        for number in range(40):
            await cluster.patch(
                {"metadata": {"annotations": {"edit": str(number)}}, "spec": {"parallelism": number % 9}}
            )
            await asyncio.sleep(0)
            for pod in await cluster.pods():
                if "deletionTimestamp" not in pod["metadata"]:
                    await cluster.report(pod, {"phase": "Running"})
        await cluster.patch({"spec": {"parallelism": 5}})
        status = await cluster.wait_status(lambda status: status.get("active") == 5)
        await asyncio.sleep(5)
        assert len(await cluster.pods()) == 5
        assert "failed" not in status


@pytest.mark.parametrize(("delays", "wait_s"), [(KUBERNETES_DELAYS, 10), (RetryDelays(0.5, 600), 0.5)])
async def test_the_replacement_comes_after_the_back_off(delays: RetryDelays, wait_s: float) -> None:
    async with running(delays) as cluster:
        await cluster.create()
        (pod,) = await cluster.wait_pods(1)
        await cluster.report(pod, {"phase": "Failed"})
        created_s = parse_time(pod["metadata"]["creationTimestamp"]).timestamp()
        pods = await cluster.wait_pods(2)
        assert parse_time(pods[-1]["metadata"]["creationTimestamp"]).timestamp() - created_s == int(wait_s)
        assert (await cluster.job())["status"]["failed"] == 1


async def test_pods_of_a_job_that_is_gone_lose_the_finalizer() -> None:
    async with running() as cluster:
        await cluster.create(parallelism=2, completions=2)
        await cluster.wait_pods(2)
        await cluster.client.delete(JOBS, "default", "j", propagation="Background")
        async with asyncio.timeout(5):
            while any(pod["metadata"].get("finalizers") for pod in await cluster.pods()):
                await asyncio.sleep(0.01)


async def test_a_job_made_again_under_its_name_does_not_count_old_pods() -> None:
    async with running() as cluster:
        await cluster.create()
        (old,) = await cluster.wait_pods(1)
        await cluster.client.delete(JOBS, "default", "j", propagation="Background")
        new = await cluster.create()
        pods = await cluster.wait_pods(2)
        await cluster.report(old, {"phase": "Succeeded"})
        await asyncio.sleep(5)
        assert (await cluster.job())["status"]["active"] == 1
        owners = [pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods]
        assert owners.count(new["metadata"]["uid"]) == 1


async def test_a_pod_that_lost_its_owner_is_adopted_again_and_one_with_the_labels_only_is_not() -> None:
    async with running() as cluster:
        job = await cluster.create(parallelism=2, completions=2)
        lost, _ = await cluster.wait_pods(2)
        labels = {"job-name": "j", "batch.kubernetes.io/job-name": "j"}
        foreign = {"metadata": {"name": "foreign", "namespace": "default", "labels": labels}, "spec": TEMPLATE["spec"]}
        await cluster.client.create(PODS, foreign)
        name = lost["metadata"]["name"]
        await cluster.client.patch(PODS, "default", name, {"metadata": {"ownerReferences": None}})
        await asyncio.sleep(1)
        pods = {pod["metadata"]["name"]: pod["metadata"] for pod in await cluster.pods()}
        assert len(pods) == 3, "no replacement for the one that came back"
        assert pods[name]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
        assert pods[name]["finalizers"] == ["batch.kubernetes.io/job-tracking"]
        assert "ownerReferences" not in pods["foreign"]


async def test_jobs_of_another_controller_are_left_alone() -> None:
    async with running() as cluster:
        await cluster.create(managedBy="example.com/other")
        await asyncio.sleep(60)
        assert await cluster.pods() == []
        assert not (await cluster.job()).get("status")


async def test_a_big_job_does_not_flood_the_store_with_events() -> None:
    async with running() as cluster:
        await cluster.create(parallelism=600, completions=600)
        await cluster.wait_pods(600)
        events = (await cluster.client.list(CORE_EVENTS, dict)).items
        assert len(events) == 25
        assert {event["reason"] for event in events} == {"SuccessfulCreate"}


async def finish(cluster: Cluster) -> None:
    (pod,) = await cluster.wait_pods(1)
    await cluster.report(pod, {"phase": "Succeeded"})
    await cluster.wait_status(lambda status: condition_of({"status": status}, "Complete"))


async def test_a_finished_job_is_deleted_after_its_time_to_live() -> None:
    async with running() as cluster:
        await cluster.create(ttlSecondsAfterFinished=100)
        await finish(cluster)
        await asyncio.sleep(90)
        assert "deletionTimestamp" not in (await cluster.job())["metadata"]
        await asyncio.sleep(20)
        assert (await cluster.job())["metadata"]["finalizers"] == ["foregroundDeletion"]


async def test_a_time_to_live_extended_in_time_counts() -> None:
    async with running() as cluster:
        await cluster.create(ttlSecondsAfterFinished=100)
        await finish(cluster)
        await asyncio.sleep(90)
        await cluster.patch({"spec": {"ttlSecondsAfterFinished": 1000}})
        await asyncio.sleep(500)
        assert "deletionTimestamp" not in (await cluster.job())["metadata"]


async def test_a_job_gone_before_its_time_to_live_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    async with running() as cluster:
        await cluster.create(ttlSecondsAfterFinished=10)
        await finish(cluster)
        await cluster.client.delete(JOBS, "default", "j", propagation="Background")
        await asyncio.sleep(60)
        with pytest.raises(NotFound):
            await cluster.job()
    assert caplog.records == []
