"""Servers that do exactly what a test says, on a port of this machine, and clients of them."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from jobset.client.http.adapter import HttpClient
from jobset.client.kubeconfig import Login, Target
from jobset.cluster.apiserver.http.app import build_app
from jobset.cluster.apiserver.http.authentication import Authentication
from jobset.cluster.apiserver.http.authorization import Authorization
from jobset.cluster.apiserver.http.certificates import KeyPair, new_signing_key
from jobset.cluster.apiserver.http.tokens import Signer, Tokens
from jobset.cluster.apiserver.service import ApiService

TOKEN = "the-administrator"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def now() -> datetime:
    return datetime.now(UTC)


@asynccontextmanager
async def serving(app: web.Application, tls: ssl.SSLContext | None = None, port: int = 0) -> AsyncIterator[str]:
    """The address of a running application."""
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls).start()
        yield f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def answering(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A server whose every answer is `handler`'s."""

    async def entry(request: web.Request) -> web.StreamResponse:
        return await handler(request)

    app = web.Application(client_max_size=0)
    app.router.add_route("*", "/{path:.*}", entry)
    async with serving(app, tls) as address:
        yield address


@asynccontextmanager
async def client_of(handler: Handler, login: Login | None = None, **options: Any) -> AsyncIterator[HttpClient]:
    async with answering(handler) as address, HttpClient(target(address, login), now=now, **options) as client:
        yield client


def target(address: str, login: Login | None = None, **options: Any) -> Target:
    return Target(server=address, where="context test", login=login or Login(), **options)


def status(code: int, reason: str, message: str = "", **details: object) -> web.Response:
    """A metav1.Status as a Kubernetes API server answers it."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    return web.json_response({**body, "message": message, "details": details}, status=code)


def server_tls(directory: Path, pair: KeyPair, client_authority: KeyPair | None = None) -> ssl.SSLContext:
    file = directory / "server.pem"
    file.write_text(pair.certificate + pair.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(file)
    if client_authority is not None:
        context.load_verify_locations(cadata=client_authority.certificate)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def api_server(service: ApiService) -> web.Application:
    """The embedded API server without controllers; TOKEN may do everything."""
    tokens = Tokens(Signer(new_signing_key()), service.store, now)
    authentication, authorization = Authentication(tokens, TOKEN), Authorization(service.store)
    return build_app(service, authentication=authentication, authorization=authorization, now=now)
