"""A pod's volumes as directories and files of this machine, and a container's mounts of them.

Below `<pod directory>/volumes/<name>`: emptyDir is a directory there (medium Memory too); configMap, secret,
downwardAPI and projected are files, written to the side and renamed into place whole. hostPath and claims lie where
they lie. All is made once, before the first container starts; later changes of a ConfigMap do not reach a running pod.
"""

from __future__ import annotations

import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from msgspec import Struct, field

from jobset.api.errors import NotFound
from jobset.api.meta import Object
from jobset.api.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from jobset.client.port import Reader
from jobset.cluster.kubelet.api_access import TokenKey, token_key
from jobset.cluster.kubelet.env import expand
from jobset.cluster.kubelet.resource_field import resource_field
from jobset.cluster.kubelet.sources import ConfigError, Reference, Sources, pod_field
from jobset.cluster.runtime.port import Mount

FAILED_MOUNT = "FailedMount"
TOKEN_MODE = 0o600
_KINDS_OF_PATH: Mapping[str, Callable[[int], bool]] = {
    "Directory": stat.S_ISDIR,
    "File": stat.S_ISREG,
    "Socket": stat.S_ISSOCK,
    "CharDevice": stat.S_ISCHR,
    "BlockDevice": stat.S_ISBLK,
}


class Volume(Struct, frozen=True):
    path: Path
    read_only: bool = False


class File(Struct, frozen=True):
    """One file of a volume that is made of files: where below the volume, what, and with which mode."""

    path: str
    content: bytes
    mode: int


class PodFacts(Struct, frozen=True):
    """What downward API files may tell."""

    pod: Object
    pod_ip: str
    host_ip: str
    allocatable: Object
    tokens: Mapping[TokenKey, bytes] = field(default_factory=dict)
    """The service account tokens that could be had; others stay out of the volume."""


def references(wanted: Iterable[Object]) -> Iterable[Reference]:
    """The ConfigMaps and Secrets that volumes name."""
    for volume in wanted:
        projected = (volume.get("projected") or {}).get("sources") or ()
        for source in (volume, *projected):
            if found := source.get("configMap"):
                yield "configmap", found["name"]
            elif found := source.get("secret"):
                yield "secret", found.get("secretName") or found.get("name", "")


async def prepare(
    facts: PodFacts, wanted: Iterable[Object], directory: Path, sources: Sources, reader: Reader
) -> dict[str, Volume]:
    """Make volumes of the pod. Raises ConfigError with reason FailedMount; may then be called again."""
    made: dict[str, Volume] = {}
    for volume in wanted:
        name = volume["name"]
        place = directory / "volumes" / name
        try:
            if claim := volume.get("persistentVolumeClaim"):
                path = await _claimed(reader, facts.pod["metadata"]["namespace"], claim["claimName"])
                made[name] = Volume(path, bool(claim.get("readOnly")))
            else:
                made[name] = _local(volume, place, facts, sources)
        except ConfigError as error:
            raise ConfigError(f'MountVolume.SetUp failed for volume "{name}": {error}', FAILED_MOUNT) from error
        except OSError as error:
            raise ConfigError(f'MountVolume.SetUp failed for volume "{name}": {error}', FAILED_MOUNT) from error
    return made


def _local(volume: Object, place: Path, facts: PodFacts, sources: Sources) -> Volume:
    if "emptyDir" in volume or "ephemeral" in volume:
        place.mkdir(parents=True, exist_ok=True)
        return Volume(place)
    if source := volume.get("hostPath"):
        return Volume(_host_path(Path(source["path"]), source.get("type") or ""))
    files = list(_files(volume, facts, sources))
    if not files and not any(kind in volume for kind in ("configMap", "secret", "downwardAPI", "projected")):
        kind = next((key for key in volume if key != "name"), "nothing")
        raise ConfigError(
            f"this machine has no volumes of kind {kind!r}: use emptyDir, hostPath, configMap, secret, downwardAPI, "
            "projected or persistentVolumeClaim"
        )
    _write(place, files)
    return Volume(place, read_only=True)


def _host_path(path: Path, kind: str) -> Path:
    if kind == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True)
    elif kind == "FileOrCreate" and not path.exists():
        path.touch()
    wanted = _KINDS_OF_PATH.get(kind.removesuffix("OrCreate"))
    if wanted is not None and not (path.exists() and wanted(path.stat().st_mode)):
        raise ConfigError(f"hostPath type check failed: {path} is not a {kind.removesuffix('OrCreate')}")
    return path


