"""The scheduler at work against the API service, on virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from jobset.api.errors import Unavailable
from jobset.api.meta import Object, condition_of
from jobset.api.resources import NODES, PERSISTENT_VOLUME_CLAIMS, PODS, PRIORITY_CLASSES, Resource
from jobset.cluster.controllers.scheduler import Scheduler
from scheduling.builders import apart, node, pod, term
from scheduling.world import World, world


async def test_a_burst_fills_the_nodes_and_no_more() -> None:
    async with world(Scheduler) as cluster:
        await cluster.create(NODES, *(node(f"n{i}", cpu="4") for i in range(5)))
        await cluster.create(PODS, *(pod(f"p{i}", requests={"cpu": "1"}) for i in range(24)))
        await cluster.until(
            lambda: all(p["spec"].get("nodeName") or cluster.waits(p["metadata"]["name"]) for p in cluster.all(PODS))
        )
        placed = [p["spec"]["nodeName"] for p in cluster.all(PODS) if p["spec"].get("nodeName")]
        assert sorted(placed) == sorted([f"n{i}" for i in range(5)] * 4)
        waiting = [p["metadata"]["name"] for p in cluster.all(PODS) if not p["spec"].get("nodeName")]
        assert len(waiting) == 4
        assert {cluster.waits(name)[:43] for name in waiting} == {"0/5 nodes are available: 5 Insufficient cpu"}
        assert len(cluster.events("Scheduled")) == 20
        assert len(cluster.events("FailedScheduling")) == 4
        event = cluster.events("Scheduled")[0]
        name = event["regarding"]["name"]
        assert event["note"] == f"Successfully assigned default/{name} to {cluster.node_of(name)}"
        assert (event["action"], event["reportingController"]) == ("Binding", "default-scheduler")


async def test_a_waiting_pod_is_tried_again_when_something_changed_and_not_before() -> None:
    async with world(Scheduler) as cluster:
        await cluster.create(NODES, node("small", cpu="1"))
        await cluster.create(PODS, pod("p", requests={"cpu": "2"}))
        await cluster.until(lambda: cluster.waits("p"))
        version = cluster.get(PODS, "p")["metadata"]["resourceVersion"]
        await cluster.create(NODES, node("large", cpu="2"))
        assert await cluster.until(lambda: cluster.node_of("p") == "large") < 0.1
        assert version != cluster.get(PODS, "p")["metadata"]["resourceVersion"]


async def test_room_that_comes_free_goes_to_the_most_important_who_waits() -> None:
    async with world(Scheduler) as cluster:
        await cluster.create(PRIORITY_CLASSES, priority_class("important", 10, "Never"))
        await cluster.create(NODES, node("n", cpu="1"))
        await cluster.create(PODS, pod("first", requests={"cpu": "1"}))
        await cluster.until(lambda: cluster.node_of("first"))
        await cluster.create(
            PODS, pod("early", requests={"cpu": "1"}), pod("late", requests={"cpu": "1"}, priorityClassName="important")
        )
        await cluster.until(lambda: cluster.waits("early") and cluster.waits("late"))
        await cluster.set_status("first", phase="Succeeded")
        assert await cluster.until(lambda: cluster.node_of("late")) < 0.1
        assert not cluster.node_of("early")


async def test_gated_pods_wait_for_their_gates() -> None:
    async with world(Scheduler) as cluster:
        await cluster.create(NODES, node("n"))
        await cluster.create(PODS, pod("p", schedulingGates=[{"name": "example.com/wait"}]), pod("q"))
        await cluster.until(lambda: cluster.node_of("q"))
        condition = condition_of(cluster.get(PODS, "p"), "PodScheduled")
        assert condition is not None
        assert condition["reason"] == "SchedulingGated"
        await cluster.client.patch(PODS, "default", "p", {"spec": {"schedulingGates": []}})
        await cluster.until(lambda: cluster.node_of("p"))


async def test_pods_of_others_are_left_alone() -> None:
    async with world(Scheduler) as cluster:
        await cluster.create(NODES, node("n", cpu="2"))
        await cluster.create(
            PODS,
            pod("other", schedulerName="somebody"),
            pod("preset", nodeName="n", requests={"cpu": "2"}),
            pod("ours"),
        )
        await cluster.until(lambda: cluster.node_of("ours"))
        assert not cluster.node_of("other")
        await cluster.create(PODS, pod("late", requests={"cpu": "1"}))
        await cluster.until(lambda: cluster.waits("late"))
        assert "Insufficient cpu" in cluster.waits("late"), "a pod put on a node by hand uses it up all the same"


async def test_a_claim_that_becomes_bound_lets_its_pod_go() -> None:
    claim = {
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    async with world(Scheduler) as cluster:
        await cluster.create(NODES, node("n"))
        await cluster.create(PODS, pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]))
        await cluster.until(lambda: 'persistentvolumeclaim "data" not found' in cluster.waits("p"))
        await cluster.create(PERSISTENT_VOLUME_CLAIMS, claim)
        await cluster.until(lambda: "unbound immediate" in cluster.waits("p"))
        bound = {"status": {"phase": "Bound"}}
        await cluster.client.patch(PERSISTENT_VOLUME_CLAIMS, "default", "data", bound, subresource="status")
        assert await cluster.until(lambda: cluster.node_of("p")) < 0.1


def priority_class(name: str, value: int, policy: str = "PreemptLowerPriority") -> Object:
    return {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy}


async def test_preemption_asks_the_victim_to_go_and_then_takes_its_place() -> None:
    async with world(Scheduler) as cluster:
        await cluster.create(PRIORITY_CLASSES, priority_class("important", 10))
        await cluster.create(NODES, node("n", cpu="2"))
        await cluster.create(PODS, pod("low", requests={"cpu": "2"}))
        await cluster.until(lambda: cluster.node_of("low"))
        await cluster.create(PODS, pod("high", requests={"cpu": "2"}, priorityClassName="important"))
        await cluster.until(lambda: "deletionTimestamp" in cluster.get(PODS, "low")["metadata"])
        reason = condition_of(cluster.get(PODS, "low"), "DisruptionTarget")
        assert reason is not None
        assert (reason["status"], reason["reason"]) == ("True", "PreemptionByScheduler")
        await cluster.until(lambda: cluster.get(PODS, "high")["status"].get("nominatedNodeName") == "n")
        assert len(cluster.events("Preempted")) == 1
        await cluster.create(PODS, pod("thief", requests={"cpu": "2"}))
        await cluster.until(lambda: cluster.waits("thief"))
        await cluster.client.delete(PODS, "default", "low", grace_period_s=0)
        await cluster.until(lambda: cluster.node_of("high") == "n")
        assert not cluster.node_of("thief")


async def test_a_pod_that_goes_while_it_waits_is_forgotten() -> None:
    async with world(Scheduler) as cluster:
        await cluster.create(PODS, pod("p", requests={"cpu": "1"}))
        await cluster.until(lambda: cluster.waits("p"))
        await cluster.client.delete(PODS, "default", "p", grace_period_s=0)
        await cluster.create(NODES, node("n", cpu="1"))
        await cluster.create(PODS, pod("q", requests={"cpu": "1"}))
        await cluster.until(lambda: cluster.node_of("q"))


async def test_deleting_a_neighbour_frees_its_rack() -> None:
    async with world(Scheduler) as cluster:
        await cluster.create(NODES, node("n0", {"rack": "r"}), node("n1", {"rack": "r"}))
        lonely = apart(term("rack", {"app": "x"}))
        await cluster.create(PODS, pod("p", {"app": "x"}, affinity=lonely))
        await cluster.until(lambda: cluster.node_of("p"))
        await cluster.create(PODS, pod("q", {"app": "x"}, affinity=lonely))
        await cluster.until(lambda: "anti-affinity" in cluster.waits("q"))
        await cluster.client.delete(PODS, "default", "p", grace_period_s=0)
        assert await cluster.until(lambda: cluster.node_of("q")) < 0.1


@pytest.mark.parametrize("outage", [1, 3])
async def test_a_refused_binding_gives_the_room_back_and_is_tried_again(
    outage: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(Scheduler) as cluster:
        await cluster.create(NODES, node("n", cpu="1"))
        bind, refused = cluster.service.create_subresource, []

        def flaky(resource: Resource, namespace: str, name: str, subresource: str, body: Object) -> Any:
            if len(refused) < outage:
                refused.append(name)
                raise Unavailable("not now")
            return bind(resource, namespace, name, subresource, body)

        monkeypatch.setattr(cluster.service, "create_subresource", flaky)
        await cluster.create(PODS, pod("p", requests={"cpu": "1"}))
        await cluster.until(lambda: cluster.node_of("p"))
        assert refused == ["p"] * outage


async def test_many_waiting_pods_cost_few_writes_when_one_finds_room() -> None:
    async with world(Scheduler) as cluster:
        await cluster.create(NODES, node("n", cpu="1"))
        await cluster.create(PODS, *(pod(f"p{i}", requests={"cpu": "1"}) for i in range(50)))
        await cluster.until(lambda: sum(bool(cluster.waits(f"p{i}")) for i in range(50)) == 49)
        (first,) = [f"p{i}" for i in range(50) if cluster.node_of(f"p{i}")]
        before = _version(cluster)
        await cluster.set_status(first, phase="Succeeded")
        await cluster.until(lambda: sum(bool(cluster.node_of(f"p{i}")) for i in range(50)) == 2)
        assert _version(cluster) - before < 10


def _version(cluster: World) -> int:
    return int(cluster.service.list(PODS).resource_version)
