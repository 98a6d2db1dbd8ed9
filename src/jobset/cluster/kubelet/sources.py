"""What a container's configuration is read from: ConfigMaps, Secrets, the pod itself. Fetched first, then used purely.

`ConfigError` is how every part of the kubelet says that a pod's own configuration stands in the way.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from jobset.api.errors import NotFound
from jobset.api.meta import Object
from jobset.api.resources import CONFIG_MAPS, SECRETS
from jobset.client.port import Reader

SourceKind: TypeAlias = Literal["configmap", "secret"]
Reference: TypeAlias = tuple[SourceKind, str]
_RESOURCES = {"configmap": CONFIG_MAPS, "secret": SECRETS}
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")


class ConfigError(Exception):
    """The pod's configuration cannot be met now. `reason` is what a waiting container shows."""

    def __init__(self, message: str, reason: str = "CreateContainerConfigError") -> None:
        super().__init__(message)
        self.reason = reason


class Sources(Struct, frozen=True):
    """The ConfigMaps and Secrets that were found; what is absent was not there."""

    objects: Mapping[Reference, Object]

    def completed(self, reference: Reference, otherwise: Object) -> Sources:
        """These, and `otherwise` for a reference that was not found."""
        return self if reference in self.objects else Sources({**self.objects, reference: otherwise})

    def data(self, reference: Reference, optional: bool) -> Mapping[str, bytes] | None:
        """All keys of one object; None when it is absent and may be. Raises ConfigError."""
        kind, name = reference
        found = self.objects.get(reference)
        if found is None:
            if optional:
                return None
            raise ConfigError(f'{kind} "{name}" not found: create it in the namespace of the pod')
        if kind == "secret":
            return {key: base64.b64decode(value) for key, value in (found.get("data") or {}).items()}
        binary = {key: base64.b64decode(value) for key, value in (found.get("binaryData") or {}).items()}
        return {**{key: value.encode() for key, value in (found.get("data") or {}).items()}, **binary}

    def value(self, reference: Reference, key: str, optional: bool) -> bytes | None:
        """One key; None when it is absent and may be. Raises ConfigError."""
        data = self.data(reference, optional)
        if data is None:
            return None
        if key not in data and not optional:
            raise ConfigError(f'{reference[0]} "{reference[1]}" has no key {key!r}; it has {sorted(data)}')
        return data.get(key)


async def fetch(reader: Reader, namespace: str, references: Iterable[Reference]) -> Sources:
    found: dict[Reference, Object] = {}
    for kind, name in sorted(set(references)):
        try:
            found[kind, name] = await reader.get(_RESOURCES[kind], namespace, name, dict)
        except NotFound:
            continue
    return Sources(found)


def pod_field(pod: Object, path: str, pod_ip: str, host_ip: str) -> str:
    """The value of a fieldRef. Raises ConfigError for a path that names nothing a pod may know."""
    metadata, spec = pod["metadata"], pod["spec"]
    if match := _SUBSCRIPT.fullmatch(path):
        return str((metadata.get(match[1]) or {}).get(match[2], ""))
    simple = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata.get("namespace", ""),
        "metadata.uid": metadata.get("uid", ""),
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        "status.podIP": pod_ip,
        "status.podIPs": pod_ip,
        "status.hostIP": host_ip,
        "status.hostIPs": host_ip,
    }
    if path in simple:
        return str(simple[path])
    if path in ("metadata.labels", "metadata.annotations"):
        pairs = metadata.get(path.removeprefix("metadata.")) or {}
        return "\n".join(f"{key}={_quoted(value)}" for key, value in sorted(pairs.items()))
    raise ConfigError(
        f"fieldPath {path!r} is not supported; it may be one of {sorted(simple)} or metadata.labels['KEY']"
    )


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
