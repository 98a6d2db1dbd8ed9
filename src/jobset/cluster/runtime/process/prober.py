"""Probes a pod over TCP or HTTP through a socket that lives in the pod's own network."""

from __future__ import annotations

import asyncio
import socket
import ssl

from jobset.cluster.runtime.port import ProbeTarget

_HEAD_LIMIT_BYTES = 16 * 1024


async def probe(sock: socket.socket, address: str, target: ProbeTarget) -> tuple[bool, str]:
    """(success, what was seen). `address` is the pod's. Closes the socket; the caller sets the time limit."""
    host = "127.0.0.1" if target.host == "localhost" else target.host or address
    loop = asyncio.get_running_loop()
    with sock:
        sock.setblocking(False)
        try:
            await loop.sock_connect(sock, (host, target.port))
        except OSError as error:
            return False, f"connect to {host}:{target.port}: {error.strerror or error}"
        if target.kind == "tcp":
            return True, f"connected to {host}:{target.port}"
        try:
            return await _get(sock, host, target)
        except (OSError, ssl.SSLError, asyncio.LimitOverrunError, asyncio.IncompleteReadError, ValueError) as error:
            return False, f"{target.scheme}://{host}:{target.port}{target.path}: {error}"


async def _get(sock: socket.socket, host: str, target: ProbeTarget) -> tuple[bool, str]:
    secure = target.scheme.lower() == "https"
    reader, writer = await asyncio.open_connection(
        sock=sock,
        limit=_HEAD_LIMIT_BYTES,
        ssl=_any_certificate() if secure else None,
        server_hostname=host if secure else None,
    )
    try:
        writer.write(_request(host, target))
        status = (await reader.readline()).decode("latin-1").split(maxsplit=2)
        if len(status) < 2 or not status[0].startswith("HTTP/"):
            return False, f"{host}:{target.port} does not speak HTTP"
        return 200 <= int(status[1]) < 400, f"HTTP probe: status {status[1]}"
    finally:
        writer.close()


def _request(host: str, target: ProbeTarget) -> bytes:
    headers = {
        "Host": f"{host}:{target.port}",
        "User-Agent": "kube-probe/1.36",
        "Accept": "*/*",
        "Connection": "close",
    }
    given = {name.lower() for name, _ in target.headers}
    kept = [(name, value) for name, value in headers.items() if name.lower() not in given]
    lines = [f"GET {target.path or '/'} HTTP/1.1", *(f"{name}: {value}" for name, value in [*kept, *target.headers])]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")


def _any_certificate() -> ssl.SSLContext:
    """A probe asks whether something answers, not who it is."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