async def _claimed(reader: Reader, namespace: str, name: str) -> Path:
    try:
        claim = await reader.get(PERSISTENT_VOLUME_CLAIMS, namespace, name, dict)
        bound = (claim.get("spec") or {}).get("volumeName")
        if not bound:
            raise ConfigError(f'persistentvolumeclaim "{name}" is not bound to a volume yet')
        volume = await reader.get(PERSISTENT_VOLUMES, "", bound, dict)
    except NotFound as error:
        raise ConfigError(error.message) from error
    source = volume["spec"].get("hostPath") or volume["spec"].get("local")
    if source is None:
        raise ConfigError(f'persistentvolume "{bound}" is not a directory of this machine (hostPath)')
    path = Path(source["path"])
    path.mkdir(parents=True, exist_ok=True)
    return path


# -- volumes made of files ----------------------------------------------------------------------------------------


def _files(volume: Object, facts: PodFacts, sources: Sources) -> Iterator[File]:
    for key in ("configMap", "secret", "downwardAPI"):
        if source := volume.get(key):
            yield from _of_source(key, source, facts, sources, source.get("defaultMode"))
    projected = volume.get("projected") or {}
    for part in projected.get("sources") or ():
        for key in ("configMap", "secret", "downwardAPI"):
            if source := part.get(key):
                yield from _of_source(key, source, facts, sources, projected.get("defaultMode"))
        if (wanted := part.get("serviceAccountToken")) and (token := facts.tokens.get(token_key(wanted))) is not None:
            yield File(wanted["path"], token, TOKEN_MODE)


def _of_source(key: str, source: Object, facts: PodFacts, sources: Sources, mode: int | None) -> Iterator[File]:
    mode = 0o644 if mode is None else mode
    if key == "downwardAPI":
        yield from _downward(source, facts, mode)
        return
    name = source.get("secretName") or source.get("name", "")
    reference: Reference = ("configmap" if key == "configMap" else "secret", name)
    optional = bool(source.get("optional"))
    data = sources.data(reference, optional)
    items = source.get("items")
    if items is None:
        yield from (File(name, content, mode) for name, content in sorted((data or {}).items()))
        return
    for item in items:
        content = None if data is None else sources.value(reference, item["key"], optional)
        if content is not None:
            yield File(item["path"], content, mode if item.get("mode") is None else item["mode"])


def _downward(source: Object, facts: PodFacts, mode: int) -> Iterator[File]:
    for item in source.get("items") or ():
        if ref := item.get("fieldRef"):
            text = pod_field(facts.pod, ref["fieldPath"], facts.pod_ip, facts.host_ip)
        else:
            text = resource_field(facts.pod, {}, item["resourceFieldRef"], facts.allocatable)
        yield File(item["path"], text.encode(), mode if item.get("mode") is None else item["mode"])


def _write(place: Path, files: Iterable[File]) -> None:
    """All files or none: written beside the place, then renamed to it."""
    if place.exists():
        return
    aside = place.with_name(place.name + ".new")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    for file in files:
        path = aside / _inside(file.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)
        path.chmod(file.mode)
    aside.rename(place)


def _inside(path: str) -> PurePosixPath:
    relative = PurePosixPath(path)
    if relative.is_absolute() or ".." in relative.parts:
        raise ConfigError(f"path {path!r} must stay inside the volume")
    return relative


# -- mounts -------------------------------------------------------------------------------------------------------


def mounts(container: Object, volumes: Mapping[str, Volume], env: Mapping[str, str]) -> tuple[Mount, ...]:
    """The container's volumeMounts. Raises ConfigError."""
    return tuple(_mount(mount, volumes, env) for mount in container.get("volumeMounts") or ())


def _mount(mount: Object, volumes: Mapping[str, Volume], env: Mapping[str, str]) -> Mount:
    volume = volumes.get(mount["name"])
    if volume is None:
        raise ConfigError(f"volumeMounts names volume {mount['name']!r}, which the pod does not have")
    path = volume.path
    below = mount.get("subPath") or expand(mount.get("subPathExpr") or "", env)
    if below:
        path = path / _inside(below)
        if not path.exists():
            if volume.read_only:
                raise ConfigError(f"subPath {below!r} is not in volume {mount['name']!r}")
            path.mkdir(parents=True)
    return Mount(path, mount["mountPath"], bool(mount.get("readOnly")) or volume.read_only)
