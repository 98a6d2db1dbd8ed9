"""Environment and command of a container: tables, no I/O."""

import base64

import pytest

from jobset.cluster.kubelet.argv import build_argv
from jobset.cluster.kubelet.env import Surroundings, build_env, expand, inherited_env, references, service_env
from jobset.cluster.kubelet.sources import ConfigError, Sources

POD = {
    "metadata": {
        "name": "p",
        "namespace": "n",
        "uid": "u",
        "labels": {"app": "x", "tier": 'a"b'},
        "annotations": {"batch.kubernetes.io/job-completion-index": "3"},
    },
    "spec": {
        "nodeName": "node-1",
        "serviceAccountName": "runner",
        "containers": [{"name": "main", "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}}}, {"name": "other"}],
    },
}
SERVICE = {
    "metadata": {"name": "my-db", "namespace": "n"},
    "spec": {"clusterIP": "10.96.0.9", "ports": [{"name": "sql", "port": 5432, "protocol": "TCP"}]},
}
SOURCES = Sources(
    {
        ("configmap", "c"): {
            "data": {"A": "1", "B": "$(HOME)"},
            "binaryData": {"BIN": base64.b64encode(b"x").decode()},
        },
        ("secret", "s"): {"data": {"TOKEN": base64.b64encode(b"geheim").decode()}},
    }
)


def around(pod=POD, services=(), devices=None):
    return Surroundings(
        pod=pod,
        pod_ip="10.88.0.2",
        host_ip="192.0.2.7",
        hostname="p",
        allocatable={"cpu": "8", "memory": "32Gi"},
        services=services,
        inherited={"HOME": "/home/me", "PATH": "/bin"},
        devices=devices,
    )


def env(container, **options):
    return build_env({"name": "main", **container}, SOURCES, around(**options))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)-$(B)", "1-2"),
        ("$(MISSING)", "$(MISSING)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A ${A}", "$A ${A}"),
        ("cost 5$", "cost 5$"),
        ("$(A", "$(A"),
        ("$()", "$()"),
    ],
)
def test_expansion(text, expected):
    assert expand(text, {"A": "1", "B": "2"}) == expected


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "n"),
        ("metadata.uid", "u"),
        ("metadata.labels['app']", "x"),
        ("metadata.labels['absent']", ""),
        ("metadata.annotations['batch.kubernetes.io/job-completion-index']", "3"),
        ("spec.nodeName", "node-1"),
        ("spec.serviceAccountName", "runner"),
        ("status.podIP", "10.88.0.2"),
        ("status.podIPs", "10.88.0.2"),
        ("status.hostIP", "192.0.2.7"),
    ],
)
def test_field_references(path, value):
    built = env({"env": [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}]})
    assert built["X"] == value


@pytest.mark.parametrize(
    ("ref", "value"),
    [
        ({"resource": "limits.cpu", "containerName": "main"}, "2"),
        ({"resource": "limits.cpu", "containerName": "main", "divisor": "1m"}, "1500"),
        ({"resource": "limits.memory", "containerName": "main", "divisor": "1Mi"}, "1024"),
        ({"resource": "limits.memory", "containerName": "other", "divisor": "1Gi"}, "32"),
        ({"resource": "requests.cpu", "containerName": "other"}, "0"),
        ({"resource": "limits.cpu"}, "8"),
    ],
)
def test_resource_references(ref, value):
    built = env({"env": [{"name": "X", "valueFrom": {"resourceFieldRef": ref}}]})
    assert built["X"] == value


def test_later_values_see_earlier_ones_and_win():
    built = env(
        {
            "envFrom": [{"configMapRef": {"name": "c"}, "prefix": "P_"}, {"secretRef": {"name": "s"}}],
            "env": [
                {"name": "P_A", "value": "own"},
                {"name": "X", "value": "$(P_A) $(TOKEN) $(HOME) $(LATER)"},
                {"name": "LATER", "value": "x"},
            ],
        }
    )
    assert built["X"] == "own geheim /home/me $(LATER)"
    assert built["P_B"] == "$(HOME)"  # only env is expanded, not what envFrom brings
    assert built["HOSTNAME"] == "p"


def test_keys_of_config_maps_and_secrets():
    built = env(
        {
            "env": [
                {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "A"}}},
                {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "TOKEN"}}},
                {"name": "N", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "A", "optional": True}}},
                {"name": "K", "valueFrom": {"secretKeyRef": {"name": "s", "key": "none", "optional": True}}},
            ]
        }
    )
    assert (built["A"], built["S"]) == ("1", "geheim")
    assert "N" not in built and "K" not in built


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMapKeyRef": {"name": "none", "key": "A"}}, 'configmap "none" not found'),
        ({"secretKeyRef": {"name": "s", "key": "none"}}, "secret \"s\" has no key 'none'; it has ['TOKEN']"),
        ({"fieldRef": {"fieldPath": "spec.containers"}}, "fieldPath 'spec.containers' is not supported"),
        ({"resourceFieldRef": {"resource": "limits.cpu", "containerName": "x"}}, "names container 'x'"),
    ],
)
def test_what_cannot_be_resolved_is_named(source, message):
    with pytest.raises(ConfigError, match=message.replace("[", r"\[")):
        env({"env": [{"name": "X", "valueFrom": source}]})


def test_services_are_announced_unless_switched_off():
    built = env({}, services=[SERVICE])
    assert built["MY_DB_SERVICE_HOST"] == "10.96.0.9"
    assert built["MY_DB_PORT_5432_TCP_ADDR"] == "10.96.0.9"
    quiet = {**POD, "spec": {**POD["spec"], "enableServiceLinks": False}}
    assert "MY_DB_SERVICE_HOST" not in env({}, pod=quiet, services=[SERVICE])
    assert service_env(SERVICE)["MY_DB_SERVICE_PORT_SQL"] == "5432"


@pytest.mark.parametrize(
    ("devices", "expected"),
    [(None, None), ((), ""), (("GPU-a", "GPU-b"), "GPU-a,GPU-b")],
)
def test_gpus(devices, expected):
    assert env({}, devices=devices).get("CUDA_VISIBLE_DEVICES") == expected


def test_a_container_inherits_little_of_this_machine():
    inherited = inherited_env({"PATH": "/usr/bin:/venv/bin", "HOME": "/h", "AWS_SECRET": "x"}, "/venv/bin/python")
    assert inherited == {"PATH": "/venv/bin:/usr/bin", "HOME": "/h"}


def test_references_are_found():
    container = {
        "envFrom": [{"configMapRef": {"name": "a"}}, {"secretRef": {"name": "b"}}],
        "env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "c", "key": "k"}}}, {"name": "Y", "value": "1"}],
    }
    assert list(references(container)) == [("configmap", "a"), ("secret", "b"), ("secret", "c")]


def test_command_and_args():
    container = {"name": "main", "command": ["run", "--rank=$(RANK)"], "args": ["$$(RANK)", "$(NONE)"]}
    assert build_argv(container, {"RANK": "4"}) == ("run", "--rank=4", "$(RANK)", "$(NONE)")


def test_no_command_tells_the_fix():
    with pytest.raises(ConfigError, match=r"args \['x'\] need a command before them.*command: "):
        build_argv({"name": "main", "image": "i", "args": ["x"]}, {})
