"""JobSets on the whole embedded cluster: Job controller, scheduler, kubelet, garbage collector, scripted containers.

Every change of a JobSet, Job or pod is held against the invariants, at the moment it happens.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobset.api.meta import Object, condition_of
from jobset.api.resources import EVENTS, JOBS, JOBSETS, PODS
from jobset.client.port import Client
from jobset.cluster.embedded import EmbeddedOptions
from jobset.cluster.kubelet.execution import Machine
from jobset.cluster.runtime.scripted import Behaviour, Script, ScriptedRuntime, always
from jobset.local.cluster import local_cluster
from jobset.reconcile.informer import SharedInformers
from jobset.sim.invariants import Snapshot, check_invariants
from jobset.sim.loop import run_virtual, wall_clock

ATTEMPT_FIELD = "metadata.annotations['jobset.sigs.k8s.io/{}']"
TOPOLOGY = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}


def node(name: str, rack: str) -> Object:
    size = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    time = "2026-01-01T00:00:00Z"
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": time}
    return {
        "metadata": {"name": name, "labels": {"rack": rack, "kubernetes.io/hostname": name}},
        "status": {"capacity": size, "allocatable": size, "conditions": [{**ready, "lastHeartbeatTime": time}]},
    }


def replicated(name: str, replicas: int, pods: int, **fields: Any) -> Object:
    env = [
        {"name": variable, "valueFrom": {"fieldRef": {"fieldPath": ATTEMPT_FIELD.format(key)}}}
        for variable, key in (("ATTEMPT", "restart-attempt"), ("OWN_ATTEMPT", "job-restart-attempt"))
    ]
    container = {"name": "c", "image": "i", "command": ["run"], "env": env}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [container]}
    job = {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": {"spec": pod}}
    return {"name": name, "replicas": replicas, "template": {"spec": job}, **fields}


def jobset(*replicated_jobs: Object, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "js", "namespace": "default", "annotations": annotations or {}},
        "spec": {"replicatedJobs": list(replicated_jobs), **spec},
    }


class Watch:
    """Checks the invariants at every change that anybody can see."""

    def __init__(self, client: Client) -> None:
        self.informers = SharedInformers(client)
        self._caches = [self.informers.get(resource).cache for resource in (JOBSETS, JOBS, PODS)]
        for resource in (JOBSETS, JOBS, PODS):
            self.informers.get(resource).add_handler(self._check)
        self._before: Snapshot | None = None
        self.violations: list[str] = []

    def _check(self, _old: Object | None, _new: Object | None) -> None:
        self.look(settled=False)

    def look(self, *, settled: bool) -> None:
        jobsets, jobs, pods = (tuple(cache.all()) for cache in self._caches)
        now = Snapshot(jobsets, jobs, pods, settled=settled)
        self.violations += check_invariants(self._before, now)
        self._before = now


@asynccontextmanager
async def cluster(script: Script | None = None) -> AsyncIterator[tuple[Client, Watch]]:
    """Two racks of two nodes."""
    now = wall_clock()
    with tempfile.TemporaryDirectory() as directory:
        nodes = [node(f"n{number}", f"r{number // 2}") for number in range(4)]
        runtime = ScriptedRuntime(now, script or always())
        options = EmbeddedOptions(Path(directory), runtime, nodes, now, Machine({}, "/"), seed=1)
        async with local_cluster(options) as local, asyncio.TaskGroup() as group:
            watch = Watch(local.client)
            task = group.create_task(watch.informers.run())
            await watch.informers.wait_synced()
            yield local.client, watch
            watch.look(settled=True)
            task.cancel()
    assert watch.violations == []


async def pods_of(client: Client) -> dict[str, Object]:
    """By hostname; those that are being deleted are left out."""
    pods = (await client.list(PODS, dict)).items
    return {pod["spec"]["hostname"]: pod for pod in pods if "deletionTimestamp" not in pod["metadata"]}


async def wait_terminal(client: Client, limit_s: int = 3600) -> str:
    for _ in range(limit_s):
        state: str = (await client.get(JOBSETS, "default", "js", dict)).get("status", {}).get("terminalState", "")
        if state:
            await asyncio.sleep(60)
            return state
        await asyncio.sleep(1)
    return ""


async def test_each_job_has_a_rack_of_its_own() -> None:
    async with cluster() as (client, _):
        await client.create(JOBSETS, jobset(replicated("w", 2, 4), annotations=TOPOLOGY))
        await asyncio.sleep(5)
        pods = await pods_of(client)
        assert len(pods) == 8
        racks: dict[str, set[str]] = {}
        for hostname, pod in pods.items():
            assert pod["status"]["phase"] == "Running"
            racks.setdefault(hostname.rpartition("-")[0], set()).add(pod["spec"]["nodeName"])
        assert sorted(map(sorted, racks.values())) == [["n0", "n1"], ["n2", "n3"]]


async def test_a_job_without_a_free_rack_waits_and_takes_the_next_one() -> None:
    def script(sandbox: Any, _container: Any) -> Behaviour:
        return Behaviour(run_s=30 if sandbox.hostname.startswith("js-w-0") else 300)

    async with cluster(script) as (client, _):
        await client.create(JOBSETS, jobset(replicated("w", 3, 2), annotations=TOPOLOGY))
        await asyncio.sleep(20)
        phases = {hostname: pod["status"]["phase"] for hostname, pod in (await pods_of(client)).items()}
        assert [hostname for hostname, phase in sorted(phases.items()) if phase == "Pending"] == [
            "js-w-2-0",
            "js-w-2-1",
        ]
        assert await wait_terminal(client) == "Completed"


async def test_a_crash_restarts_all_as_soon_as_the_job_is_given_up() -> None:
    """Neighbours take five seconds to end; the restart does not wait for them to be counted first."""

    def script(sandbox: Any, container: Any) -> Behaviour:
        if sandbox.hostname == "js-w-1-0" and container.env["ATTEMPT"] == "0":
            return Behaviour(run_s=10, exit_code=3)
        return Behaviour(run_s=60 if container.env["ATTEMPT"] == "1" else None, ignores_signals=True)

    async with cluster(script) as (client, _):
        await client.create(JOBSETS, jobset(replicated("w", 2, 2), failurePolicy={"maxRestarts": 1}))
        await asyncio.sleep(12)
        status = (await client.get(JOBSETS, "default", "js", dict))["status"]
        assert (status["restarts"], status["restartsCountTowardsMax"]) == (1, 1)
        assert await wait_terminal(client) == "Completed"
        events = [event for event in (await client.list(EVENTS, dict)).items if event["regarding"]["kind"] == "JobSet"]
        assert [event["reason"] for event in events] == [
            "DefaultFailurePolicy",
            "RestartJobSetFailurePolicyAction",
            "JobsReady",
            "AllJobsCompleted",
            "JobSetCompleted",
        ]


async def test_one_job_is_restarted_alone() -> None:
    def script(sandbox: Any, container: Any) -> Behaviour:
        if sandbox.hostname.startswith("js-w-1") and container.env["OWN_ATTEMPT"] == "0":
            return Behaviour(run_s=10, exit_code=3)
        return Behaviour(run_s=60)

    rules = [{"name": "one", "action": "RestartJob"}]
    async with cluster(script) as (client, _):
        await client.create(JOBSETS, jobset(replicated("w", 2, 1), failurePolicy={"maxRestarts": 1, "rules": rules}))
        await asyncio.sleep(5)
        untouched = (await pods_of(client))["js-w-0-0"]["metadata"]["uid"]
        await asyncio.sleep(20)
        pods = await pods_of(client)
        assert pods["js-w-0-0"]["metadata"]["uid"] == untouched
        assert pods["js-w-1-0"]["metadata"]["labels"]["jobset.sigs.k8s.io/job-restart-attempt"] == "1"
        assert await wait_terminal(client) == "Completed"


async def test_suspending_ends_the_pods_and_resuming_elsewhere_starts_new_ones() -> None:
    async with cluster() as (client, _):
        await client.create(JOBSETS, jobset(replicated("w", 2, 2)))
        await asyncio.sleep(5)
        assert len(await pods_of(client)) == 4
        await client.patch(JOBSETS, "default", "js", {"spec": {"suspend": True}})
        await asyncio.sleep(60)
        assert await pods_of(client) == {}
        stored = await client.get(JOBSETS, "default", "js", dict)
        (each,) = stored["spec"]["replicatedJobs"]
        template = each["template"]["spec"]["template"]
        changed = {**template, "spec": {**template["spec"], "nodeSelector": {"rack": "r1"}}}
        job = {**each["template"]["spec"], "template": changed}
        spec = {"suspend": False, "replicatedJobs": [{**each, "template": {**each["template"], "spec": job}}]}
        await client.patch(JOBSETS, "default", "js", {"spec": spec})
        await asyncio.sleep(60)
        assert {pod["spec"]["nodeName"] for pod in (await pods_of(client)).values()} <= {"n2", "n3"}
        assert len(await pods_of(client)) == 4
        resumed = condition_of(await client.get(JOBSETS, "default", "js", dict), "Suspended")
        assert resumed is not None
        assert (resumed["status"], resumed["reason"]) == ("False", "ResumeJobs")


async def test_deleting_a_jobset_deletes_all_of_it() -> None:
    async with cluster() as (client, _):
        await client.create(JOBSETS, jobset(replicated("w", 2, 2)))
        await asyncio.sleep(5)
        await client.delete(JOBSETS, "default", "js", propagation="Foreground")
        await asyncio.sleep(60)
        for resource in (JOBSETS, JOBS, PODS):
            assert not (await client.list(resource, dict)).items


OUTCOMES = st.dictionaries(
    st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 2)),  # job, pod, attempt
    st.sampled_from([(1.0, 1), (1.0, 1), (5.0, 3), (7.0, 0)]),
    max_size=8,
)
ACTIONS = ("RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts", "RestartJob", "RestartJobAndIgnoreMaxRestarts")
INTERRUPTIONS = st.lists(st.sampled_from(["suspend", "resume", "delete pod", "delete job"]), max_size=4)


async def live(outcomes: Any, action: str, strategy: str, most: int, exclusive: bool, interruptions: list[str]) -> None:
    """A JobSet whose pods end as drawn, with things done to it every four seconds; then it must come to an end."""

    def script(sandbox: Any, container: Any) -> Behaviour:
        _, _, job, pod = sandbox.hostname.split("-")
        attempt = int(container.env["ATTEMPT"]) + int(container.env["OWN_ATTEMPT"])
        run_s, exit_code = outcomes.get((int(job), int(pod), attempt), (20.0, 0))
        return Behaviour(run_s=run_s, exit_code=exit_code, stop_s=2.0)

    rules = [{"name": "r", "action": action}]
    policy = {"maxRestarts": most, "restartStrategy": strategy, "rules": rules}
    annotations = TOPOLOGY if exclusive else {}
    async with cluster(script) as (client, _):
        await client.create(JOBSETS, jobset(replicated("w", 2, 2), annotations=annotations, failurePolicy=policy))
        for interruption in interruptions:
            await asyncio.sleep(4)
            await interrupt(client, interruption)
        await client.patch(JOBSETS, "default", "js", {"spec": {"suspend": False}})
        state = await wait_terminal(client)
        assert state in ("Completed", "Failed"), await client.get(JOBSETS, "default", "js", dict)


async def interrupt(client: Client, interruption: str) -> None:
    if interruption in ("suspend", "resume"):
        await client.patch(JOBSETS, "default", "js", {"spec": {"suspend": interruption == "suspend"}})
        return
    resource = PODS if interruption == "delete pod" else JOBS
    names = sorted(obj["metadata"]["name"] for obj in (await client.list(resource, dict)).items)
    if names:
        await client.delete(resource, "default", names[-1], propagation="Background")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    OUTCOMES,
    st.sampled_from(ACTIONS),
    st.sampled_from(["Recreate", "BlockingRecreate"]),
    st.integers(0, 2),
    st.booleans(),
    INTERRUPTIONS,
)
def test_any_outcomes_and_interruptions_keep_the_invariants_and_come_to_an_end(
    outcomes: Any, action: str, strategy: str, most: int, exclusive: bool, interruptions: list[str]
) -> None:
    run_virtual(live(outcomes, action, strategy, most, exclusive, interruptions))
