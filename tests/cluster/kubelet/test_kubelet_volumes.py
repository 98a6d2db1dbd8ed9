"""Volumes as directories and files, and mounts of them."""

import base64
import stat

import pytest

from jobset.api.resources import CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, SECRETS
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.client import InProcessClient
from jobset.cluster.kubelet.sources import ConfigError, fetch
from jobset.cluster.kubelet.volumes import PodFacts, mounts, prepare, references
from jobset.cluster.runtime.port import Mount
from jobset.cluster.store.memory import MemoryStore
from jobset.sim.loop import wall_clock


@pytest.fixture
def client():
    return InProcessClient(ApiService(MemoryStore(), now=wall_clock()))


async def make(client, directory, *volumes):
    metadata = {"name": "p", "namespace": "default", "uid": "u", "labels": {"app": "x"}}
    pod = {"metadata": metadata, "spec": {"volumes": list(volumes), "containers": [{"name": "main"}]}}
    sources = await fetch(client, "default", references(volumes))
    return await prepare(PodFacts(pod, "10.0.0.1", "192.0.2.1", {}), volumes, directory, sources, client)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


async def create(client, resource, name, **fields):
    body = {"metadata": {"name": name, **({"namespace": "default"} if resource.namespaced else {})}, **fields}
    return await client.create(resource, {"apiVersion": resource.api_version, "kind": resource.kind, **body})


async def test_config_maps_secrets_and_their_modes(client, tmp_path):
    await create(client, CONFIG_MAPS, "c", data={"a.txt": "A", "b.txt": "B"})
    await create(client, SECRETS, "s", data={"key": base64.b64encode(b"geheim").decode()})
    made = await make(
        client,
        tmp_path,
        {"name": "all", "configMap": {"name": "c"}},
        {"name": "some", "configMap": {"name": "c", "items": [{"key": "a.txt", "path": "sub/x", "mode": 0o600}]}},
        {"name": "hidden", "secret": {"secretName": "s", "defaultMode": 0o400}},
        {"name": "absent", "configMap": {"name": "none", "optional": True}},
    )
    assert sorted(path.name for path in made["all"].path.iterdir()) == ["a.txt", "b.txt"]
    assert (made["some"].path / "sub/x").read_text() == "A"
    assert mode(made["some"].path / "sub/x") == 0o600
    assert (made["hidden"].path / "key").read_bytes() == b"geheim"
    assert mode(made["hidden"].path / "key") == 0o400
    assert list(made["absent"].path.iterdir()) == []
    assert all(volume.read_only for volume in made.values())


async def test_downward_and_projected(client, tmp_path):
    await create(client, CONFIG_MAPS, "c", data={"k": "v"})
    fields = [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
    ]
    made = await make(
        client,
        tmp_path,
        {"name": "down", "downwardAPI": {"items": fields}},
        {"name": "both", "projected": {"sources": [{"downwardAPI": {"items": fields}}, {"configMap": {"name": "c"}}]}},
    )
    assert (made["down"].path / "labels").read_text() == 'app="x"'
    assert sorted(path.name for path in made["both"].path.iterdir()) == ["k", "labels", "name"]


async def test_claims_are_the_directory_of_their_volume(client, tmp_path):
    place = tmp_path / "pv"
    access = {"accessModes": ["ReadWriteOnce"]}
    await create(
        client,
        PERSISTENT_VOLUMES,
        "pv",
        spec={**access, "capacity": {"storage": "1Gi"}, "hostPath": {"path": str(place)}},
    )
    request = {"resources": {"requests": {"storage": "1Gi"}}}
    await create(client, PERSISTENT_VOLUME_CLAIMS, "data", spec={**access, **request, "volumeName": "pv"})
    await create(client, PERSISTENT_VOLUME_CLAIMS, "loose", spec={**access, **request})
    made = await make(client, tmp_path, {"name": "d", "persistentVolumeClaim": {"claimName": "data"}})
    assert made["d"].path == place and place.is_dir()
    with pytest.raises(ConfigError, match='persistentvolumeclaim "loose" is not bound'):
        await make(client, tmp_path, {"name": "d", "persistentVolumeClaim": {"claimName": "loose"}})
    with pytest.raises(ConfigError, match='"none" not found'):
        await make(client, tmp_path, {"name": "d", "persistentVolumeClaim": {"claimName": "none"}})


@pytest.mark.parametrize(
    ("kind", "path", "error"),
    [
        ("", "anything", ""),
        ("DirectoryOrCreate", "new/dir", ""),
        ("FileOrCreate", "file2", ""),
        ("Directory", "there", ""),
        ("File", "there", "is not a File"),
        ("Directory", "missing", "is not a Directory"),
        ("Socket", "file", "is not a Socket"),
    ],
)
async def test_host_path_types(client, tmp_path, kind, path, error):
    (tmp_path / "there").mkdir()
    (tmp_path / "file").touch()
    volume = {"name": "h", "hostPath": {"path": str(tmp_path / path), "type": kind}}
    if error:
        with pytest.raises(ConfigError, match=error) as caught:
            await make(client, tmp_path, volume)
        assert caught.value.reason == "FailedMount"
    else:
        assert (await make(client, tmp_path, volume))["h"].path == tmp_path / path


async def test_what_is_missing_or_unknown_is_named(client, tmp_path):
    with pytest.raises(ConfigError, match='volume "v": configmap "none" not found'):
        await make(client, tmp_path, {"name": "v", "configMap": {"name": "none"}})
    with pytest.raises(ConfigError, match="no volumes of kind 'nfs'"):
        await make(client, tmp_path, {"name": "v", "nfs": {"server": "x", "path": "/"}})


async def test_mounts(client, tmp_path):
    await create(client, CONFIG_MAPS, "c", data={"a": "A"})
    made = await make(
        client, tmp_path, {"name": "scratch", "emptyDir": {}}, {"name": "conf", "configMap": {"name": "c"}}
    )
    container = {
        "volumeMounts": [
            {"name": "scratch", "mountPath": "/tmp/x", "subPathExpr": "$(POD)"},
            {"name": "scratch", "mountPath": "/ro", "readOnly": True},
            {"name": "conf", "mountPath": "/etc/a", "subPath": "a"},
        ]
    }
    scratch = tmp_path / "volumes" / "scratch"
    assert mounts(container, made, {"POD": "p0"}) == (
        Mount(scratch / "p0", "/tmp/x", False),
        Mount(scratch, "/ro", True),
        Mount(tmp_path / "volumes" / "conf" / "a", "/etc/a", True),
    )
    assert (scratch / "p0").is_dir()
    for bad, message in (({"name": "none"}, "does not have"), ({"name": "scratch", "subPath": "../x"}, "stay inside")):
        with pytest.raises(ConfigError, match=message):
            mounts({"volumeMounts": [{"mountPath": "/x", **bad}]}, made, {})
