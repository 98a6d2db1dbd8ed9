"""Binds PersistentVolumeClaims: to a volume that fits, or to a directory made for the claim; and cleans up after them.

One worker for both kinds: a key with a namespace is a claim, one without is a volume. Directories lie under the root
given; the kubelet finds them by the volume's hostPath.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from jobset.api.errors import AlreadyExists, ApiError
from jobset.api.meta import Object
from jobset.api.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, Resource
from jobset.client.port import Client
from jobset.cluster.model.scheduling.pod import claim_names
from jobset.cluster.model.volumes import (
    BIND_COMPLETED,
    CLAIM_PROTECTION,
    PROVISIONED_BY,
    PROVISIONER,
    VOLUME_PROTECTION,
    bound_spec_patch,
    bound_status,
    cannot_provision,
    claim_reference,
    directory_volume,
    matching_volume,
    refers_to,
    uses_claim,
    volume_name,
    volume_phase,
)
from jobset.core.actions import EventNote
from jobset.reconcile.apply import Applied, PassFailed
from jobset.reconcile.events import EventRecorder
from jobset.reconcile.informer import Key, SharedInformers, key_of
from jobset.reconcile.worker import Controller, Outcome

BY_CLAIM = "claim"


class VolumeController:
    """`root` is where directories for claims are made; it is created on first use."""

    def __init__(self, client: Client, informers: SharedInformers, now: Callable[[], datetime], root: Path) -> None:
        self._client = client
        self._informers = informers
        self._root = root
        self._events = EventRecorder(client, "persistentvolume-controller", now)
        claims, volumes = informers.get(PERSISTENT_VOLUME_CLAIMS), informers.get(PERSISTENT_VOLUMES)
        self._claims, self._volumes, self._pods = claims.cache, volumes.cache, informers.get(PODS).cache
        informers.get(PODS).add_index(BY_CLAIM, _claims_of)
        claims.add_handler(self._claim_changed)
        volumes.add_handler(self._volume_changed)
        informers.get(PODS).add_handler(self._pod_changed)
        caches = {PERSISTENT_VOLUME_CLAIMS: claims.cache, PERSISTENT_VOLUMES: volumes.cache}
        self._controller = Controller("volumes", self._pass, caches)

    async def run(self) -> None:
        await self._informers.wait_synced()
        await self._controller.run()

    def _claim_changed(self, old: Object | None, new: Object | None) -> None:
        claim = new if new is not None else old
        self._controller.queue.add(key_of(claim))
        if claim is not None and claim["spec"].get("volumeName"):
            self._controller.queue.add(("", claim["spec"]["volumeName"]))

    def _volume_changed(self, old: Object | None, new: Object | None) -> None:
        volume = new if new is not None else old
        self._controller.queue.add(key_of(volume))
        reference = volume["spec"].get("claimRef") if volume is not None else None
        if reference:
            self._controller.queue.add((reference["namespace"], reference["name"]))
        elif new is not None:
            for claim in self._claims.all():
                if not _is_bound(claim):
                    self._controller.queue.add(key_of(claim))

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new if new is not None else old
        for claim in _claims_of(pod) if pod is not None and pod["spec"].get("volumes") else ():
            namespace, _, name = claim.partition("/")
            current = self._claims.get(namespace, name)
            if current is not None and "deletionTimestamp" in current["metadata"]:
                self._controller.queue.add((namespace, name))

    async def _pass(self, key: Key) -> Outcome:
        applied = Applied()
        claim, volume = self._claims.get(*key), self._volumes.get(*key)
        try:
            if key[0] and claim is not None:
                await self._care_for_claim(claim, applied)
            elif not key[0] and volume is not None:
                await self._care_for_volume(volume, applied)
        except ApiError as error:
            raise PassFailed([error], applied) from error
        return Outcome(applied)

    # ---------------------------------------------------------------- claims

    async def _care_for_claim(self, claim: Object, applied: Applied) -> None:
        namespace, name = key_of(claim)
        if "deletionTimestamp" in claim["metadata"]:
            users = self._pods.by_index(BY_CLAIM, f"{namespace}/{name}")
            if not any(uses_claim(pod, name) for pod in users):
                await self._unprotect(PERSISTENT_VOLUME_CLAIMS, claim, CLAIM_PROTECTION, applied)
            return
        wanted = claim["spec"].get("volumeName")
        volume = self._volumes.get("", wanted) if wanted else None
        if wanted and volume is None and _is_bound(claim):
            await self._lose(claim, applied)
            return
        if volume is None or not (_is_bound(claim) and refers_to(volume, claim)):
            volume = matching_volume(claim, self._volumes.all())
            if volume is None and not wanted:
                volume = await self._provision(claim, applied)
        if volume is not None:
            await self._bind(claim, volume, applied)

    async def _provision(self, claim: Object, applied: Applied) -> Object | None:
        if (problem := cannot_provision(claim)) is not None:
            await self._events.record(_regarding(claim), EventNote("Normal", "FailedBinding", problem))
            return None
        path = self._root / volume_name(claim)
        path.mkdir(parents=True, exist_ok=True)
        try:
            volume = await self._client.create(PERSISTENT_VOLUMES, directory_volume(claim, str(path)))
        except AlreadyExists:
            return await self._client.get(PERSISTENT_VOLUMES, "", volume_name(claim), dict)
        applied.wrote(PERSISTENT_VOLUMES, volume)
        note = EventNote("Normal", "ProvisioningSucceeded", f"Successfully provisioned volume {volume_name(claim)}")
        await self._events.record(_regarding(claim), note)
        return volume

    async def _bind(self, claim: Object, volume: Object, applied: Applied) -> None:
        """First the volume points to the claim, then the claim to the volume: no two claims get one volume."""
        reference = volume["spec"].get("claimRef") or {}
        if reference.get("uid") != claim["metadata"]["uid"]:
            patch = _guarded(volume, {"spec": {"claimRef": claim_reference(claim)}})
            volume = await self._patch(PERSISTENT_VOLUMES, volume, patch, applied)
        if patch := bound_spec_patch(claim, volume):
            claim = await self._patch(PERSISTENT_VOLUME_CLAIMS, claim, _guarded(claim, patch), applied)
        status = bound_status(volume)
        if {key: (claim.get("status") or {}).get(key) for key in status} != status:
            await self._patch(PERSISTENT_VOLUME_CLAIMS, claim, {"status": status}, applied, subresource="status")

    async def _lose(self, claim: Object, applied: Applied) -> None:
        if claim["status"].get("phase") == "Lost":
            return
        await self._patch(PERSISTENT_VOLUME_CLAIMS, claim, {"status": {"phase": "Lost"}}, applied, subresource="status")
        message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
        await self._events.record(_regarding(claim), EventNote("Warning", "ClaimLost", message))

    # ---------------------------------------------------------------- volumes

    async def _care_for_volume(self, volume: Object, applied: Applied) -> None:
        reference = volume["spec"].get("claimRef") or {}
        claim = self._claims.get(reference.get("namespace", ""), reference.get("name", "")) if reference else None
        phase = volume_phase(volume, claim)
        if "deletionTimestamp" in volume["metadata"]:
            if phase != "Bound":
                await self._unprotect(PERSISTENT_VOLUMES, volume, VOLUME_PROTECTION, applied)
            return
        if (volume.get("status") or {}).get("phase") != phase:
            patch = {"status": {"phase": phase}}
            volume = await self._patch(PERSISTENT_VOLUMES, volume, patch, applied, subresource="status")
        if phase == "Released" and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
            await self._reclaim(volume, applied)

    async def _reclaim(self, volume: Object, applied: Applied) -> None:
        """Remove the directory, if we made it, and the volume with it."""
        annotations = volume["metadata"].get("annotations") or {}
        if annotations.get(PROVISIONED_BY) != PROVISIONER:
            return
        path = Path((volume["spec"].get("hostPath") or {}).get("path", ""))
        if path.parent == self._root:
            await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)
        metadata = volume["metadata"]
        deleted = await self._client.delete(PERSISTENT_VOLUMES, "", metadata["name"], uid=metadata["uid"])
        applied.wrote(PERSISTENT_VOLUMES, deleted)

    # ---------------------------------------------------------------- requests

    async def _unprotect(self, resource: Resource, obj: Object, finalizer: str, applied: Applied) -> None:
        finalizers = obj["metadata"].get("finalizers") or []
        if finalizer in finalizers:
            kept = [one for one in finalizers if one != finalizer]
            await self._patch(resource, obj, _guarded(obj, {"metadata": {"finalizers": kept or None}}), applied)

    async def _patch(
        self, resource: Resource, obj: Object, patch: Object, applied: Applied, *, subresource: str = ""
    ) -> Object:
        namespace, name = key_of(obj)
        written = await self._client.patch(resource, namespace, name, patch, subresource=subresource)
        applied.wrote(resource, written)
        return written


def _guarded(obj: Object, patch: Object) -> Object:
    """The patch, to be refused unless the object is still as it was when we decided."""
    metadata = obj["metadata"]
    held = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    return {**patch, "metadata": {**patch.get("metadata", {}), **held}}


def _regarding(claim: Object) -> Object:
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": claim["metadata"]}


def _is_bound(claim: Object) -> bool:
    return BIND_COMPLETED in (claim["metadata"].get("annotations") or {})


def _claims_of(pod: Object) -> tuple[str, ...]:
    metadata = pod["metadata"]
    return tuple(f"{metadata.get('namespace', '')}/{name}" for name in claim_names(metadata["name"], pod["spec"]))
