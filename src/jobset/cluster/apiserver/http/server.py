"""Serves an application on sockets that listen already, for as long as a context lasts."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from aiohttp import web

_LONGEST_LINE = 64 * 1024
_GOING_S = 2.0
"""How long requests that are being answered may take when the server stops."""
_KEEP_ALIVE_S = 120.0


@asynccontextmanager
async def serving(app: web.Application, sockets: Sequence[socket.socket], tls: ssl.SSLContext) -> AsyncIterator[None]:
    """The sockets stay their owner's. Each of them gets HTTPS only."""
    runner = web.AppRunner(
        app,
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=_GOING_S,
        keepalive_timeout=_KEEP_ALIVE_S,
        max_line_size=_LONGEST_LINE,
        max_field_size=_LONGEST_LINE,
    )
    await runner.setup()
    try:
        for each in sockets:
            await web.SockSite(runner, each, ssl_context=tls).start()
        yield
    finally:
        await runner.cleanup()
