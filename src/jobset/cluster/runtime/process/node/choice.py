"""Which network pods get, and why, in one sentence. Pure, but for looking for a way out."""

from __future__ import annotations

import os
from typing import NamedTuple

from jobset.cluster.runtime.process.node.addresses import has_default_route
from jobset.cluster.runtime.process.node.isolation import Isolation

_TOOL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TUN = "/dev/net/tun"


class WayOut(NamedTuple):
    """How pods reach other networks: a tool, or nothing because there is none to reach, or nothing."""

    tool: str = ""
    needed: bool = True


class Choice(NamedTuple):
    kind: str
    sentence: str
    problem: str = ""
    """Why the network that was asked for cannot be had."""


def find_way_out() -> WayOut:
    try:
        with open("/proc/net/route") as file:
            needed = has_default_route(file)
    except OSError:
        needed = True
    usable = os.access(_TUN, os.R_OK | os.W_OK)
    return WayOut(find_tool("slirp4netns") if usable else "", needed)


def find_tool(name: str) -> str:
    for directory in f"{os.environ.get('PATH', '')}:{_TOOL_PATH}".split(":"):
        path = os.path.join(directory, name)
        if directory and os.access(path, os.X_OK):
            return path
    return ""


def choose(requested: str, isolation: Isolation, way_out: WayOut) -> Choice:
    """`requested` is auto, pod or host."""
    if requested == "host":
        return Choice("host", f"host network: as asked; {_host_names(isolation)}")
    if not isolation.network:
        reason = f"network namespaces do not work here ({isolation.problem or 'no permission'})"
        problem = f"pod network: {reason}; use host network, or allow user namespaces" if requested == "pod" else ""
        return Choice("host", f"host network: {reason}; {_host_names(isolation)}", problem)
    if requested == "auto" and way_out.needed and not way_out.tool:
        reason = "pods in a network of their own would have no way out (install slirp4netns, or ask for pod)"
        return Choice("host", f"host network: {reason}; {_host_names(isolation)}")
    out = "slirp4netns leads out" if way_out.tool else "no way out to other networks"
    return Choice("pod", f"pod network: every pod has its own network, address and DNS name; {out}")


def _host_names(isolation: Isolation) -> str:
    if isolation.mounts:
        return "each pod has its own 127.x.y.z address and finds the others in /etc/hosts"
    return (
        f"mount namespaces do not work here ({isolation.problem or 'no permission'}), so pods find names only in the "
        "file that JOBSET_HOSTS_FILE names, and volumes only at their own paths"
    )
