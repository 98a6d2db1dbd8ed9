"""kubeconfig files to a Target: which server, how to trust it, and as whom to speak to it.

Reads the files that `$KUBECONFIG` names as kubectl does: the first file that names a cluster, user, context or current
context decides it. Without any file, a program inside a pod uses the account of its pod. Files of certificates and
tokens are only named here (tls.py and credentials.py read them); nothing is sent and no plugin runs.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args
from urllib.parse import urlsplit

from msgspec import Struct, field

from jobset.api.meta import Object
from jobset.client.proxies import proxy_of_environment
from jobset.client.yaml_reader import NotReadable, read_value

IN_CLUSTER_FILES = Path("/var/run/secrets/kubernetes.io/serviceaccount")
Interactive: TypeAlias = Literal["Never", "IfAvailable", "Always"]
PLUGIN_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


class BadKubeconfig(Exception):
    """The configuration does not say how to reach a cluster. The message names file, entry and field."""


class Pem(Struct, frozen=True):
    """A certificate or key: its text, or the file that holds it (and may be replaced while we run)."""

    data: bytes = b""
    file: Path | None = None

    def __bool__(self) -> bool:
        return bool(self.data or self.file)


class Plugin(Struct, frozen=True):
    """A program that hands out credentials (KEP-541). `cluster` is what it is told about the server, if it asks."""

    api_version: str
    command: str
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    install_hint: str = ""
    interactive: Interactive = "IfAvailable"
    cluster: Object | None = None


class Login(Struct, frozen=True):
    """All ways to say who we are; what is empty is not used. `impersonation` are the headers to act as another."""

    certificate: Pem = Pem()
    key: Pem = Pem()
    token: str = ""
    token_file: Path | None = None
    username: str = ""
    password: str = ""
    plugin: Plugin | None = None
    impersonation: tuple[tuple[str, str], ...] = ()


class Target(Struct, frozen=True):
    """A cluster to talk to. `where` is how errors call this choice, such as `context dev`."""

    server: str
    where: str
    namespace: str = "default"
    authority: Pem = Pem()
    """Empty: the authorities that the system trusts."""
    insecure: bool = False
    server_name: str = ""
    """What the server's certificate must be for, when it is not the host of `server`."""
    proxy: str = ""
    compression: bool = True
    login: Login = field(default=Login())


def load_target(environ: Mapping[str, str], *, kubeconfig: str = "", context: str = "") -> Target:
    """The target that the options and the environment choose. BadKubeconfig."""
    config = _merged(environ, kubeconfig)
    if not config.contexts and not kubeconfig and not context and "KUBERNETES_SERVICE_HOST" in environ:
        return in_cluster(environ)
    return config.target(context, environ)


def context_names(environ: Mapping[str, str], *, kubeconfig: str = "") -> list[str]:
    return sorted(_merged(environ, kubeconfig).contexts)


