"""Serves an application on sockets that listen already, for as long as a context lasts."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from aiohttp import web

GOODBYE_S = 1.0
"""How long requests that are under way when the server ends (watches, logs) may take to end."""
_IDLE_S = 75.0


@asynccontextmanager
async def serving(app: web.Application, sockets: Sequence[socket.socket], tls: ssl.SSLContext) -> AsyncIterator[None]:
    """The sockets stay their owner's. Each of them gets HTTPS only."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=GOODBYE_S, keepalive_timeout=_IDLE_S)
    await runner.setup()
    try:
        for each in sockets:
            await web.SockSite(runner, each, ssl_context=tls).start()
        yield
    finally:
        await runner.cleanup()
