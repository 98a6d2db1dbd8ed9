"""Rules of a pod's volumes: exactly one source each, and what each source needs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from jobset.api.errors import Cause
from jobset.api.field_errors import duplicate, forbidden, invalid, not_supported, required
from jobset.api.meta import Object
from jobset.api.name_rules import dns_label_problems
from jobset.api.quantity import parse_quantity
from jobset.cluster.model.kinds.claim_validation import validate_claim_spec
from jobset.cluster.model.kinds.pod_validation_fields import (
    VOLUME_FIELDS,
    validate_field_ref,
    validate_resource_ref,
)
from jobset.cluster.model.kinds.problems import invalid_each

_ONE_SOURCE = "may not specify more than 1 volume type"
_ONE_PROJECTION = "may not specify more than 1 volume type per source"
_HOST_PATH_TYPES = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip
_SHORTEST_TOKEN_S = 600
_LONGEST_TOKEN_S = 1 << 32

SOURCES = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi",
    "glusterfs", "flocker", "persistentVolumeClaim", "configMap", "rbd", "cephfs", "quobyte", "downwardAPI", "fc",
    "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk", "storageos", "projected",
    "scaleIO", "csi", "cinder", "flexVolume", "ephemeral", "image",
)  # fmt: skip
"""In the order in which a second source is reported."""


def validate_volumes(volumes: list[Object], path: str) -> Iterator[Cause]:
    names: set[str] = set()
    for index, volume in enumerate(volumes):
        here, name = f"{path}[{index}]", volume.get("name") or ""
        if not name:
            yield required(f"{here}.name")
        elif problems := dns_label_problems(name):
            yield from invalid_each(f"{here}.name", name, problems)
        elif name in names:
            yield duplicate(f"{here}.name", name)
        names.add(name)
        yield from _validate_source(volume, here)


def _validate_source(volume: Object, path: str) -> Iterator[Cause]:
    present = [source for source in SOURCES if volume.get(source) is not None]
    if not present:
        yield required(path, "must specify a volume type")
        return
    for source in present[1:]:
        yield forbidden(f"{path}.{source}", _ONE_SOURCE)
    check = _CHECKS.get(present[0])
    if check:
        yield from check(volume[present[0]], f"{path}.{present[0]}")


def _empty_dir(source: Object, path: str) -> Iterator[Cause]:
    if source.get("sizeLimit") is not None and parse_quantity(source["sizeLimit"]) < 0:
        yield forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _host_path(source: Object, path: str) -> Iterator[Cause]:
    host_path = source.get("path") or ""
    if not host_path:
        yield required(f"{path}.path")
    elif ".." in host_path.split("/"):
        yield invalid(f"{path}.path", host_path, "must not contain '..'")
    if source.get("type") not in (*_HOST_PATH_TYPES, None):
        yield not_supported(f"{path}.type", source["type"], _HOST_PATH_TYPES)


def _secret(source: Object, path: str) -> Iterator[Cause]:
    if not source.get("secretName"):
        yield required(f"{path}.secretName")
    yield from _keyed(source, path)


def _config_map(source: Object, path: str) -> Iterator[Cause]:
    if not source.get("name"):
        yield required(f"{path}.name")
    yield from _keyed(source, path)


def _keyed(source: Object, path: str) -> Iterator[Cause]:
    """Modes and items of a source made of keys."""
    yield from _mode(source.get("defaultMode"), f"{path}.defaultMode")
    for index, item in enumerate(source.get("items") or ()):
        here = f"{path}.items[{index}]"
        if not item.get("key"):
            yield required(f"{here}.key")
        yield from _file_path(item.get("path") or "", f"{here}.path")
        yield from _mode(item.get("mode"), f"{here}.mode")


def _mode(mode: int | None, path: str) -> Iterator[Cause]:
    if mode is not None and not 0 <= mode <= 0o777:
        yield invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive")


def _file_path(text: str, path: str) -> Iterator[Cause]:
    if not text:
        yield required(path)
        return
    yield from descending_path(text, path)
    if text.startswith("..") and not text.startswith("../"):
        yield invalid(path, text, "must not start with '..'")


def descending_path(text: str, path: str) -> Iterator[Cause]:
    """A path within a volume: relative, never upwards."""
    if text.startswith("/"):
        yield invalid(path, text, "must be a relative path")
    if ".." in text.split("/"):
        yield invalid(path, text, "must not contain '..'")


def _claim(source: Object, path: str) -> Iterator[Cause]:
    if not source.get("claimName"):
        yield required(f"{path}.claimName")


def _downward(source: Object, path: str) -> Iterator[Cause]:
    """Problems of a file stand at the volume, without the file's index, as Kubernetes reports them."""
    yield from _mode(source.get("defaultMode"), f"{path}.defaultMode")
    for item in source.get("items") or ():
        yield from _file_path(item.get("path") or "", f"{path}.path")
        field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
        if field is not None:
            yield from validate_field_ref(field, f"{path}.fieldRef", VOLUME_FIELDS)
            if resource is not None:
                yield invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
        elif resource is not None:
            yield from validate_resource_ref(resource, f"{path}.resourceFieldRef", of_volume=True)
        else:
            yield required(path, "one of fieldRef and resourceFieldRef is required")
        yield from _mode(item.get("mode"), f"{path}.mode")


