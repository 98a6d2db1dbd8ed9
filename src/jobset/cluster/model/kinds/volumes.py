"""PersistentVolumeClaim and PersistentVolume as the API server handles them. Pure.

Both are created with a protection finalizer; the volume controller takes it off once nothing uses them any more.
"""

from __future__ import annotations

from jobset.api.meta import Object
from jobset.api.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from jobset.cluster.model.kinds.claim_validation import validate_claim, validate_claim_update, validate_volume
from jobset.cluster.model.kinds.copy_on_write import fill, fill_zero, put
from jobset.cluster.model.kinds.kind import Kind, Subresource
from jobset.cluster.model.kinds.pod_defaults import default_claim_spec
from jobset.cluster.model.kinds.quantities import canonical_at

CLAIM_PROTECTION = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION = "kubernetes.io/pv-protection"
_PENDING: Object = {"phase": "Pending"}


def _with_finalizer(obj: Object, finalizer: str) -> Object:
    metadata = obj["metadata"]
    finalizers = metadata.get("finalizers") or []
    if finalizer in finalizers:
        return obj
    return put(obj, "metadata", put(metadata, "finalizers", [*finalizers, finalizer]))


def default_claim(claim: Object) -> Object:
    claim = put(claim, "spec", default_claim_spec(claim.get("spec") or {}))
    status = fill_zero(claim.get("status") or {}, _PENDING)
    return put(claim, "status", canonical_at(status, "capacity", "allocatedResources"))


def prepare_claim(claim: Object) -> Object:
    return _with_finalizer(put(claim, "status", _PENDING), CLAIM_PROTECTION)


def keep_status(new: Object, old: Object) -> Object:
    return put(new, "status", old["status"])


def merge_status(new: Object, old: Object) -> Object:
    return put(put(new, "spec", old["spec"]), "status", new.get("status") or _PENDING)


PERSISTENT_VOLUME_CLAIM = Kind(
    resource=PERSISTENT_VOLUME_CLAIMS,
    definition="io.k8s.api.core.v1.PersistentVolumeClaim",
    default=default_claim,
    prepare_create=prepare_claim,
    prepare_update=keep_status,
    validate=validate_claim,
    validate_update=validate_claim_update,
    subresources={"status": Subresource(merge_status)},
    generation=False,
    short_names=("pvc",),
)


def default_volume(volume: Object) -> Object:
    spec = fill_zero(volume.get("spec") or {}, {"persistentVolumeReclaimPolicy": "Retain"})
    spec = canonical_at(fill(spec, {"volumeMode": "Filesystem"}), "capacity")
    if spec.get("hostPath") is not None:
        spec = put(spec, "hostPath", fill(spec["hostPath"], {"type": ""}))
    status = fill_zero(volume.get("status") or {}, _PENDING)
    return put(put(volume, "spec", spec), "status", status)


def prepare_volume(volume: Object) -> Object:
    return _with_finalizer(put(volume, "status", _PENDING), VOLUME_PROTECTION)


PERSISTENT_VOLUME = Kind(
    resource=PERSISTENT_VOLUMES,
    definition="io.k8s.api.core.v1.PersistentVolume",
    default=default_volume,
    prepare_create=prepare_volume,
    prepare_update=keep_status,
    validate=validate_volume,
    subresources={"status": Subresource(merge_status)},
    generation=False,
    short_names=("pv",),
)
