"""A container's environment: what it inherits from this machine, services, envFrom, env, GPUs. No I/O.

From the machine a container sees only what programs need to be found and to speak to the user (INHERITED): not the
whole environment of whoever started the cluster. The directory of the running Python comes first on PATH, so that
`python` in a pod is the one that runs this program, with its packages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from jobset.api.meta import Object
from jobset.cluster.kubelet.resource_field import resource_field
from jobset.cluster.kubelet.sources import ConfigError, Reference, Sources, pod_field

INHERITED = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TERM", "TZ", "TMPDIR",
    "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "CUDA_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
)  # fmt: skip
CUDA_VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
_VARIABLE = re.compile(r"\$(?:\$|\(([^)$]*)\))")


class Surroundings(Struct, frozen=True):
    """What a pod's containers may refer to besides ConfigMaps and Secrets."""

    pod: Object
    pod_ip: str
    host_ip: str
    hostname: str
    allocatable: Object
    services: Sequence[Object]
    """Services of the pod's namespace that have a cluster IP."""
    inherited: Mapping[str, str]
    devices: Sequence[str] | None
    """Ids of the GPUs handed to the pod; None where the node has none to hand out."""


def inherited_env(environ: Mapping[str, str], executable: str) -> dict[str, str]:
    """What containers inherit of `environ`, the environment of a program that runs as `executable`."""
    env = {name: environ[name] for name in INHERITED if name in environ}
    directory = str(Path(executable).parent)
    paths = [path for path in env.get("PATH", "/usr/local/bin:/usr/bin:/bin").split(":") if path != directory]
    return {**env, "PATH": ":".join([directory, *paths])}


def expand(text: str, variables: Mapping[str, str]) -> str:
    """`$(NAME)` becomes the variable's value if there is one; `$$` is a dollar sign that begins nothing."""
    if "$" not in text:
        return text

    def replaced(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else variables.get(name, match[0])

    return _VARIABLE.sub(replaced, text)


def references(container: Object) -> Iterable[Reference]:
    """The ConfigMaps and Secrets that a container's environment names."""
    for source in container.get("envFrom") or ():
        if ref := source.get("configMapRef"):
            yield "configmap", ref["name"]
        elif ref := source.get("secretRef"):
            yield "secret", ref["name"]
    for variable in container.get("env") or ():
        value_from = variable.get("valueFrom") or {}
        if ref := value_from.get("configMapKeyRef"):
            yield "configmap", ref["name"]
        elif ref := value_from.get("secretKeyRef"):
            yield "secret", ref["name"]


def build_env(container: Object, sources: Sources, around: Surroundings) -> dict[str, str]:
    """The whole environment. Later wins: machine, services, envFrom, env. Raises ConfigError."""
    env = dict(around.inherited)
    env["HOSTNAME"] = around.hostname
    if around.devices is not None:
        # As on a cluster with a device plugin: who asks for no GPU sees none.
        env[CUDA_VISIBLE_DEVICES] = ",".join(around.devices)
    if around.pod["spec"].get("enableServiceLinks", True):
        for service in around.services:
            env.update(service_env(service))
    for source in container.get("envFrom") or ():
        env.update(_from_all(source, sources))
    for variable in container.get("env") or ():
        value = _value(variable, container, env, sources, around)
        if value is not None:
            env[variable["name"]] = value
    return env


def _from_all(source: Object, sources: Sources) -> dict[str, str]:
    ref = source.get("configMapRef") or source.get("secretRef") or {}
    kind: Reference = ("configmap" if source.get("configMapRef") else "secret", ref.get("name", ""))
    data = sources.data(kind, bool(ref.get("optional")))
    prefix = source.get("prefix") or ""
    return {prefix + key: _text(value) for key, value in (data or {}).items() if "=" not in prefix + key}


def _text(value: bytes) -> str:
    return value.decode(errors="surrogateescape")


def _value(
    variable: Object, container: Object, env: Mapping[str, str], sources: Sources, around: Surroundings
) -> str | None:
    """None when the variable is optional and there is nothing to set it to."""
    value_from = variable.get("valueFrom")
    if not value_from:
        return expand(variable.get("value") or "", env)
    if ref := value_from.get("fieldRef"):
        return pod_field(around.pod, ref["fieldPath"], around.pod_ip, around.host_ip)
    if ref := value_from.get("resourceFieldRef"):
        return resource_field(around.pod, container, ref, around.allocatable)
    if ref := value_from.get("configMapKeyRef"):
        return _key(("configmap", ref["name"]), ref, sources)
    if ref := value_from.get("secretKeyRef"):
        return _key(("secret", ref["name"]), ref, sources)
    raise ConfigError(f"env {variable['name']!r}: valueFrom {sorted(value_from)} is not supported on this machine")


def _key(reference: Reference, ref: Object, sources: Sources) -> str | None:
    value = sources.value(reference, ref["key"], bool(ref.get("optional")))
    return None if value is None else _text(value)


def service_env(service: Object) -> dict[str, str]:
    """The variables that tell of one service with a cluster IP: NAME_SERVICE_HOST, NAME_SERVICE_PORT, NAME_PORT, ..."""
    spec = service["spec"]
    address, ports = spec["clusterIP"], spec.get("ports") or []
    name = service["metadata"]["name"].upper().replace("-", "_")
    if not ports:
        return {}
    env = {f"{name}_SERVICE_HOST": address, f"{name}_SERVICE_PORT": str(ports[0]["port"])}
    for port in ports:
        if port.get("name"):
            env[f"{name}_SERVICE_PORT_{port['name'].upper().replace('-', '_')}"] = str(port["port"])
    for number, port in enumerate(ports):
        protocol = port.get("protocol", "TCP")
        url = f"{protocol.lower()}://{address}:{port['port']}"
        prefix = f"{name}_PORT_{port['port']}_{protocol}"
        if number == 0:
            env[f"{name}_PORT"] = url
        env |= {
            prefix: url,
            f"{prefix}_PROTO": protocol.lower(),
            f"{prefix}_PORT": str(port["port"]),
            f"{prefix}_ADDR": address,
        }
    return env
