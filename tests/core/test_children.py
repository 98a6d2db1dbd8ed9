"""What a JobSet creates: Jobs with their labels, the Service, claims, sizes; and what is in its way."""

import hashlib
from typing import Any

import pytest
from played import World, jobset, rj

from jobset.core.features import FeatureGates
from jobset.core.plan import plan

PREFIX = "jobset.sigs.k8s.io/"


def created(world: World, kind: str) -> list[dict[str, Any]]:
    return [action.body for action in plan(world.observe()).actions if getattr(action, "body", {}).get("kind") == kind]


def test_indexes_count_over_all_replicated_jobs_and_within_groups() -> None:
    groups = [rj("a", 2, groupName="g"), rj("b", 1, groupName="h"), rj("c", 2, groupName="g")]
    jobs = created(World(jobset(*groups)), "Job")
    keys = ("job-index", "job-global-index", "job-group-index", "replicatedjob-replicas", "group-replicas")
    assert [(job["metadata"]["name"], *(job["metadata"]["labels"][PREFIX + key] for key in keys)) for job in jobs] == [
        ("js-a-0", "0", "0", "0", "2", "4"),
        ("js-a-1", "1", "1", "1", "2", "4"),
        ("js-b-0", "0", "2", "0", "1", "1"),
        ("js-c-0", "0", "3", "2", "2", "4"),
        ("js-c-1", "1", "4", "3", "2", "4"),
    ]
    assert {job["metadata"]["labels"][PREFIX + "global-replicas"] for job in jobs} == {"5"}


def test_keys_are_labels_and_annotations_of_job_and_pods_and_win_over_the_users() -> None:
    mine = {"metadata": {"labels": {PREFIX + "job-index": "9", "u": "1"}}, "spec": {}}
    replicated_job = rj("a", template=mine)
    replicated_job["template"]["metadata"] = {"labels": {"v": "2"}, "annotations": {"w": "3"}}
    (job,) = created(World(jobset(replicated_job, coordinator={"replicatedJob": "a", "podIndex": 1})), "Job")
    pod = job["spec"]["template"]["metadata"]
    ours = {key: value for key, value in job["metadata"]["labels"].items() if key.startswith(PREFIX)}
    assert ours[PREFIX + "coordinator"] == "js-a-0-1.js"
    assert ours[PREFIX + "job-key"] == hashlib.sha1(b"ns/js-a-0").hexdigest()
    assert job["metadata"]["labels"] == {**ours, "v": "2"}
    assert job["metadata"]["annotations"] == {**ours, "w": "3"}
    assert pod["labels"] == {**ours, "u": "1"}
    assert pod["annotations"] == ours


@pytest.mark.parametrize(
    ("on_jobset", "on_replicated_job", "job", "pod"),
    [
        ({"topology": "zone"}, {}, {"topology": "zone"}, {"topology": "zone"}),
        ({"topology": "zone"}, {"topology": "rack"}, {"topology": "rack"}, {"topology": "rack"}),
        ({"selector": "x"}, {}, {}, {}),
        ({"topology": "zone", "selector": "x"}, {}, *[{"topology": "zone", "selector": "x"}] * 2),
        ({"topology": "zone"}, {"selector": "x"}, {"topology": "zone", "selector": "x"}, {"topology": "zone"}),
    ],
)
def test_exclusive_placement_is_asked_for_on_the_jobset_or_a_replicated_job(
    on_jobset: dict[str, str], on_replicated_job: dict[str, str], job: dict[str, str], pod: dict[str, str]
) -> None:
    def full(short: dict[str, str]) -> dict[str, str]:
        names = {"topology": "exclusive-topology", "selector": "node-selector"}
        return {f"alpha.jobset.sigs.k8s.io/{names[key]}": value for key, value in short.items()}

    replicated_job = rj("a")
    replicated_job["template"]["metadata"] = {"annotations": full(on_replicated_job)}
    (made,) = created(World(jobset(replicated_job, annotations=full(on_jobset))), "Job")

    def placement(annotations: dict[str, str]) -> dict[str, str]:
        return {key: value for key, value in annotations.items() if key.startswith("alpha.")}

    assert placement(made["metadata"]["annotations"]) == full(job)
    assert placement(made["spec"]["template"]["metadata"]["annotations"]) == full(pod)
    pinned = "alpha.jobset.sigs.k8s.io/namespaced-job" in made["spec"]["template"]["spec"].get("nodeSelector", {})
    assert pinned == (set(job) == {"topology", "selector"})


