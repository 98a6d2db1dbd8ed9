"""Claims and volumes: which volume serves a claim, and the objects that say so. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from jobset.api.meta import Object
from jobset.api.quantity import parse_bytes
from jobset.api.selectors import label_selector_of
from jobset.cluster.model.scheduling.pod import claim_names, is_finished

PROVISIONER = "jobset.x-k8s.io/local-directory"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
CLAIM_PROTECTION = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION = "kubernetes.io/pv-protection"


def requested_bytes(claim: Object) -> int:
    return parse_bytes((claim["spec"].get("resources") or {}).get("requests", {}).get("storage", 0))


def refers_to(volume: Object, claim: Object) -> bool:
    """Whether the volume is reserved for this claim, by name or fully bound."""
    reference, metadata = volume["spec"].get("claimRef"), claim["metadata"]
    if not reference or (reference["namespace"], reference["name"]) != (metadata["namespace"], metadata["name"]):
        return False
    return reference.get("uid") in (None, "", metadata["uid"])


def matching_volume(claim: Object, volumes: Iterable[Object]) -> Object | None:
    """The volume to bind: the one reserved for the claim, else the smallest free one that satisfies it."""
    wanted = claim["spec"].get("volumeName")
    fitting = []
    for volume in volumes:
        if "deletionTimestamp" in volume["metadata"]:
            continue
        if wanted and volume["metadata"]["name"] != wanted:
            continue
        if refers_to(volume, claim):
            return volume
        if not volume["spec"].get("claimRef") and satisfies(volume, claim):
            fitting.append(volume)
    return min(fitting, key=_size_and_name) if fitting else None


def satisfies(volume: Object, claim: Object) -> bool:
    offer, want = volume["spec"], claim["spec"]
    selector = label_selector_of(want.get("selector"))
    return (
        (offer.get("storageClassName") or "") == (want.get("storageClassName") or "")
        and (offer.get("volumeMode") or "Filesystem") == (want.get("volumeMode") or "Filesystem")
        and set(want.get("accessModes") or ()) <= set(offer.get("accessModes") or ())
        and _size_and_name(volume)[0] >= requested_bytes(claim)
        and (selector is None or selector.matches(volume["metadata"].get("labels")))
    )


def _size_and_name(volume: Object) -> tuple[int, str]:
    return parse_bytes((volume["spec"].get("capacity") or {}).get("storage", 0)), volume["metadata"]["name"]


def cannot_provision(claim: Object) -> str | None:
    """Why no directory can serve this claim, if so. An empty storage class asks for existing volumes only."""
    spec = claim["spec"]
    if spec.get("storageClassName") == "":
        return "no persistent volumes available for this claim and no storage class is set"
    if spec.get("selector"):
        return "claim.spec.selector is not supported for dynamic provisioning"
    if spec.get("volumeMode") == "Block":
        return "a volume of this cluster is a local directory: volumeMode Block cannot be had"
    return None


def volume_name(claim: Object) -> str:
    return f"pvc-{claim['metadata']['uid']}"


def directory_volume(claim: Object, path: str) -> Object:
    """A PersistentVolume made for this claim: a directory of this machine, deleted with the claim."""
    spec = claim["spec"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume_name(claim), "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "capacity": {"storage": (spec.get("resources") or {}).get("requests", {}).get("storage", "0")},
            "accessModes": list(spec.get("accessModes") or ()),
            "persistentVolumeReclaimPolicy": "Delete",
            "volumeMode": "Filesystem",
            "hostPath": {"path": path, "type": "DirectoryOrCreate"},
            "claimRef": claim_reference(claim),
            **({"storageClassName": spec["storageClassName"]} if spec.get("storageClassName") else {}),
        },
    }


def claim_reference(claim: Object) -> Object:
    metadata = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


def bound_spec_patch(claim: Object, volume: Object) -> Object:
    """What makes the claim point to its volume; empty when it does already."""
    spec, annotations = claim["spec"], claim["metadata"].get("annotations") or {}
    if spec.get("volumeName") == volume["metadata"]["name"] and BIND_COMPLETED in annotations:
        return {}
    marks = {BIND_COMPLETED: "yes"}
    if not spec.get("volumeName"):
        marks[BOUND_BY_CONTROLLER] = "yes"
    return {"metadata": {"annotations": marks}, "spec": {"volumeName": volume["metadata"]["name"]}}


def bound_status(volume: Object) -> Object:
    offer = volume["spec"]
    return {"phase": "Bound", "accessModes": offer.get("accessModes") or [], "capacity": offer.get("capacity") or {}}


def volume_phase(volume: Object, claim: Object | None) -> str:
    """Available, Bound or Released. `claim` is the one that the volume names, if it exists."""
    reference = volume["spec"].get("claimRef")
    if not reference or not reference.get("uid"):
        return "Available"
    return "Bound" if claim is not None and claim["metadata"]["uid"] == reference["uid"] else "Released"


def uses_claim(pod: Object, claim: str) -> bool:
    """Whether a pod keeps its claim from being removed: it is on a node and has not ended."""
    if not pod["spec"].get("nodeName") or is_finished(pod):
        return False
    return claim in claim_names(pod["metadata"]["name"], pod["spec"])
