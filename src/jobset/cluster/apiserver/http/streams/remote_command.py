"""Exec and attach: connects a command's streams with a client's, and tells the client how the command ended.

    client <-> Channels (WebSocket or SPDY) <-> relay <-> Session (the kubelet's)

A client that goes away ends the command it started. Both directions wait for the slower side; nothing piles up here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web

from jobset.api.errors import ApiError, BadRequest
from jobset.api.meta import Object
from jobset.cluster.apiserver.http.streams import websocket
from jobset.cluster.apiserver.http.streams.channels import STDERR, STDOUT, Channels
from jobset.cluster.apiserver.http.streams.queries import CommandOptions
from jobset.cluster.apiserver.http.streams.spdy_channels import spdy_channels
from jobset.cluster.apiserver.http.streams.upgrade import is_spdy
from jobset.cluster.runtime.port import Session

SUCCESS: Object = {"metadata": {}, "status": "Success"}


def exec_status(argv: list[str], exit_code: int) -> Object:
    """How a command ended, as clients expect it: a failure names the exit code as a cause."""
    if exit_code == 0:
        return SUCCESS
    words = f"error executing command [{' '.join(argv)}], exit code {exit_code}"
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: {words}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]},
    }


async def serve_command(
    request: web.Request,
    options: CommandOptions,
    start: Callable[[], Awaitable[Session]],
    status: Callable[[int], Object],
) -> web.StreamResponse:
    """Upgrade the connection, start the command, relay until it or the client ends. `status` judges its exit code.

    BadRequest, Forbidden before the upgrade; later problems travel as the command's Status.
    """
    command = _Command(options, start, status)
    response = web.StreamResponse()
    try:
        if websocket.is_websocket(request):
            accepted = await websocket.accept(request, websocket.COMMAND_PROTOCOLS)
            response = accepted
            await command.serve(websocket.WebSocketChannels(request, accepted))
        elif is_spdy(request):
            async with spdy_channels(request, options) as channels:
                await command.serve(channels)
        else:
            raise BadRequest("Upgrade request required")
    except* ConnectionError:
        pass  # the client is gone: nobody is left to tell
    return response


class _Command:
    def __init__(
        self, options: CommandOptions, start: Callable[[], Awaitable[Session]], status: Callable[[int], Object]
    ) -> None:
        self._wanted = {STDOUT: options.stdout, STDERR: options.stderr}
        self._start = start
        self._status = status

    async def serve(self, channels: Channels) -> None:
        """Raises ConnectionError, perhaps in a group."""
        try:
            session = await self._start()
        except ApiError as error:
            await channels.finish(error.to_status())
            return
        try:
            if await self._relay(session, channels):
                await channels.finish(self._status(await session.wait()))
        finally:
            await session.close()

    async def _relay(self, session: Session, channels: Channels) -> bool:
        """Whether the command ended, rather than the client."""
        async with asyncio.TaskGroup() as group:
            output = group.create_task(self._send_output(session, channels))
            feeding = group.create_task(channels.feed(session))
            await asyncio.wait((output, feeding), return_when=asyncio.FIRST_COMPLETED)
            ended = output.done()
            output.cancel()
            feeding.cancel()
        return ended

    async def _send_output(self, session: Session, channels: Channels) -> None:
        async for channel, data in session.output():
            if self._wanted[channel]:
                await channels.send(channel, data)
        await session.wait()
