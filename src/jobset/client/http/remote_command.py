"""A command in a container, over a WebSocket, as kubectl speaks it: one byte for the channel, then the data (KEP-4006).

Moves bytes and says how the command ended; terminals are the caller's business.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

import aiohttp
import msgspec
from yarl import URL

from jobset.api.errors import ApiError, Unavailable, from_status
from jobset.api.resources import PODS
from jobset.client.credentials import Credentials
from jobset.client.kubeconfig import Target
from jobset.client.requests import path_of
from jobset.client.tls import tls_context

STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
_CLOSE = 255
_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_HEARTBEAT_S = 30.0
_CONNECT_S = 10.0


class RemoteCommand:
    """A command that runs. Reading `output` to its end gives `exit_code`."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self.exit_code = 0

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """(STDOUT or STDERR, bytes) until the command has ended. Raises ApiError when it could not run."""
        async for message in self._socket:
            data = message.data.encode() if isinstance(message.data, str) else message.data
            if data[:1] == bytes([ERROR]):
                self.exit_code = _exit_code(msgspec.json.decode(data[1:]))
                return
            if len(data) > 1:
                yield data[0], data[1:]
        raise Unavailable("the connection was closed before the command had ended")

    async def send(self, data: bytes) -> None:
        await self._socket.send_bytes(bytes([STDIN]) + data)

    async def close_stdin(self) -> None:
        """Needs version 5 of the protocol; older servers let the command wait for more."""
        if self._socket.protocol == _PROTOCOLS[0]:
            await self._socket.send_bytes(bytes([_CLOSE, STDIN]))

    async def resize(self, columns: int, lines: int) -> None:
        await self._socket.send_bytes(bytes([RESIZE]) + json.dumps({"Width": columns, "Height": lines}).encode())


@asynccontextmanager
async def remote_command(
    target: Target,
    now: Callable[[], datetime],
    namespace: str,
    pod: str,
    container: str,
    command: Sequence[str],
    *,
    stdin: bool,
    tty: bool,
) -> AsyncIterator[RemoteCommand]:
    """Start it. Raises ApiError; the command is left to itself when the context ends."""
    query = [("container", container), ("stdout", "true"), *(("command", word) for word in command)]
    query += [("tty", "true")] if tty else [("stderr", "true")]
    query += [("stdin", "true")] if stdin else []
    url = URL(f"{target.server}{path_of(PODS, namespace, pod, 'exec')}?{urlencode(query)}", encoded=True)
    identity = await asyncio.to_thread(Credentials(target.login, now=now, environ=os.environ).current)
    options: dict[str, Any] = {}
    if url.scheme == "https":
        options = {"ssl": tls_context(target, identity), "server_hostname": target.server_name or None}
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S)) as session:
        try:
            socket = await session.ws_connect(
                url,
                protocols=_PROTOCOLS,
                headers=identity.headers,
                heartbeat=_HEARTBEAT_S,
                max_msg_size=0,
                proxy=target.proxy or None,
                **options,
            )
        except aiohttp.WSServerHandshakeError as error:
            raise from_status({"code": error.status, "message": _refusal(error.status)}) from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unavailable(f"cannot reach {target.server}: {error}") from error
        async with socket:
            yield RemoteCommand(socket)


def _refusal(status: int) -> str:
    words = {401: "Unauthorized", 403: "you may not run commands in pods of this namespace (create pods/exec)"}
    return words.get(status, f"the server did not start the command (HTTP {status})")


def _exit_code(status: dict[str, Any]) -> int:
    """Of the Status that ends a command. Raises ApiError when it did not even run."""
    if status.get("status") == "Success":
        return 0
    if status.get("reason") == "NonZeroExitCode":
        for cause in (status.get("details") or {}).get("causes") or ():
            if cause.get("reason") == "ExitCode" and str(cause.get("message", "")).isdecimal():
                return int(cause["message"])
    raise _failure(status)


def _failure(status: dict[str, Any]) -> ApiError:
    return from_status({"code": 500, **status})
