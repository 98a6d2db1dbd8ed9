"""What a pod's resolver reads: /etc/hosts, /etc/resolv.conf, /etc/nsswitch.conf.

In `pod` networks a pod's hosts file holds itself and its aliases; a name server answers the rest. In `host` networks
the hosts file is the only source of names: one file a namespace, shared by its pods (so that its cost is linear in
names), rewritten in place when names change, because a bind mount follows the file, not the path. A pod with host
aliases has a file of its own there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence

CLUSTER_DOMAIN = "cluster.local"
_LOCALHOST = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
_DEFAULT_SWITCH = "hosts: files dns\n"


def search_domains(namespace: str, more: Sequence[str] = ()) -> list[str]:
    zones = [f"{namespace}.svc.{CLUSTER_DOMAIN}", f"svc.{CLUSTER_DOMAIN}", CLUSTER_DOMAIN]
    return list(dict.fromkeys([*zones, *more]))


def resolv_conf(server: str, search: Iterable[str]) -> str:
    return f"nameserver {server}\nsearch {' '.join(search)}\noptions ndots:5\n"


def nsswitch_conf(host_text: str) -> str | None:
    """The host's, made to ask us: some hosts ask a daemon of their own, which knows no pod. None when it is fine."""
    line = re.search(r"^hosts:(.*)$", host_text, re.MULTILINE)
    if line is None:
        return host_text + _DEFAULT_SWITCH if host_text else None
    if set(line[1].split()) <= {"files", "dns", "myhostname", "compat"}:
        return None
    return host_text.replace(line[0], _DEFAULT_SWITCH.rstrip())


def host_lines(address: str, names: Iterable[str]) -> str:
    return f"{address}\t{' '.join(names)}\n"


def full_names(name: str, namespace: str) -> list[str]:
    """A short name (host.subdomain, or service) in all the ways a pod of the namespace may write it."""
    return [f"{name}.{namespace}.svc.{CLUSTER_DOMAIN}", name, f"{name}.{namespace}", f"{name}.{namespace}.svc"]


def own_hosts(address: str, fqdn: str, hostname: str, aliases: Iterable[tuple[str, Sequence[str]]]) -> str:
    """What Kubernetes writes into a pod's hosts file."""
    lines = [_LOCALHOST, host_lines(address, [fqdn, hostname] if fqdn else [hostname])]
    lines += [host_lines(alias, names) for alias, names in aliases]
    return "".join(lines)


def rewrite(path: str, text: str) -> None:
    """Replace a file's content in place, so that who has it mounted sees it; grow it first, cut it last."""
    data = text.encode()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        done = 0
        while done < len(data):
            done += os.pwrite(fd, data[done:], done)
        os.ftruncate(fd, len(data))
    finally:
        os.close(fd)


class NamespaceHosts:
    """The shared hosts file of one namespace, for `host` networks."""

    def __init__(self, directory: str, namespace: str) -> None:
        self.path = os.path.join(directory, f"hosts-{namespace}")
        self._namespace = namespace
        self._pods: dict[str, str] = {}  # pod UID -> its own line
        self._names = ""
        self._separate: dict[str, tuple[str, str]] = {}  # pod UID -> its own file and what stands first in it
        rewrite(self.path, _LOCALHOST)

    def add_pod(self, uid: str, address: str, fqdn: str, hostname: str, aliases: list[tuple[str, list[str]]]) -> str:
        """The path of the hosts file that the pod is to see."""
        short = fqdn.removesuffix(f".{self._namespace}.svc.{CLUSTER_DOMAIN}")
        line = host_lines(address, [*(full_names(short, self._namespace) if fqdn else []), hostname])
        self._pods[uid] = line
        if not aliases:
            with open(self.path, "a") as file:
                file.write(line)
            return self.path
        path = f"{self.path}-{uid}"
        self._separate[uid] = path, own_hosts(address, fqdn, hostname, aliases)
        rewrite(path, self._separate[uid][1] + self._names)
        return path

    def remove_pod(self, uid: str) -> None:
        self._pods.pop(uid, None)
        separate = self._separate.pop(uid, None)
        if separate:
            os.unlink(separate[0])

    def set_names(self, names: Mapping[str, Sequence[str]]) -> None:
        lines = [host_lines(a, full_names(name, self._namespace)) for name in sorted(names) for a in names[name]]
        self._names = "".join(lines)
        rewrite(self.path, _LOCALHOST + self._names + "".join(self._pods.values()))
        for path, first in self._separate.values():
            rewrite(path, first + self._names)
