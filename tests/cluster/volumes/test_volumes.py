"""Claims and volumes at work: made to measure, matched, protected, reclaimed."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from scheduling.builders import pod
from scheduling.world import World, world

from jobset.api.meta import Object
from jobset.api.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from jobset.cluster.controllers.volumes import VolumeController
from jobset.cluster.model.volumes import matching_volume


def claim(name: str = "data", storage: str = "1Gi", **spec: Any) -> Object:
    asked = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": storage}}, **spec}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": asked}


def volume(name: str, storage: str = "1Gi", **spec: Any) -> Object:
    offer = {
        "capacity": {"storage": storage}, "accessModes": ["ReadWriteMany"], "hostPath": {"path": f"/srv/{name}"},
        "persistentVolumeReclaimPolicy": "Retain", **spec,
    }  # fmt: skip
    return {"metadata": {"name": name}, "spec": offer}


def phase(cluster: World, name: str = "data") -> str:
    return str(cluster.get(PERSISTENT_VOLUME_CLAIMS, name)["status"]["phase"])


def controller(root: Path) -> Any:
    return partial(_make, root)


def _make(root: Path, client: Any, informers: Any, now: Any) -> VolumeController:
    return VolumeController(client, informers, now, root)


async def test_a_claim_gets_a_directory_and_loses_it(tmp_path: Path) -> None:
    async with world(controller(tmp_path / "volumes")) as cluster:
        await cluster.create(PERSISTENT_VOLUME_CLAIMS, claim(storageClassName="premium"))
        await cluster.until(lambda: phase(cluster) == "Bound")
        bound = cluster.get(PERSISTENT_VOLUME_CLAIMS, "data")
        assert bound["status"]["capacity"] == {"storage": "1Gi"}
        assert bound["status"]["accessModes"] == ["ReadWriteMany"]
        made = cluster.get(PERSISTENT_VOLUMES, bound["spec"]["volumeName"])
        await cluster.until(
            lambda: cluster.get(PERSISTENT_VOLUMES, made["metadata"]["name"])["status"]["phase"] == "Bound"
        )
        path = Path(made["spec"]["hostPath"]["path"])
        assert path.is_dir()
        assert path.parent == tmp_path / "volumes"
        assert made["spec"]["claimRef"]["uid"] == bound["metadata"]["uid"]
        assert made["spec"]["storageClassName"] == "premium"
        assert cluster.events("ProvisioningSucceeded")
        (path / "checkpoint").write_text("7")
        await cluster.client.delete(PERSISTENT_VOLUME_CLAIMS, "default", "data")
        await cluster.until(lambda: not cluster.all(PERSISTENT_VOLUMES))
        assert not path.exists()


async def test_a_claim_in_use_stays_until_its_pods_have_ended(tmp_path: Path) -> None:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    async with world(controller(tmp_path)) as cluster:
        await cluster.create(PERSISTENT_VOLUME_CLAIMS, claim())
        await cluster.create(PODS, pod("user", nodeName="n", volumes=volumes), pod("waiting", volumes=volumes))
        await cluster.until(lambda: phase(cluster) == "Bound")
        await cluster.client.delete(PERSISTENT_VOLUME_CLAIMS, "default", "data")
        await cluster.create(PERSISTENT_VOLUME_CLAIMS, claim("later"))
        await cluster.until(lambda: phase(cluster, "later") == "Bound")
        assert cluster.exists(PERSISTENT_VOLUME_CLAIMS, "data")
        await cluster.set_status("user", phase="Succeeded")
        await cluster.until(lambda: not cluster.exists(PERSISTENT_VOLUME_CLAIMS, "data"))


async def test_a_volume_that_fits_is_taken_and_kept_when_released(tmp_path: Path) -> None:
    async with world(controller(tmp_path)) as cluster:
        await cluster.create(PERSISTENT_VOLUMES, volume("big", "9Gi"), volume("fit", "2Gi"), volume("small", "1Mi"))
        await cluster.until(
            lambda: all(one["status"]["phase"] == "Available" for one in cluster.all(PERSISTENT_VOLUMES))
        )
        await cluster.create(PERSISTENT_VOLUME_CLAIMS, claim(storageClassName=""))
        await cluster.until(lambda: phase(cluster) == "Bound")
        assert cluster.get(PERSISTENT_VOLUME_CLAIMS, "data")["spec"]["volumeName"] == "fit"
        await cluster.client.delete(PERSISTENT_VOLUME_CLAIMS, "default", "data")
        await cluster.until(lambda: cluster.get(PERSISTENT_VOLUMES, "fit")["status"]["phase"] == "Released")


async def test_without_a_class_a_claim_waits_for_a_volume(tmp_path: Path) -> None:
    async with world(controller(tmp_path)) as cluster:
        await cluster.create(PERSISTENT_VOLUME_CLAIMS, claim(storageClassName=""))
        await cluster.until(lambda: cluster.events("FailedBinding"))
        assert phase(cluster) == "Pending"
        await cluster.create(PERSISTENT_VOLUMES, volume("late"))
        await cluster.until(lambda: phase(cluster) == "Bound")


async def test_a_claim_whose_volume_vanished_is_lost(tmp_path: Path) -> None:
    async with world(controller(tmp_path)) as cluster:
        await cluster.create(PERSISTENT_VOLUMES, volume("v"))
        await cluster.create(PERSISTENT_VOLUME_CLAIMS, claim(storageClassName="", volumeName="v"))
        await cluster.until(lambda: phase(cluster) == "Bound")
        await cluster.client.delete(PERSISTENT_VOLUMES, "", "v")
        await cluster.client.patch(PERSISTENT_VOLUMES, "", "v", {"metadata": {"finalizers": None}})
        await cluster.until(lambda: phase(cluster) == "Lost")


@pytest.mark.parametrize(
    ("offer", "fits"),
    [
        ({}, True),
        ({"storageClassName": "fast"}, False),
        ({"accessModes": ["ReadWriteOnce"]}, False),
        ({"volumeMode": "Block"}, False),
        ({"claimRef": {"namespace": "default", "name": "other", "uid": "1"}}, False),
        ({"claimRef": {"namespace": "default", "name": "data"}, "capacity": {"storage": "1Ki"}}, True),
    ],
)
def test_which_volumes_fit(offer: Object, fits: bool) -> None:
    wanting = claim()
    wanting["metadata"]["uid"] = "7"
    assert (matching_volume(wanting, [volume("v", **offer)]) is not None) is fits
