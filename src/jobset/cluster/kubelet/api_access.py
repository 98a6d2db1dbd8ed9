"""How a pod's processes reach the API server: environment, token and authority, as programs in any cluster expect them.

A real cluster writes the volume of these files into each pod's spec when the pod is created. Here the kubelet adds it
on its own, so that a pod stays as its user wrote it; a spec that has the volume already is served from the same parts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from msgspec import Struct

from jobset.api.errors import ApiError
from jobset.api.meta import Object
from jobset.api.resources import SERVICE_ACCOUNTS
from jobset.client.port import Client
from jobset.cluster.kubelet.sources import ConfigError

MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
AUTHORITY_CONFIG_MAP = "kube-root-ca.crt"
VOLUME = "kube-api-access"
LIFETIME_S = 365 * 24 * 3600
"""Of the tokens that pods get unasked. They are bound to the pod, and end with it."""
_DEFAULT_ACCOUNT = "default"


class ApiAccess(Struct, frozen=True):
    """Where pods find the API server, and the PEM text of the authority that vouches for it.

    `files` False: pods cannot have files of their own at MOUNT_PATH, since this machine does not let us mount.
    """

    host: str
    port: int
    authority: str
    files: bool = True

    def env(self) -> dict[str, str]:
        return {"KUBERNETES_SERVICE_HOST": self.host, "KUBERNETES_SERVICE_PORT": str(self.port)}

    def authority_config_map(self) -> Object:
        """What pods' specs of a real cluster read the authority from."""
        return {"metadata": {"name": AUTHORITY_CONFIG_MAP}, "data": {"ca.crt": self.authority}}


AccessSource: TypeAlias = Callable[[], Awaitable[ApiAccess | None]]
"""Answers once it is known; None where pods have no API server to reach."""


async def no_access() -> ApiAccess | None:
    return None


def account_name(pod: Object) -> str:
    return pod["spec"].get("serviceAccountName") or _DEFAULT_ACCOUNT


def access_volume(duration_s: int = LIFETIME_S) -> Object:
    """The volume with token, authority and namespace."""
    return {
        "name": VOLUME,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": duration_s}},
                {"configMap": {"name": AUTHORITY_CONFIG_MAP, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
            ]
        },
    }


def wants_access(pod: Object, account: Object) -> bool:
    """Whether the pod gets the volume unasked: what the pod says goes before what its ServiceAccount says."""
    said = pod["spec"].get("automountServiceAccountToken")
    return bool(account.get("automountServiceAccountToken", True) if said is None else said)


def access_mount(container: Object) -> Iterable[Object]:
    """The mount of the volume, unless the container has something there already."""
    if any(mount["mountPath"].rstrip("/") == MOUNT_PATH for mount in container.get("volumeMounts") or ()):
        return ()
    return ({"name": VOLUME, "mountPath": MOUNT_PATH, "readOnly": True},)


TokenKey: TypeAlias = tuple[str, int]
"""Audience and lifetime in seconds: what tells the tokens of one pod apart."""


def token_key(wanted: Object) -> TokenKey:
    """Of a serviceAccountToken source of a projected volume."""
    return wanted.get("audience") or "", wanted.get("expirationSeconds") or 3600


def asked_tokens(volumes: Iterable[Object]) -> list[TokenKey]:
    """The tokens that a pod's volumes are to hold, each once."""
    sources = (source for volume in volumes for source in (volume.get("projected") or {}).get("sources") or ())
    return sorted({token_key(wanted) for source in sources if (wanted := source.get("serviceAccountToken"))})


async def fetch_tokens(client: Client, pod: Object, keys: Iterable[TokenKey]) -> dict[TokenKey, bytes]:
    """The tokens, bound to the pod. Raises ConfigError."""
    return {key: await _request(client, pod, *key) for key in keys}


async def _request(client: Client, pod: Object, audience: str, duration_s: int) -> bytes:
    metadata, name = pod["metadata"], account_name(pod)
    bound = {"kind": "Pod", "apiVersion": "v1", "name": metadata["name"], "uid": metadata["uid"]}
    spec: Object = {"expirationSeconds": duration_s, "boundObjectRef": bound}
    if audience:
        spec["audiences"] = [audience]
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    try:
        answer = await client.create_subresource(SERVICE_ACCOUNTS, metadata["namespace"], name, "token", body)
    except ApiError as error:
        raise ConfigError(f"failed to fetch token: {error.message}") from error
    return str(answer["status"]["token"]).encode()
