"""Pods of vanished nodes, and pods that are to go but were never anywhere."""

from jobset.api.meta import condition_of
from jobset.api.resources import NODES, PODS
from jobset.cluster.controllers.pod_garbage import QUARANTINE_S, PodGarbageCollector
from scheduling.builders import node, pod
from scheduling.world import world


async def test_pods_of_a_vanished_node_fail_and_go_after_a_while() -> None:
    async with world(PodGarbageCollector) as cluster:
        await cluster.create(NODES, node("gone"), node("stays"))
        await cluster.create(PODS, pod("a", nodeName="gone"), pod("b", nodeName="stays"), pod("c"))
        protected = {"metadata": {"finalizers": ["example.com/watching"]}}
        await cluster.client.patch(PODS, "default", "a", protected)
        await cluster.client.delete(NODES, "", "gone")
        waited = await cluster.until(lambda: cluster.get(PODS, "a")["status"]["phase"] == "Failed")
        assert QUARANTINE_S <= waited < QUARANTINE_S + 1
        reason = condition_of(cluster.get(PODS, "a"), "DisruptionTarget")
        assert reason is not None
        assert reason["reason"] == "DeletionByPodGC"
        await cluster.client.patch(PODS, "default", "a", {"metadata": {"finalizers": None}})
        await cluster.until(lambda: not cluster.exists(PODS, "a"))
        assert cluster.exists(PODS, "b")
        assert cluster.exists(PODS, "c")


async def test_a_node_that_comes_back_keeps_its_pods() -> None:
    async with world(PodGarbageCollector) as cluster:
        await cluster.create(NODES, node("n"), node("other"))
        await cluster.create(PODS, pod("a", nodeName="n"), pod("marker", nodeName="other"))
        await cluster.client.delete(NODES, "", "n")
        await cluster.client.delete(NODES, "", "other")
        await cluster.create(NODES, node("n"))
        await cluster.until(lambda: not cluster.exists(PODS, "marker"))
        assert cluster.get(PODS, "a")["status"]["phase"] == "Pending"
