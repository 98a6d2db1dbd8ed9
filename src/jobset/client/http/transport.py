"""One request to the API server and its answer: connections, credentials, patience, and errors in our own words.

Knows HTTP and nothing of resources. A request is sent again only where the server asked for it: after a 401 with
renewed credentials, and after a 429 or 5xx that says when to come back (the server's flow control; it has then not
carried the request out). Everything else is for the worker loops to decide.
"""

from __future__ import annotations

import asyncio
import platform
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from ipaddress import ip_address
from types import TracebackType
from typing import Any

import aiohttp
import msgspec
from yarl import URL

from jobset import __version__
from jobset.api.errors import ApiError, Timeout, Unauthorized, Unavailable, from_status
from jobset.client.credentials import Credentials, Identity
from jobset.client.http.rate import RateLimit
from jobset.client.kubeconfig import Target
from jobset.client.requests import JSON, Request
from jobset.client.tls import tls_context

CONNECT_TIMEOUT_S = 10.0
REQUEST_TIMEOUT_S = 60.0
PATIENCE_S = 30.0
"""How long, over all its answers, a server may put one request off."""
READ_BUFFER = 256 * 1024
SHOWN_OF_AN_ERROR = 300
USER_AGENT = f"jobset/{__version__} ({platform.system().lower()}/{platform.machine()})"