@pytest.mark.parametrize(
    ("network", "service", "subdomain"),
    [
        ({}, ("js", True), "js"),
        (None, ("js", True), "js"),
        ({"subdomain": "net", "publishNotReadyAddresses": False}, ("net", False), "net"),
        ({"enableDNSHostnames": False}, None, None),
    ],
)
def test_the_headless_service(network: dict[str, Any] | None, service: Any, subdomain: str | None) -> None:
    world = World(jobset(rj("a"), **({"network": network} if network is not None else {})))
    found = [(each["metadata"]["name"], each["spec"]["publishNotReadyAddresses"]) for each in created(world, "Service")]
    assert found == ([service] if service else [])
    (job,) = created(world, "Job")
    assert job["spec"]["template"]["spec"].get("subdomain") == subdomain


def test_claims_are_made_when_missing_and_mounted_where_a_container_asks() -> None:
    mounting = {"spec": {"initContainers": [{"name": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]}}
    policies = [
        {
            "templates": [
                {"metadata": {"name": "data", "labels": {"l": "1"}, "annotations": {"n": "2"}}, "spec": {"x": 1}}
            ]
        },
        {"templates": [{"metadata": {"name": "kept"}, "spec": {}}], "retentionPolicy": {"whenDeleted": "Retain"}},
        {"templates": [{"metadata": {"name": "gone"}, "spec": {}}], "retentionPolicy": {"whenDeleted": "Delete"}},
    ]
    world = World(jobset(rj("a", template=mounting), rj("b"), volumeClaimPolicies=policies))
    world.claims.add("kept-js")
    first, second = created(world, "PersistentVolumeClaim")
    assert first["metadata"] == {
        "name": "data-js",
        "namespace": "ns",
        "labels": {"l": "1", PREFIX + "jobset-name": "js"},
        "annotations": {"n": "2"},
    }
    assert second["metadata"]["ownerReferences"][0]["uid"] == "js-uid"
    volumes = [job["spec"]["template"]["spec"].get("volumes") for job in created(world, "Job")]
    assert volumes == [[{"name": "data", "persistentVolumeClaim": {"claimName": "data-js"}}], None]


@pytest.mark.parametrize(
    ("size", "gate", "expected"),
    [
        ({"parallelism": 4, "completions": 4}, True, (4, 4)),
        ({"parallelism": 4, "completions": 4}, False, (2, 2)),
        ({"parallelism": 1, "completions": 4}, True, (2, 2)),
        ({}, True, (2, 2)),
    ],
)
def test_running_jobs_follow_an_elastic_template(size: dict[str, int], gate: bool, expected: tuple[int, int]) -> None:
    world = World(jobset(rj("a", 2, pods=2)), FeatureGates(elastic_jobset=gate))
    world.settle()
    replicated_job = rj("a", 2)
    spec = {
        key: value
        for key, value in replicated_job["template"]["spec"].items()
        if key not in ("parallelism", "completions")
    }
    replicated_job["template"]["spec"] = {**spec, **size}
    world.edit(replicatedJobs=[replicated_job])
    world.settle()
    sizes = {(job["spec"]["parallelism"], job["spec"]["completions"]) for job in world.jobs.values()}
    assert sizes == {expected}


def test_a_foreign_job_of_our_name_is_told_once_and_the_rest_goes_on() -> None:
    world = World(jobset(rj("a", 3)))
    world.add_foreign_job("js-a-1")
    world.settle()
    assert sorted(world.jobs) == ["js-a-0", "js-a-1", "js-a-2"]
    assert "jobset.sigs.k8s.io/jobset-name" not in world.jobs["js-a-1"]["metadata"].get("labels", {})
    assert world.condition("Blocked") == ("True", "ForeignJob")
    assert sum("Warning ForeignJob" in line for line in world.told().splitlines()) == 1
    world.collect("js-a-1")
    world.settle()
    assert world.condition("Blocked") == ("False", "Unblocked")
    assert world.labels("js-a-1")["jobset.sigs.k8s.io/jobset-uid"] == "js-uid"


def test_leftovers_of_a_namesake_are_waited_for_without_alarm() -> None:
    world = World(jobset(rj("a")))
    world.add_foreign_job(
        "js-a-0", {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "js", "uid": "x"}
    )
    world.settle()
    assert world.condition("Blocked") is None
    world.collect("js-a-0")
    world.settle()
    assert world.labels("js-a-0")["jobset.sigs.k8s.io/jobset-uid"] == "js-uid"


@pytest.mark.parametrize(
    ("spec", "blocked"),
    [
        ({"clusterIP": "None", "selector": {PREFIX + "jobset-name": "js"}}, False),
        ({"clusterIP": "None", "selector": {PREFIX + "jobset-name": "other"}}, True),
        ({"clusterIP": "10.0.0.1", "selector": {PREFIX + "jobset-name": "js"}}, True),
        ({"clusterIP": "None"}, True),
    ],
)
def test_a_foreign_service_is_fine_if_it_serves_our_pods(spec: dict[str, Any], blocked: bool) -> None:
    world = World(jobset(rj("a")))
    world.service = {"metadata": {"name": "js", "namespace": "ns"}, "spec": spec}
    world.settle()
    assert (world.condition("Blocked") == ("True", "ForeignService")) == blocked
    assert "js-a-0" in world.jobs


@pytest.mark.parametrize(
    ("label", "value"),
    [("restart-attempt", None), ("restart-attempt", "one"), ("job-index", "9"), ("replicatedjob-name", "z")],
)
def test_a_job_whose_labels_were_changed_is_told_and_left_alone(label: str, value: str | None) -> None:
    world = World(jobset(rj("a", 2)))
    world.settle()
    labels = world.labels("js-a-0")
    del labels[PREFIX + label]
    if value is not None:
        labels[PREFIX + label] = value
    world.fail("js-a-0")
    world.settle()
    assert world.condition("Blocked") == ("True", "UnreadableJob")
    assert sorted(world.jobs) == ["js-a-0", "js-a-1"]


def test_the_end_of_the_jobset_is_the_end_of_such_a_job_too() -> None:
    world = World(jobset(rj("a", 2), successPolicy={"operator": "Any"}))
    world.settle()
    del world.labels("js-a-0")[PREFIX + "restart-attempt"]
    world.succeed("js-a-1")
    world.settle()
    assert "deletionTimestamp" in world.jobs["js-a-0"]["metadata"]
    assert world.condition("Blocked") is None


def test_an_attempt_ahead_of_the_status_is_current() -> None:
    world = World(jobset(rj("a")))
    world.settle()
    world.labels("js-a-0")[PREFIX + "restart-attempt"] = "5"
    world.ready()
    world.settle()
    assert world.counts("a")["ready"] == 1
    assert "js-a-0" in world.jobs


@pytest.mark.parametrize(
    ("parallelism", "completions", "status", "is_ready"),
    [
        (4, 4, {"ready": 4}, True),
        (4, 4, {"ready": 3}, False),
        (4, 4, {"ready": 1, "succeeded": 3}, True),
        (4, 2, {"ready": 2}, True),
        (2, None, {"ready": 2}, True),
        (0, 0, {}, True),
    ],
)
def test_a_job_is_ready_with_as_many_pods_as_it_runs_at_once(
    parallelism: int, completions: int | None, status: dict[str, int], is_ready: bool
) -> None:
    world = World(jobset(rj("a")))
    world.settle()
    spec = {**world.jobs["js-a-0"]["spec"], "parallelism": parallelism, "completions": completions}
    if completions is None:
        del spec["completions"]
    world.jobs["js-a-0"] = {**world.jobs["js-a-0"], "spec": spec, "status": {"startTime": "x", **status}}
    world.one_pass()
    assert world.counts("a")["ready"] == int(is_ready)


def test_fields_of_the_status_that_we_do_not_know_stay() -> None:
    world = World(jobset(rj("a")))
    world.raw["status"] = {"fromTheFuture": {"x": 1}}
    world.settle()
    assert world.status["fromTheFuture"] == {"x": 1}
