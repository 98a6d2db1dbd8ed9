"""Rules of PersistentVolumeClaims and PersistentVolumes, and of their updates. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from jobset.api.errors import Cause
from jobset.api.field_errors import forbidden, invalid, not_supported, required
from jobset.api.meta import Object
from jobset.api.name_rules import dns_subdomain_problems
from jobset.api.quantity import parse_quantity
from jobset.cluster.model.kinds.copy_on_write import without
from jobset.cluster.model.kinds.problems import immutable, invalid_each, label_selector, optional_one_of

_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
_VOLUME_MODES = ("Block", "Filesystem")
_IMMUTABLE = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"


def validate_claim(claim: Object) -> list[Cause]:
    return list(validate_claim_spec(claim["spec"], "spec"))


def validate_claim_spec(spec: Object, path: str) -> Iterator[Cause]:
    yield from _validate_access_modes(spec.get("accessModes") or [], path)
    yield from label_selector(f"{path}.selector", spec.get("selector"))
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if storage is None:
        yield required(f"{path}.resources[storage]")
    elif parse_quantity(storage) <= 0:
        yield invalid(f"{path}.resources[storage]", str(storage), "must be greater than zero")
    name = spec.get("storageClassName")
    if name:
        yield from invalid_each(f"{path}.storageClassName", name, dns_subdomain_problems(name))
    yield from optional_one_of(f"{path}.volumeMode", spec.get("volumeMode"), _VOLUME_MODES)


def _validate_access_modes(modes: list[str], path: str) -> Iterator[Cause]:
    if not modes:
        yield required(f"{path}.accessModes", "at least 1 access mode is required")
    for mode in modes:
        if mode not in _ACCESS_MODES:
            yield not_supported(f"{path}.accessModes", mode, _ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        yield forbidden(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes")


def validate_claim_update(new: Object, old: Object) -> list[Cause]:
    if new["spec"] == old["spec"]:
        return []
    causes = validate_claim(new)
    spec, before = new["spec"], old["spec"]
    if not before.get("volumeName") and spec.get("volumeName"):
        before = {**before, "volumeName": spec["volumeName"]}
    if before.get("storageClassName") is None and spec.get("storageClassName"):
        before = {**before, "storageClassName": spec["storageClassName"]}
    requested, stored = _requests(spec), _requests(before)
    if (old.get("status") or {}).get("phase") == "Bound":
        spec, before = _unrequested(spec), _unrequested(before)
    if spec != before:
        causes.append(forbidden("spec", _IMMUTABLE))
    if requested < stored and requested <= _capacity(old):
        causes.append(forbidden("spec.resources.requests.storage", "field can not be less than status.capacity"))
    causes.extend(immutable("volumeMode", spec.get("volumeMode"), before.get("volumeMode")))
    return causes


def _unrequested(spec: Object) -> Object:
    """The spec without what a bound claim may change."""
    spec = without(spec, "volumeAttributesClassName")
    return {**spec, "resources": without(spec.get("resources") or {}, "requests")}


def _requests(spec: Object) -> Decimal:
    return parse_quantity(((spec.get("resources") or {}).get("requests") or {}).get("storage", 0))


def _capacity(claim: Object) -> Decimal:
    return parse_quantity(((claim.get("status") or {}).get("capacity") or {}).get("storage", 0))


def validate_volume(volume: Object) -> list[Cause]:
    return list(_volume_problems(volume["spec"]))


def _volume_problems(spec: Object) -> Iterator[Cause]:
    yield from _validate_access_modes(spec.get("accessModes") or [], "spec")
    storage = (spec.get("capacity") or {}).get("storage")
    if storage is None:
        yield required("spec.capacity")
    elif parse_quantity(storage) <= 0:
        yield invalid("spec.capacity[storage]", str(storage), "must be greater than zero")
    if not any(key in spec for key in ("hostPath", "local", "nfs", "csi", "fc", "iscsi")):
        yield required("spec", "must specify a volume type")
    policy = spec.get("persistentVolumeReclaimPolicy")
    yield from optional_one_of("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM_POLICIES)
    yield from optional_one_of("spec.volumeMode", spec.get("volumeMode"), _VOLUME_MODES)
