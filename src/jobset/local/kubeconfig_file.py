"""kubeconfig files: the one of a kept cluster, and its context in the user's own, where everything else stays.

The user's file is replaced whole by a rename, under the lock that kubectl takes too, and never widens its mode.
Comments in it are not kept (kubectl does not keep them either).
"""

from __future__ import annotations

import contextlib
import os
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from jobset.api.meta import Object
from jobset.client.yaml_reader import NotReadable, plain_scalar, read_value
from jobset.local.credentials import Credentials, write_private

_SECTIONS = ("clusters", "users", "contexts")


class BadKubeconfig(Exception):
    """The user's kubeconfig cannot be merged into. The message tells why."""


def context_name(cluster: str) -> str:
    return f"jobset-{cluster}"


def kubeconfig(cluster: str, url: str, credentials: Credentials) -> Object:
    """A whole kubeconfig with one context; certificates and keys are inside."""
    name = context_name(cluster)
    user = {
        "client-certificate-data": _data(credentials.admin.certificate),
        "client-key-data": _data(credentials.admin.key),
    }
    server = {"server": url, "certificate-authority-data": _data(credentials.authority.certificate)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": server}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


def merged(existing: Object, added: Object, *, set_current: bool) -> Object:
    """`existing` with the entries of `added`, replacing those of the same names. Pure."""
    result = {"apiVersion": "v1", "kind": "Config", **existing}
    for section in _SECTIONS:
        names = {entry["name"] for entry in added[section]}
        kept = [entry for entry in existing.get(section) or () if entry.get("name") not in names]
        result[section] = [*kept, *added[section]]
    if set_current or not existing.get("current-context"):
        result["current-context"] = added["current-context"]
    return result


def without(existing: Object, cluster: str) -> Object:
    """`existing` without what `merged` put there. Pure."""
    name = context_name(cluster)
    result = dict(existing)
    for section in _SECTIONS:
        if section in result:
            result[section] = [entry for entry in result[section] or () if entry.get("name") != name]
    if result.get("current-context") == name:
        result["current-context"] = ""
    return result


def as_yaml(config: Object) -> str:
    return yaml.dump(config, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def user_file(environ: Mapping[str, str]) -> Path:
    """The file that kubectl would write to: the first of KUBECONFIG, else ~/.kube/config."""
    named = [path for path in environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    return Path(named[0]) if named else Path.home() / ".kube" / "config"


def merge_into(path: Path, added: Object, *, set_current: bool) -> None:
    """Raises BadKubeconfig; the file is then as it was."""
    _rewrite(path, lambda existing: merged(existing, added, set_current=set_current))


def remove_from(path: Path, cluster: str) -> None:
    """Undo `merge_into`. Raises BadKubeconfig."""
    _rewrite(path, lambda existing: without(existing, cluster))


def _rewrite(path: Path, change: Callable[[Object], Object]) -> None:
    path = path.resolve()  # a link stays a link
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _locked(path):
            write_private(path, as_yaml(change(_read(path))))
    except OSError as error:
        raise BadKubeconfig(f"{path}: {error.strerror}") from error


def parse(text: str) -> Object:
    """Raises BadKubeconfig."""
    try:
        found: Any = read_value(text) or {}
    except NotReadable as error:
        raise BadKubeconfig(f"cannot be read as YAML: {error}") from error
    if not isinstance(found, dict) or any(not isinstance(found.get(each) or [], list) for each in _SECTIONS):
        raise BadKubeconfig("is not a kubeconfig")
    return found


def _read(path: Path) -> Object:
    if not path.exists():
        return {}
    try:
        return parse(path.read_text())
    except (BadKubeconfig, UnicodeDecodeError) as error:
        raise BadKubeconfig(f"{path} {error}") from error


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """kubectl's way: a file beside it that must not exist yet."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError as error:
        raise BadKubeconfig(f"{path} is being written by another program; if none runs, delete {lock}") from error
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


def _data(pem: str) -> str:
    return b64encode(pem.encode()).decode("ascii")


class _Dumper(yaml.SafeDumper):
    """Quotes text that kubectl would read as something else, such as 1e3."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if _stays_text(text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _stays_text(text: str) -> bool:
    try:
        return isinstance(plain_scalar(text), str)
    except ValueError:
        return False


_Dumper.add_representer(str, _represent_text)