class Transport:
    """`per_second` and `burst` limit how fast we ask; no limit when `per_second` is 0."""

    def __init__(self, target: Target, *, now: Callable[[], datetime], per_second: float, burst: int) -> None:
        self._target = target
        self._credentials = Credentials(target.login, now=now)
        self._renewing = asyncio.Lock()
        self._limit = RateLimit(per_second, burst) if per_second else None
        self._session: aiohttp.ClientSession | None = None
        self._tls: tuple[Identity, ssl.SSLContext] | None = None
        self._encoding = "gzip" if target.compression and not _is_near(target.server) else "identity"

    async def __aenter__(self) -> Transport:
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=60, socket_factory=_socket)
        self._session = aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), read_bufsize=READ_BUFFER
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def send(self, request: Request) -> bytes:
        """The body of a successful answer. Raises ApiError."""
        timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S, sock_connect=CONNECT_TIMEOUT_S)
        response = await self._open(request, timeout, self._encoding)
        async with response:
            try:
                return await response.read()
            except (aiohttp.ClientError, OSError) as error:
                raise self._explained(error) from error

    @asynccontextmanager
    async def stream(self, request: Request, *, silence_s: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """The body of a successful answer in the pieces it arrives in, until it ends or is cut off.

        A connection that says nothing for `silence_s` counts as cut off.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=silence_s)
        response = await self._open(request, timeout, "identity")
        try:
            yield _pieces(response)
        finally:
            response.close()

    async def _open(self, request: Request, timeout: aiohttp.ClientTimeout, encoding: str) -> aiohttp.ClientResponse:
        put_off_s, renewed = 0.0, False
        while True:
            if self._limit is not None:
                await self._limit.wait()
            identity = await self._identity()
            response = await self._ask(request, identity, timeout, encoding)
            if response.status < 300:
                return response
            error = await self._refusal(response)
            if isinstance(error, Unauthorized) and self._credentials.renewable and not renewed:
                self._credentials.forget(identity)
                renewed = True
                continue
            delay_s = error.retry_after_s
            if delay_s is None or not _may_come_back(response) or put_off_s + delay_s > PATIENCE_S:
                raise error
            await asyncio.sleep(delay_s)
            put_off_s += delay_s

    async def _identity(self) -> Identity:
        credentials = self._credentials
        if credentials.is_fresh:
            return credentials.current()
        async with self._renewing:
            return await asyncio.to_thread(credentials.current)

    async def _ask(
        self, request: Request, identity: Identity, timeout: aiohttp.ClientTimeout, encoding: str
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            raise RuntimeError("the client is used before `async with`, or after it")
        target = self._target
        headers = [("Accept", JSON), ("Accept-Encoding", encoding), ("User-Agent", USER_AGENT), *identity.headers]
        if request.body is not None:
            headers.append(("Content-Type", request.media_type))
        options: dict[str, Any] = {}
        if target.server.startswith("https:"):
            options = {"ssl": self._tls_for(identity), "server_hostname": target.server_name or None}
        try:
            return await self._session.request(
                request.method,
                URL(target.server + request.target, encoded=True),
                data=request.body,
                headers=headers,
                timeout=timeout,
                proxy=target.proxy or None,
                allow_redirects=False,
                **options,
            )
        except (aiohttp.ClientError, OSError) as error:
            raise self._explained(error) from error

    def _tls_for(self, identity: Identity) -> ssl.SSLContext:
        """One context as long as the certificate we show stays the same: connections are kept by it."""
        shown = Identity((), identity.certificate, identity.key)
        if self._tls is None or self._tls[0] != shown:
            self._tls = (shown, tls_context(self._target, identity))
        return self._tls[1]

    async def _refusal(self, response: aiohttp.ClientResponse) -> ApiError:
        async with response:
            try:
                body = await response.read()
            except (aiohttp.ClientError, OSError) as error:
                return self._explained(error)
        refusal = from_status(_status(response.status, response.reason or "", body))
        after = response.headers.get("Retry-After", "")
        if refusal.retry_after_s is None and after.isdigit():
            refusal.retry_after_s = int(after)
        return refusal

    def _explained(self, error: aiohttp.ClientError | OSError) -> ApiError:
        server = self._target.server
        if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ConnectionTimeoutError):
            return Timeout(f"{server} gave no answer in {REQUEST_TIMEOUT_S:.0f} s")
        return Unavailable(f"cannot reach {server}: {_reason(error)}")


async def _pieces(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for piece in response.content.iter_any():
            yield piece
    except (aiohttp.ClientError, OSError):
        return  # cut off: the reader goes on from the last thing it has seen


def _status(code: int, reason: str, body: bytes) -> dict[str, Any]:
    """The Status that the body holds, or one made of what a proxy or another server says instead."""
    try:
        status = msgspec.json.decode(body)
    except msgspec.DecodeError:
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status":
        return {"code": code, **status}
    text = " ".join(body.decode(errors="replace").split())
    readable = text and "<" not in text and len(text) < SHOWN_OF_AN_ERROR
    return {"code": code, "message": text if readable else f"{code} {reason}"}


def _may_come_back(response: aiohttp.ClientResponse) -> bool:
    return "Retry-After" in response.headers and (response.status == 429 or response.status >= 500)


def _reason(error: BaseException) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return f"its certificate is not trusted ({error.certificate_error})"
        case aiohttp.ClientConnectorDNSError():
            return f"the host name {error.host} is not known"
        case aiohttp.ClientHttpProxyError():
            return f"the proxy refused the connection ({error.status} {error.message})"
        case aiohttp.ClientConnectorSSLError():
            return f"TLS failed ({error.os_error})"
        case TimeoutError():
            return f"no connection in {CONNECT_TIMEOUT_S:.0f} s"
        case aiohttp.ClientConnectorError() if isinstance(error.os_error, ConnectionRefusedError):
            return "connection refused"
        case aiohttp.ClientConnectorError():
            return error.os_error.strerror or str(error.os_error)
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError() | ConnectionError():
            return "the connection was closed in the middle of a request"
    return str(error)


def _is_near(server: str) -> bool:
    """Whether compressing costs more than it saves: the server is on this machine."""
    host = URL(server).host or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _socket(address: Any) -> socket.socket:
    """A socket that notices within a minute when its peer is gone without a word: watches are silent for long."""
    family, type_, protocol, _, _ = address
    made = socket.socket(family, type_, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made
