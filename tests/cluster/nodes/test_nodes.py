"""What nodes there are: the machine, a file's, and virtual ones on which every pod of a manifest finds its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jobset.api.meta import Object
from jobset.cluster.model.node_fitting import FittedNodes, nodes_to_fit
from jobset.cluster.model.nodes import nodes_of_documents, uniform_nodes
from jobset.cluster.model.scheduling.cycle import Placed, decide
from jobset.cluster.model.scheduling.pod import PodInfo
from jobset.cluster.model.scheduling.state import ClusterState
from jobset.cluster.nodes import MachineFacts, machine_facts, machine_node, node_name, nodes_from_file, usable_gpus

FACTS = MachineFacts("Laptop.local", "linux", "amd64", 4, 16 << 30)
MACHINE = machine_node(FACTS)


def test_the_machine_as_a_node() -> None:
    assert MACHINE["metadata"]["name"] == "laptop.local"
    assert MACHINE["metadata"]["labels"]["kubernetes.io/arch"] == "amd64"
    assert MACHINE["status"]["allocatable"] == {"cpu": "4", "memory": "16777216Ki", "pods": "110"}
    with_gpus = machine_node(MachineFacts("m", "linux", "arm64", 1.5, 1 << 30, ("0", "1"), "NVIDIA H100"))
    assert with_gpus["status"]["capacity"] == {
        "cpu": "1500m",
        "memory": "1048576Ki",
        "nvidia.com/gpu": "2",
        "pods": "110",
    }


@pytest.mark.parametrize(
    ("hostname", "name"),
    [("Node_1.example", "node-1.example"), ("-x-", "x"), ("", "machine"), ("a" * 80, "a" * 63), ("日本", "machine")],
)
def test_hostnames_become_node_names(hostname: str, name: str) -> None:
    assert node_name(hostname) == name


def test_this_machine_has_something_to_offer() -> None:
    facts = machine_facts()
    assert facts.cpus > 0
    assert facts.memory_bytes > 1 << 20


LISTING = "0, GPU-aa11, NVIDIA A100\n1, GPU-bb22, NVIDIA A100\n"


@pytest.mark.parametrize(
    ("visible", "ids"),
    [(None, ("0", "1")), ("1", ("1",)), ("GPU-aa", ("0",)), ("1,0", ("1", "0")), ("", ()), ("-1", ())],
)
def test_gpus_that_may_be_used(visible: str | None, ids: tuple[str, ...]) -> None:
    assert usable_gpus(LISTING, visible)[0] == ids


# ---------------------------------------------------------------- the nodes file

SHORT = """
groups:
- name: tpu
  count: 4
  cpu: 8
  memory: 32Gi
  resources: {google.com/tpu: 4}
  labels: {accelerator: v5e}
  taints: [{key: google.com/tpu, effect: NoSchedule}]
  topology:
  - {key: cloud.google.com/gke-nodepool, pattern: "slice-{}", hosts: 2}