def _projected(source: Object, path: str) -> Iterator[Cause]:
    yield from _mode(source.get("defaultMode"), f"{path}.defaultMode")
    seen: set[str] = set()
    for index, projection in enumerate(source.get("sources") or ()):
        here = f"{path}.sources[{index}]"
        present = [kind for kind in _PROJECTIONS if projection.get(kind) is not None]
        for kind in present:
            yield from _PROJECTIONS[kind](projection[kind], f"{here}.{kind}")
            for name in _projected_paths(projection[kind]):
                if name in seen:
                    yield invalid(path, name, "conflicting duplicate paths")
                seen.add(name)
        if len(present) > 1:
            yield forbidden(here, _ONE_PROJECTION)


def _projected_paths(source: Object) -> list[str]:
    """The files that a source says it makes; a token's is not compared."""
    if "expirationSeconds" in source:
        return []
    named = [source, *(source.get("items") or ())]
    return [one["path"] for one in named if one.get("path")]


def _service_account_token(source: Object, path: str) -> Iterator[Cause]:
    duration = source.get("expirationSeconds", 3600)
    if duration < _SHORTEST_TOKEN_S:
        yield invalid(f"{path}.expirationSeconds", duration, "may not specify a duration less than 10 minutes")
    if duration > _LONGEST_TOKEN_S:
        yield invalid(f"{path}.expirationSeconds", duration, "may not specify a duration larger than 2^32 seconds")
    volume = path.rsplit(".sources[", 1)[0]
    yield from _file_path(source.get("path") or "", f"{volume}.path")


def _trust_bundle(source: Object, path: str) -> Iterator[Cause]:
    yield from _file_path(source.get("path") or "", f"{path}.path")


def _nfs(source: Object, path: str) -> Iterator[Cause]:
    if not source.get("server"):
        yield required(f"{path}.server")
    if not source.get("path"):
        yield required(f"{path}.path")
    if not (source.get("path") or "").startswith("/"):
        yield invalid(f"{path}.path", source.get("path") or "", "must be an absolute path")


def _csi(source: Object, path: str) -> Iterator[Cause]:
    if not source.get("driver"):
        yield required(f"{path}.driver")


def _ephemeral(source: Object, path: str) -> Iterator[Cause]:
    template = source.get("volumeClaimTemplate")
    if template is None:
        yield required(f"{path}.volumeClaimTemplate")
    else:
        yield from validate_claim_spec(template.get("spec") or {}, f"{path}.volumeClaimTemplate.spec")


def _image(source: Object, path: str) -> Iterator[Cause]:
    if not source.get("reference"):
        yield required(f"{path}.reference")


def _named_projection(source: Object, path: str) -> Iterator[Cause]:
    if not source.get("name"):
        yield required(f"{path}.name")
    yield from _keyed(source, path)


_PROJECTIONS: dict[str, Callable[[Object, str], Iterator[Cause]]] = {
    "secret": _named_projection,
    "configMap": _named_projection,
    "downwardAPI": _downward,
    "serviceAccountToken": _service_account_token,
    "clusterTrustBundle": _trust_bundle,
}
_CHECKS: dict[str, Callable[[Object, str], Iterator[Cause]]] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "secret": _secret,
    "configMap": _config_map,
    "persistentVolumeClaim": _claim,
    "downwardAPI": _downward,
    "projected": _projected,
    "nfs": _nfs,
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": _image,
}