def in_cluster(environ: Mapping[str, str], files: Path = IN_CLUSTER_FILES) -> Target:
    """The API server as the account of the pod that this program runs in. BadKubeconfig."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (files / "token").exists():
        raise BadKubeconfig(f"this is no pod with a service account: {files}/token or KUBERNETES_SERVICE_HOST missing")
    namespace = files / "namespace"
    return Target(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        where="the service account of this pod",
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        authority=Pem(file=files / "ca.crt"),
        login=Login(token_file=files / "token"),
    )


class _Entry(Struct, frozen=True):
    """The fields of one cluster, user or context, or a part of them, and where they stand."""

    values: Object
    where: str
    directory: Path

    def text(self, name: str) -> str:
        value = self.values.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.wrong(name, "must be text: put it in quotes")
        return value

    def flag(self, name: str) -> bool:
        value = self.values.get(name)
        if value not in (None, True, False):
            raise self.wrong(name, "must be true or false")
        return bool(value)

    def items(self, name: str) -> list[Any]:
        value = self.values.get(name)
        if value is not None and not isinstance(value, list):
            raise self.wrong(name, "must be a list")
        return value or []

    def file(self, name: str) -> Path | None:
        """Relative to the kubeconfig that names it."""
        text = self.text(name)
        return self.directory / text if text else None

    def pem(self, name: str) -> Pem:
        """The data if there is some, else the file."""
        encoded = self.text(f"{name}-data")
        if not encoded:
            return Pem(file=self.file(name))
        try:
            return Pem(base64.b64decode(encoded))
        except (binascii.Error, ValueError) as error:
            raise self.wrong(f"{name}-data", f"is not base64 ({error})") from error

    def part(self, name: str) -> _Entry:
        value = self.values.get(name)
        if not isinstance(value, dict):
            raise self.wrong(name, "must be a mapping")
        return _Entry(value, f"{self.where}: {name}", self.directory)

    def wrong(self, name: str, what: str) -> BadKubeconfig:
        return BadKubeconfig(f"{self.where}: {name} {what}")


class _Config(Struct):
    """Several files as one. `sources` are those that were looked for."""

    sources: list[str] = field(default_factory=list)
    current: str = ""
    clusters: dict[str, _Entry] = field(default_factory=dict)
    users: dict[str, _Entry] = field(default_factory=dict)
    contexts: dict[str, _Entry] = field(default_factory=dict)

    def add(self, path: Path, content: Object) -> None:
        """Take what no earlier file has decided."""
        whole = _Entry(content, str(path), path.parent)
        self.current = self.current or whole.text("current-context")
        for section, kind in ((self.clusters, "cluster"), (self.users, "user"), (self.contexts, "context")):
            for entry in whole.items(f"{kind}s"):
                if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                    raise whole.wrong(f"{kind}s", "must be a list of entries with a name")
                values = entry.get(kind) or {}
                if not isinstance(values, dict):
                    raise whole.wrong(f"{kind}s", f"has no mapping {kind} at {entry['name']}")
                section.setdefault(entry["name"], _Entry(values, f"{path}: {kind} {entry['name']}", path.parent))

    def target(self, context: str, environ: Mapping[str, str]) -> Target:
        name = context or self.current
        if not name:
            searched = " and ".join(self.sources)
            raise BadKubeconfig(f"no cluster is chosen: {searched} has no current-context, and no context was named")
        chosen = self.contexts.get(name)
        if chosen is None:
            known = f"there are {', '.join(sorted(self.contexts))}" if self.contexts else "there are no contexts"
            raise BadKubeconfig(f"context {name} is not in {' and '.join(self.sources)}: {known}")
        cluster = _referenced(chosen, "cluster", self.clusters)
        user = _referenced(chosen, "user", self.users) if chosen.text("user") else _Entry({}, "", Path())
        return _target(name, chosen.text("namespace") or "default", cluster, user, environ)


def _referenced(context: _Entry, kind: str, section: Mapping[str, _Entry]) -> _Entry:
    name = context.text(kind)
    if not name:
        raise BadKubeconfig(f"{context.where}: {kind} is missing")
    if name not in section:
        raise context.wrong(kind, f"names {name}, which is in none of the files")
    return section[name]


def _merged(environ: Mapping[str, str], kubeconfig: str) -> _Config:
    config = _Config()
    if kubeconfig:
        paths = [Path(kubeconfig)]
    else:
        named = [part for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
        paths = [Path(part) for part in named] or [Path(environ.get("HOME", "")) / ".kube" / "config"]
    for path in dict.fromkeys(paths):
        config.sources.append(str(path))
        try:
            content = read_value(path.read_text())
        except FileNotFoundError as error:
            if kubeconfig:
                raise BadKubeconfig(f"{path} does not exist") from error
            continue
        except OSError as error:
            raise BadKubeconfig(f"{path} cannot be read: {error.strerror}") from error
        except (NotReadable, UnicodeDecodeError) as error:
            raise BadKubeconfig(f"{path} is not readable as YAML: {error}") from error
        if not isinstance(content, dict | None):
            raise BadKubeconfig(f"{path} is not a kubeconfig: it must be a mapping")
        config.add(path, content or {})
    return config


def _target(context: str, namespace: str, cluster: _Entry, user: _Entry, environ: Mapping[str, str]) -> Target:
    authority, insecure = cluster.pem("certificate-authority"), cluster.flag("insecure-skip-tls-verify")
    if authority and insecure:
        raise cluster.wrong("insecure-skip-tls-verify", "cannot stand beside a certificate authority: remove one")
    login = _login(user, cluster)
    server = _server(cluster, secure=bool(authority or insecure or login.certificate))
    proxy = cluster.text("proxy-url") or proxy_of_environment(server, environ)
    if proxy and urlsplit(proxy).scheme not in ("http", "https"):
        raise cluster.wrong("proxy-url", f"is {proxy}: only http and https proxies are supported")
    return Target(
        server=server,
        where=f"context {context}",
        namespace=namespace,
        authority=authority,
        insecure=insecure,
        server_name=cluster.text("tls-server-name"),
        proxy=proxy,
        compression=not cluster.flag("disable-compression"),
        login=login,
    )


def _server(cluster: _Entry, *, secure: bool) -> str:
    text = cluster.text("server")
    if not text:
        raise cluster.wrong("server", "is missing")
    if "://" not in text:
        text = f"{'https' if secure else 'http'}://{text}"
    parts = urlsplit(text)
    try:
        sound = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        sound = False
    if not sound:
        raise cluster.wrong("server", f"is {text}: it must be like https://HOST:PORT")
    return text.rstrip("/")


def _login(user: _Entry, cluster: _Entry) -> Login:
    if "auth-provider" in user.values:
        raise user.wrong("auth-provider", "is no longer supported by Kubernetes: use an exec plugin")
    certificate, key = user.pem("client-certificate"), user.pem("client-key")
    if bool(certificate) != bool(key):
        raise user.wrong("client-certificate" if key else "client-key", "is missing")
    return Login(
        certificate=certificate,
        key=key,
        token=user.text("token"),
        token_file=user.file("tokenFile"),
        username=user.text("username"),
        password=user.text("password"),
        plugin=_plugin(user.part("exec"), cluster) if user.values.get("exec") else None,
        impersonation=tuple(_impersonation(user)),
    )


def _impersonation(user: _Entry) -> Sequence[tuple[str, str]]:
    headers = [
        (header, user.text(name)) for header, name in (("Impersonate-User", "as"), ("Impersonate-Uid", "as-uid"))
    ]
    headers += [("Impersonate-Group", str(group)) for group in user.items("as-groups")]
    if user.values.get("as-user-extra"):
        extra = user.part("as-user-extra")
        headers += [(f"Impersonate-Extra-{name}", str(value)) for name in extra.values for value in extra.items(name)]
    return [(header, value) for header, value in headers if value]


def _plugin(entry: _Entry, cluster: _Entry) -> Plugin:
    version = entry.text("apiVersion")
    if version not in PLUGIN_VERSIONS:
        raise entry.wrong("apiVersion", f"is {version or 'missing'}: it must be {' or '.join(PLUGIN_VERSIONS)}")
    command = entry.text("command")
    if not command:
        raise entry.wrong("command", "is missing")
    if os.sep in command:
        command = str(entry.directory / command)
    interactive = entry.text("interactiveMode") or ("" if version.endswith("/v1") else "IfAvailable")
    if interactive not in get_args(Interactive):
        raise entry.wrong("interactiveMode", "must be Never, IfAvailable or Always")
    environment = [(str(pair.get("name")), str(pair.get("value", ""))) for pair in entry.items("env")]
    return Plugin(
        api_version=version,
        command=command,
        arguments=tuple(str(argument) for argument in entry.items("args")),
        environment=tuple(environment),
        install_hint=entry.text("installHint"),
        interactive=cast("Interactive", interactive),
        cluster=_told(cluster) if entry.flag("provideClusterInfo") else None,
    )


def _told(cluster: _Entry) -> Object:
    """What a plugin is told about the server, under the names of its own API."""
    names = {
        "server": "server",
        "tls-server-name": "tls-server-name",
        "insecure-skip-tls-verify": "insecure-skip-tls-verify",
        "certificate-authority-data": "certificate-authority-data",
        "proxy-url": "proxy-url",
        "disable-compression": "disable-compression",
    }
    told = {name: cluster.values[key] for name, key in names.items() if cluster.values.get(key)}
    for extension in cluster.items("extensions"):
        if extension.get("name") == "client.authentication.k8s.io/exec":
            told["config"] = extension.get("extension")
    return told