---
apiVersion: v1
kind: Node
metadata: {name: full}
status: {capacity: {cpu: "2", memory: 4Gi}}
"""


def test_a_file_in_short_and_in_full(tmp_path: Path) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(SHORT)
    nodes = nodes_from_file(path)
    assert [node["metadata"]["name"] for node in nodes] == ["tpu-0", "tpu-1", "tpu-2", "tpu-3", "full"]
    assert [node["metadata"]["labels"].get("cloud.google.com/gke-nodepool") for node in nodes] == [
        "slice-0", "slice-0", "slice-1", "slice-1", None,
    ]  # fmt: skip
    assert nodes[0]["status"]["allocatable"] == {"cpu": "8", "google.com/tpu": "4", "memory": "32Gi", "pods": "110"}
    assert nodes[0]["spec"]["taints"] == [{"key": "google.com/tpu", "effect": "NoSchedule"}]
    assert nodes[4]["status"]["allocatable"]["pods"] == "110"
    assert nodes[4]["metadata"]["labels"] == {"kubernetes.io/hostname": "full"}


GROUP = {"cpu": 1, "memory": "1Gi"}


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([], "describes no node"),
        (["x"], "document 1: a nodes file holds Node objects or `groups:`, not str"),
        ([{"kind": "Pod"}], "document 1: expected `kind: Node`"),
        ([{"kind": "Node"}], "document 1: metadata.name is missing"),
        ([{"kind": "Node", "metadata": {"name": "a"}}], "document 1: status.capacity is missing"),
        ([{"groups": [{"cpu": 1}]}], "document 1: groups[0].memory: missing"),
        ([{"groups": [{**GROUP, "cpus": 1}]}], "groups[0].cpus: unknown field; known are name, count, cpu"),
        ([{"groups": [{**GROUP, "count": "2"}]}], "groups[0].count: expected int, not str"),
        ([{"groups": [{**GROUP, "count": 0}]}], "groups[0].count: must be between 1 and 10000"),
        ([{"groups": [{**GROUP, "memory": "lots"}]}], "groups[0].memory: 'lots' is not a quantity"),
        ([{"groups": [{**GROUP, "labels": {"a b": "c"}}]}], "groups[0].labels: a b: 'c' is not a label"),
        ([{"groups": [{**GROUP, "topology": [{"pattern": "x"}]}]}], "groups[0].topology[0]: needs key"),
        ([{"groups": [GROUP, GROUP]}], "node name 'node' is used twice"),
    ],
)
def test_wrong_files_say_what_is_wrong(documents: list[Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        nodes_of_documents(documents)
    assert message in str(caught.value)


@pytest.mark.parametrize(("text", "message"), [("a: [", "not YAML"), (None, "No such file")])
def test_unreadable_files_are_named(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "nodes.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        nodes_from_file(path)
    assert str(path) in str(caught.value)


def test_uniform_nodes() -> None:
    nodes = uniform_nodes(1000, topology_key="rack", hosts_per_domain=8)
    assert len({node["metadata"]["name"] for node in nodes}) == 1000
    assert len({node["metadata"]["labels"]["rack"] for node in nodes}) == 125


# ---------------------------------------------------------------- nodes to fit

EXCLUSIVE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"}
TPU_SELECTOR = {
    "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
    "cloud.google.com/gke-tpu-topology": "2x4",
}


def jobset(*replicated: Object, annotations: Object | None = None) -> Object:
    return {
        "kind": "JobSet",
        "metadata": {"name": "js", "annotations": annotations or {}},
        "spec": {"replicatedJobs": list(replicated)},
    }


def replicated(name: str, replicas: int = 1, pods: int = 1, limits: Object | None = None, **spec: Any) -> Object:
    container: Object = {"name": "c", "image": "x", **spec.pop("container", {})}
    if limits:
        container["resources"] = {"limits": limits}
    template = {"spec": {"containers": [container], **spec}}
    return {
        "name": name,
        "replicas": replicas,
        "template": {"spec": {"parallelism": pods, "completions": pods, "template": template}},
    }


def placed(fitted: FittedNodes, manifest: Object) -> list[tuple[str, str]]:
    """Place all pods, those of exclusive Jobs as JobSet makes them; (Job, node) of each."""
    state = ClusterState()
    state.namespaces["default"] = {}
    for node in fitted.nodes:
        state.set_node(node)
    found = []
    key = (manifest["metadata"].get("annotations") or {}).get("alpha.jobset.sigs.k8s.io/exclusive-topology")
    for rjob in manifest["spec"]["replicatedJobs"]:
        spec = rjob["template"]["spec"]["template"]["spec"]
        for index in range(rjob["replicas"]):
            job = f"js-{rjob['name']}-{index}"
            for pod in range(rjob["template"]["spec"]["parallelism"]):
                info = PodInfo.of(_pod(job, pod, spec, key))
                decision = decide(state, info)
                assert isinstance(decision, Placed), decision
                state.place(info, decision.node)
                found.append((job, decision.node))
    return found


def _pod(job: str, index: int, spec: Object, key: str | None) -> Object:
    if key:
        own = {"key": "job-key", "operator": "In", "values": [job]}
        other = [{"key": "job-key", "operator": "Exists"}, {**own, "operator": "NotIn"}]
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        spec = {
            **spec,
            "affinity": {
                "podAffinity": {required: [{"topologyKey": key, "labelSelector": {"matchExpressions": [own]}}]},
                "podAntiAffinity": {required: [{"topologyKey": key, "labelSelector": {"matchExpressions": other}}]},
            },
        }
    name = f"{job}-{index}"
    return {
        "metadata": {"name": name, "uid": name, "namespace": "default", "labels": {"job-key": job, "app": "x"}},
        "spec": spec,
    }


def test_nothing_special_needs_only_the_machine() -> None:
    fitted = nodes_to_fit([jobset(replicated("w", 2, 3))], MACHINE)
    assert fitted == FittedNodes([MACHINE], [])


def test_asking_for_more_than_there_is_is_granted_and_said() -> None:
    manifest = jobset(replicated("w", 4, 4, {"cpu": "2", "memory": "1Gi"}))
    fitted = nodes_to_fit([manifest], MACHINE)
    assert fitted.notes == ["the manifest asks for 32 cpu; this machine has 4: its node offers what is asked"]
    assert len(placed(fitted, manifest)) == 16


def test_a_multislice_training_gets_its_slices() -> None:
    manifest = jobset(
        replicated("workers", 4, 2, {"google.com/tpu": "4"}, nodeSelector=TPU_SELECTOR, hostNetwork=True,
                   container={"ports": [{"containerPort": 8471}]}),
        annotations=EXCLUSIVE,
    )  # fmt: skip
    fitted = nodes_to_fit([manifest], MACHINE)
    assert len(fitted.nodes) == 8
    pools = {
        node["metadata"]["name"]: node["metadata"]["labels"]["cloud.google.com/gke-nodepool"] for node in fitted.nodes
    }
    assert len(set(pools.values())) == 4
    where = placed(fitted, manifest)
    assert len({node for _, node in where}) == 8
    assert len({(job, pools[node]) for job, node in where}) == 4
    assert fitted.notes == ["8 virtual nodes made to fit the manifest; all pods run on this machine"]


def test_driver_on_the_machine_and_workers_on_virtual_gpus() -> None:
    manifest = jobset(replicated("driver"), replicated("workers", 2, 4, {"nvidia.com/gpu": "4", "cpu": "8"}))
    fitted = nodes_to_fit([manifest], MACHINE)
    assert fitted.nodes[0] == MACHINE
    assert len(fitted.nodes) == 1 + 4
    placed(fitted, manifest)
    real = machine_node(MachineFacts("m", "linux", "amd64", 64, 64 << 30, tuple("01234567")))
    assert nodes_to_fit([jobset(replicated("workers", 2, 4, {"nvidia.com/gpu": "1"}))], real).nodes == [real]


def test_admins_labels_of_the_node_selector_strategy() -> None:
    strategy = {**EXCLUSIVE, "alpha.jobset.sigs.k8s.io/node-selector": "true"}
    fitted = nodes_to_fit([jobset(replicated("w", 2), annotations=strategy)], MACHINE)
    key = "alpha.jobset.sigs.k8s.io/namespaced-job"
    assert [node["metadata"]["labels"][key] for node in fitted.nodes] == ["default_js-w-0", "default_js-w-1"]


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
APP_X = {"matchLabels": {"app": "x"}}
BY_HOST = {"topologyKey": "kubernetes.io/hostname", "labelSelector": APP_X}


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"disk": "ssd", "kubernetes.io/os": "linux"}},
        {"nodeSelector": {"kubernetes.io/hostname": "gpu-7"}},
        {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "gen", "operator": "Gt", "values": ["4"]}, {"key": "zone", "operator": "In", "values": ["b", "a"]},
            {"key": "ssd", "operator": "Exists"}, {"key": "old", "operator": "DoesNotExist"}]}]}}}},
        {"affinity": {"podAntiAffinity": {REQUIRED: [BY_HOST]}}},
        {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone", "labelSelector": APP_X}]}}},
        {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "zone", "labelSelector": APP_X}]}}},
        {"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1, "minDomains": 3,
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": APP_X}]},
        {"container": {"ports": [{"containerPort": 80, "hostPort": 80}]}},
        {"limits": {"example.com/chip": "3"}},
        {"limits": {"google.com/tpu": "8"}},
    ],
)  # fmt: skip
def test_whatever_is_asked_for_can_be_placed(spec: Object) -> None:
    manifest = jobset(replicated("a", 2, 2, **spec), replicated("b"))
    placed(nodes_to_fit([manifest], MACHINE), manifest)
