"""Exclusive placement: what a pod gets at admission, and where followers are sent."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobset.core.actions import DeleteObject, PatchObject
from jobset.core.placement import WAIT_FOR_LEADER, job_pods, place_followers, place_pod
from jobset.sim.loop import START

ORIGINAL = Path(__file__).parents[1] / "recordings" / "original"
INDEX = "batch.kubernetes.io/job-completion-index"
TOPOLOGY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"
JOBSET = "jobset.sigs.k8s.io/jobset-name"
NODE = {"metadata": {"name": "n", "labels": {"rack": "r1"}}}


def pod(index: int | None, *, annotations: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    """A pod of a JobSet; `fields` go to spec, status or metadata by their name."""
    place = {JOBSET: "js", TOPOLOGY: "rack"} if annotations is None else annotations
    own = {INDEX: str(index)} if index is not None else {}
    metadata = {
        "name": f"p-{index}",
        "namespace": "ns",
        "uid": f"uid-{index}",
        "resourceVersion": "7",
        "labels": {"jobset.sigs.k8s.io/job-key": "key"},
        "annotations": {**place, **own},
        **fields.pop("metadata", {}),
    }
    return {
        "metadata": metadata,
        "status": fields.pop("status", {"phase": "Pending"}),
        "spec": {"priority": 0, **fields},
    }


def leader(**fields: Any) -> dict[str, Any]:
    return pod(0, **{"nodeName": "n", **fields})


def waiting(index: int, **fields: Any) -> dict[str, Any]:
    return pod(index, schedulingGates=[{"name": WAIT_FOR_LEADER}], **fields)


def released(index: int, domain: str, **fields: Any) -> dict[str, Any]:
    return pod(index, nodeSelector={"rack": domain}, **fields)


def decided(*pods: dict[str, Any], node: dict[str, Any] | None = NODE, job: dict[str, Any] | None = None) -> list[Any]:
    placed = job_pods(pods, job, lambda _: node)
    return [] if placed is None else place_followers(placed, START)


def test_a_leader_gets_what_the_original_gives_it() -> None:
    recorded = json.loads((ORIGINAL / "exclusive.json").read_text())["pods_one_per_job"][0]
    labels = {key: value for key, value in recorded["metadata"]["labels"].items() if not key.endswith("/priority")}
    admitted = {
        **recorded,
        "metadata": {**recorded["metadata"], "labels": labels},
        "spec": {key: value for key, value in recorded["spec"].items() if key != "affinity"},
    }
    assert place_pod(admitted) == recorded


def test_the_terms_are_added_to_those_of_the_template() -> None:
    own = {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]},
        "nodeAffinity": {},
    }
    affinity = place_pod(pod(0, affinity=own))["spec"]["affinity"]
    terms = affinity["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [term["topologyKey"] for term in terms] == ["zone", "rack"]
    assert affinity["nodeAffinity"] == {}


def test_a_follower_waits_behind_a_scheduling_gate() -> None:
    placed = place_pod(pod(1, schedulingGates=[{"name": "mine"}]))
    assert placed["spec"]["schedulingGates"] == [{"name": "mine"}, {"name": WAIT_FOR_LEADER}]
    assert placed["metadata"]["labels"]["jobset.sigs.k8s.io/priority"] == "0"
    assert "affinity" not in placed["spec"]


def test_pods_of_a_job_that_is_not_indexed_all_keep_together() -> None:
    assert "podAffinity" in place_pod(pod(None))["spec"]["affinity"]


@pytest.mark.parametrize("annotations", [{}, {TOPOLOGY: "rack"}, {JOBSET: "js", TOPOLOGY: "rack", SELECTOR: "true"}])
def test_pods_that_are_none_of_its_business_are_the_very_same(annotations: dict[str, str]) -> None:
    unplaced = pod(1, annotations=annotations)
    assert place_pod(unplaced) is unplaced


def test_a_pod_without_exclusive_placement_gets_the_priority_label_alone() -> None:
    placed = place_pod(pod(1, annotations={JOBSET: "js"}))
    assert placed["metadata"]["labels"]["jobset.sigs.k8s.io/priority"] == "0"
    assert placed["spec"] == {"priority": 0}


def test_followers_are_released_to_the_leaders_domain_each_in_one_patch() -> None:
    first, second = decided(leader(), waiting(1), pod(2, schedulingGates=[{"name": "mine"}, {"name": WAIT_FOR_LEADER}]))
    assert first.patch == {"spec": {"nodeSelector": {"rack": "r1"}, "schedulingGates": None}}
    assert second.patch == {"spec": {"nodeSelector": {"rack": "r1"}, "schedulingGates": [{"name": "mine"}]}}
    assert (first.uid, second.uid) == ("uid-1", "uid-2")


@pytest.mark.parametrize(
    "pods",
    [
        [pod(0), waiting(1)],
        [waiting(1)],
        [leader(status={"phase": "Failed"}), waiting(1)],
        [leader(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), waiting(1)],
        [leader(), leader(metadata={"name": "twin"}), waiting(1)],
        [leader(), released(1, "r1")],
        [leader(), released(1, "r2", status={"phase": "Failed"})],
    ],
    ids=["unbound", "absent", "failed", "leaving", "ambiguous", "in place", "over"],
)
def test_nothing_is_done_without_a_leader_in_place_or_without_need(pods: list[dict[str, Any]]) -> None:
    assert decided(*pods) == []


@pytest.mark.parametrize("node", [None, {"metadata": {"name": "n", "labels": {}}}])
def test_nothing_is_done_while_the_domain_is_unknown(node: dict[str, Any] | None) -> None:
    assert decided(leader(), waiting(1), released(2, "r2"), node=node) == []


def test_the_twin_of_a_leader_that_failed_is_the_leader() -> None:
    twin = leader(status={"phase": "Failed"}, metadata={"name": "old"})
    assert len(decided(twin, leader(), waiting(1))) == 1


def test_a_follower_elsewhere_has_every_released_follower_replaced_in_two_steps() -> None:
    marked, unmarked = decided(leader(), released(1, "r2"), released(2, "r1"))
    assert isinstance(marked, PatchObject)
    assert (marked.subresource, marked.resource_version) == ("status", "7")
    (condition,) = unmarked.patch["status"]["conditions"]
    assert condition == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "ExclusivePlacementViolation",
        "message": "Pod violated JobSet exclusive placement policy",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    seen = {"phase": "Pending", "conditions": [condition]}
    deletions = decided(leader(), released(1, "r2", status=seen), released(2, "r1", status=seen))
    assert [type(action) for action in deletions] == [DeleteObject, DeleteObject]
    assert {action.uid for action in deletions} == {"uid-1", "uid-2"}


@pytest.mark.parametrize("status", [{"completedIndexes": "0"}, {"completedIndexes": "0-2,4"}, {"failedIndexes": "0,3"}])
def test_without_a_leader_to_come_the_first_follower_goes_ahead_and_the_others_follow_it(
    status: dict[str, str],
) -> None:
    over = {"status": status}
    (first,) = decided(waiting(10), waiting(2), job=over)
    assert (first.name, first.patch) == ("p-2", {"spec": {"schedulingGates": None}})
    assert decided(waiting(10), pod(2), job=over) == []
    (second,) = decided(waiting(10), pod(2, nodeName="n"), job=over)
    assert second.patch == {"spec": {"nodeSelector": {"rack": "r1"}, "schedulingGates": None}}


@pytest.mark.parametrize("job", [None, {"status": {}}, {"status": {"completedIndexes": "1-3,10"}}])
def test_a_leader_that_is_to_come_is_waited_for(job: dict[str, Any] | None) -> None:
    assert decided(waiting(1), pod(2, nodeName="n"), job=job) == []
