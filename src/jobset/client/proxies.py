"""Which proxy the environment asks for: HTTPS_PROXY, HTTP_PROXY and NO_PROXY, read as Go programs read them. Pure.

The machine's own addresses are never reached through a proxy.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit


def proxy_of_environment(url: str, environ: Mapping[str, str]) -> str:
    """The proxy for `url`; empty for none."""
    parts = urlsplit(url)
    name = f"{parts.scheme}_proxy"
    proxy = environ.get(name.upper()) or environ.get(name, "")
    if not proxy:
        return ""
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    excluded = environ.get("NO_PROXY") or environ.get("no_proxy", "")
    if _is_own(host) or any(_matches(one.strip().lower(), host, port) for one in excluded.split(",")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_own(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _matches(excluded: str, host: str, port: int) -> bool:
    """Whether an entry of NO_PROXY holds: `*`, an address or a range of them, or a domain, each with a port or not."""
    if not excluded:
        return False
    if excluded == "*":
        return True
    try:
        return ip_address(host) in ip_network(excluded, strict=False)
    except ValueError:
        pass  # one of them is a name
    name, colon, wanted = excluded.rpartition(":")
    if colon and wanted.isdigit():
        return int(wanted) == port and _matches(name.strip("[]"), host, port)
    domain = excluded.removeprefix("*").removeprefix(".")
    return host.endswith(f".{domain}") or (host == domain and not excluded.startswith((".", "*.")))
