"""Which nodes a run gets, and who gets the machine's GPUs."""

from pathlib import Path
from typing import Any

import pytest

from jobset.cluster.nodes import GPU, MachineFacts
from jobset.local.nodes import choose_nodes, share_gpus

FACTS = MachineFacts("desk", "linux", "amd64", 4, 8 << 30, ("0", "1"), "NVIDIA A")


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobset.local.nodes.machine_facts", lambda: FACTS)


def pod(**spec: Any) -> Any:
    return {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", **spec}]}}


def node(name: str, gpus: int) -> Any:
    return {"metadata": {"name": name}, "status": {"allocatable": {GPU: str(gpus)} if gpus else {}}}


def test_this_machine_with_its_gpus() -> None:
    chosen = choose_nodes([pod()], None)
    assert [each["metadata"]["name"] for each in chosen.objects] == ["desk"]
    assert chosen.devices == {"desk": ["0", "1"]}
    assert list(chosen.notes) == []


def test_nodes_made_to_fit_and_what_is_said_of_them() -> None:
    workload = pod(resources={"limits": {"google.com/tpu": 4}})
    chosen = choose_nodes([workload], None)
    assert any("google.com/tpu" in each["status"]["allocatable"] for each in chosen.objects)
    assert any("made to fit the manifest" in note for note in chosen.notes)


def test_nodes_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text('groups: [{name: n, count: 2, cpu: 1, memory: 1Gi, resources: {nvidia.com/gpu: "1"}}]')
    chosen = choose_nodes([pod()], file)
    assert [each["metadata"]["name"] for each in chosen.objects] == ["n-0", "n-1"]
    assert chosen.devices == {"n-0": ["0"], "n-1": ["1"]}
    assert chosen.notes == (f"2 nodes of {file}; all pods run on this machine",)


def test_a_file_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"absent\.yaml"):
        choose_nodes([pod()], tmp_path / "absent.yaml")


def test_gpus_go_to_nodes_in_order_as_far_as_they_go() -> None:
    nodes = [node("none", 0), node("a", 2), node("too-many", 8), node("b", 1)]
    assert share_gpus(nodes, ["0", "1", "2", "3"]) == {"a": ["0", "1"], "b": ["2"]}
    assert share_gpus(nodes, []) == {}
