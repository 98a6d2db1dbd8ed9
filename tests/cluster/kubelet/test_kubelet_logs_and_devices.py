"""CRI log lines, GPUs handed out, limits of pods, probe targets."""

import pytest

from jobset.cluster.kubelet.cri_log import LogLine, join_parts, parse_line, read_log, tail_text
from jobset.cluster.kubelet.devices import Devices
from jobset.cluster.kubelet.probes import NoSuchPort, probe_target, refusal
from jobset.cluster.kubelet.resource_field import pod_limits
from jobset.cluster.kubelet.sources import ConfigError

LOG = """2026-01-01T00:00:00.1Z stdout F one
2026-01-01T00:00:00.2Z stderr P tw
2026-01-01T00:00:00.3Z stdout F three
torn
2026-01-01T00:00:00.4Z stderr F o
2026-01-01T00:00:00.5Z stdout F \n"""


def test_reading_a_log(tmp_path):
    path = tmp_path / "0.log"
    path.write_text(LOG)
    assert [(line.time[-4:], line.stream, line.text) for line in read_log(path)] == [
        ("0.1Z", "stdout", "one"),
        ("0.3Z", "stdout", "three"),
        ("0.2Z", "stderr", "two"),
        ("0.5Z", "stdout", ""),
    ]
    assert tail_text(path, lines=2) == "two\n\n"
    assert list(read_log(tmp_path / "none")) == [] and tail_text(tmp_path / "none") == ""


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("T stderr P a b  c\n", LogLine("T", "stderr", "a b  c", complete=False)),
        ("T stdout F\n", LogLine("T", "stdout", "")),
        ("T stdin F x\n", None),
        ("half a li", None),
    ],
)
def test_one_line(raw, expected):
    assert parse_line(raw) == expected


def test_a_part_without_its_end_is_kept():
    part = LogLine("T", "stderr", "a", complete=False)
    assert list(join_parts([part])) == [part]


def gpu_pod(uid, *counts, node="node-1"):
    containers = [
        {"name": f"c{n}", "resources": {"limits": {"nvidia.com/gpu": str(count)}} if count else {}}
        for n, count in enumerate(counts)
    ]
    return {"metadata": {"uid": uid}, "spec": {"nodeName": node, "containers": containers}}


def test_gpus_are_handed_out_and_given_back():
    devices = Devices({"node-1": ["0", "1", "2", "3"]})
    devices.allocate(gpu_pod("a", 1, 0, 1))
    devices.allocate(gpu_pod("a", 1, 0, 1))  # again is no second time
    assert [devices.of("a", name) for name in ("c0", "c1", "c2")] == [("0",), (), ("1",)]
    devices.allocate(gpu_pod("b", 2))
    assert devices.of("b", "c0") == ("2", "3")
    with pytest.raises(ConfigError, match=r"asks for 1 nvidia\.com/gpu, node node-1 has 0 free"):
        devices.allocate(gpu_pod("c", 1))
    devices.release("a")
    devices.release("a")
    devices.allocate(gpu_pod("c", 2))
    assert devices.of("c", "c0") == ("0", "1")


def test_nodes_without_known_gpus_say_nothing_of_them():
    devices = Devices({"node-1": ["0"]})
    devices.allocate(gpu_pod("a", 8, node="virtual"))
    assert devices.of("a", "c0") is None


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ([{"memory": "1Gi", "cpu": "500m"}, {"memory": "1Gi", "cpu": "1"}], (2 << 30, 1.5)),
        ([{"memory": "1Gi"}, {}], (None, None)),
        ([{}], (None, None)),
    ],
)
def test_pod_limits(limits, expected):
    containers = [{"name": "c", "resources": {"limits": given}} for given in limits]
    assert pod_limits({"spec": {"containers": containers}}) == expected


def test_probe_targets():
    container = {"name": "c", "ports": [{"name": "web", "containerPort": 8080}]}
    http = {"httpGet": {"port": "web", "scheme": "HTTPS", "httpHeaders": [{"name": "A", "value": "b"}]}}
    target = probe_target(container, http)
    assert (target.port, target.scheme, target.path, target.headers) == (8080, "https", "/", (("A", "b"),))
    assert probe_target(container, {"tcpSocket": {"port": 5}}).port == 5
    with pytest.raises(NoSuchPort, match="declares no port named 'x'"):
        probe_target(container, {"tcpSocket": {"port": "x"}})


def test_grpc_is_refused_in_words():
    assert "livenessProbe.grpc is not supported" in refusal({"name": "c", "livenessProbe": {"grpc": {"port": 1}}})
    assert refusal({"name": "c", "livenessProbe": {"exec": {"command": ["x"]}}}) == ""
