"""Carries out probes and lifecycle hooks: exec, httpGet, tcpSocket, sleep. Answers are judged elsewhere."""

from __future__ import annotations

import asyncio

from jobset.api.meta import Object
from jobset.cluster.runtime.port import ContainerId, ProbeTarget, Runtime

OUTPUT_LIMIT = 1024
OUT_OF_TIME = 124


class NoSuchPort(Exception):
    """A handler names a port that its container does not declare."""


def refusal(container: Object) -> str:
    """Why a container's handlers cannot be carried out here; empty when they can."""
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        if "grpc" in (container.get(kind) or {}):
            return (
                f"container {container['name']!r}: {kind}.grpc is not supported on this machine; "
                "use exec, httpGet or tcpSocket"
            )
    return ""


async def carry_out(
    runtime: Runtime, container_id: ContainerId, container: Object, handler: Object, timeout_s: float
) -> tuple[bool, str]:
    """(success, what was seen) of one probe or hook."""
    if "sleep" in handler:
        await asyncio.sleep(handler["sleep"].get("seconds") or 0)
        return True, ""
    if command := (handler.get("exec") or {}).get("command"):
        result = await runtime.exec(container_id, command, timeout_s)
        if result.exit_code == OUT_OF_TIME:
            return False, f"command timed out after {timeout_s:g}s"
        return result.exit_code == 0, result.output[-OUTPUT_LIMIT:].strip() or f"exit code {result.exit_code}"
    try:
        target = probe_target(container, handler)
    except NoSuchPort as error:
        return False, str(error)
    return await runtime.probe(container_id[0], target, timeout_s)


def probe_target(container: Object, handler: Object) -> ProbeTarget:
    """The address that an httpGet or tcpSocket handler names. Raises NoSuchPort."""
    if http := handler.get("httpGet"):
        return ProbeTarget(
            kind="http",
            port=_port(container, http["port"]),
            host=http.get("host") or "",
            scheme=(http.get("scheme") or "HTTP").lower(),
            path=http.get("path") or "/",
            headers=tuple((header["name"], header.get("value", "")) for header in http.get("httpHeaders") or ()),
        )
    tcp = handler["tcpSocket"]
    return ProbeTarget(kind="tcp", port=_port(container, tcp["port"]), host=tcp.get("host") or "")


def _port(container: Object, port: int | str) -> int:
    if isinstance(port, int) or port.isdigit():
        return int(port)
    for declared in container.get("ports") or ():
        if declared.get("name") == port:
            return int(declared["containerPort"])
    raise NoSuchPort(f"container {container['name']!r} declares no port named {port!r}")
