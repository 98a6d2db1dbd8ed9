"""The log of a container as an HTTP answer: text that is sent as it comes, as fast as the client takes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from aiohttp import web

_LOOK_EVERY_S = 1.0


async def send_log(request: web.Request, log: AsyncIterator[bytes]) -> web.StreamResponse:
    """Until the log ends or the client goes away."""
    response = web.StreamResponse(headers={"Content-Type": "text/plain", "Cache-Control": "no-cache, private"})
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_send(request, response, log)), group.create_task(_watch(request))]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
    return response


async def _send(request: web.Request, response: web.StreamResponse, log: AsyncIterator[bytes]) -> None:
    try:
        await response.prepare(request)
        async for text in log:
            await response.write(text)
        await response.write_eof()
    except ConnectionError:
        pass  # the client is gone, which is how most followers end


async def _watch(request: web.Request) -> None:
    """Until the client is gone: a log that says nothing would never find out."""
    while request.transport is not None and not request.transport.is_closing():
        await asyncio.sleep(_LOOK_EVERY_S)
