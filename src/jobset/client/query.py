"""A small synchronous client for commands that ask a few questions and end: one connection, kept open, on http.client.

It answers in raw objects and raises the errors of `jobset.api.errors`; it decides nothing. Programs that live longer
use the asynchronous adapter behind the client port: loading that takes longer than most of these commands run.
"""

from __future__ import annotations

import base64
import http.client
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec
from msgspec import Struct

from jobset import __version__
from jobset.api.errors import ApiError, Gone, InternalError, Unavailable, from_status
from jobset.api.meta import Object
from jobset.api.resources import Resource
from jobset.client import requests
from jobset.client.credentials import Credentials, Identity
from jobset.client.kubeconfig import Target
from jobset.client.port import PatchType, Propagation
from jobset.client.requests import Request, Scope
from jobset.client.tls import tls_context

PAGE_SIZE = 500
PATIENCE_S = 30.0
"""How long, over all its answers, a server may put one request off."""
WATCH_S = 300
"""A watch is asked anew after this time, so that a connection that died unnoticed is noticed."""
RECONNECT_PAUSE_S = 1.0
GIVE_UP_S = 60.0
"""How long a watch that was up tries to reach a server that went away."""
SHOWN_OF_AN_ERROR = 300


class Unreachable(Unavailable):
    """There is no connection to the server. `cause` says why in a few words."""

    def __init__(self, server: str, cause: str) -> None:
        super().__init__(f"cannot reach {server}: {cause}")
        self.server = server
        self.cause = cause


class WatchTimedOut(Exception):
    """The deadline of a watch has passed."""


class Change(Struct, frozen=True):
    """What a watch tells. LISTED comes first, with everything there is, and again when changes were missed."""

    type: Literal["LISTED", "ADDED", "MODIFIED", "DELETED"]
    object: Object = {}
    listed: Sequence[Object] = ()

    @property
    def objects(self) -> Sequence[Object]:
        return self.listed if self.type == "LISTED" else (self.object,)


class Page(Struct, frozen=True):
    items: list[Object]
    resource_version: str


class QueryClient:
    """Not for use by several threads. `on_warning` is called with each warning that the server sends along."""

    def __init__(
        self,
        target: Target,
        credentials: Credentials,
        *,
        timeout_s: float = 30.0,
        on_warning: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._target = target
        self._credentials = credentials
        self._timeout_s = timeout_s
        self._on_warning = on_warning
        self._idle: _Line | None = None

    # ------------------------------------------------------------------ reading

    def get(self, resource: Resource, namespace: str, name: str) -> Object:
        return self.send(requests.get(resource, namespace, name))

    def list(self, resource: Resource, namespace: str = "", label_selector: str = "", field_selector: str = "") -> Page:
        """Everything, asked for in pages; at once when the server forgets the state that the pages are of."""
        scope = Scope(namespace, label_selector, field_selector)
        items: list[Object] = []
        limit, token = PAGE_SIZE, ""
        while True:
            try:
                body = self.send(requests.list_(resource, scope, limit, token))
            except Gone:
                if not token:
                    raise
                items, limit, token = [], 0, ""
                continue
            found = body.get("items") or ()
            items += ({"apiVersion": resource.api_version, "kind": resource.kind, **item} for item in found)
            token = body["metadata"].get("continue", "")
            if not token:
                return Page(items, body["metadata"].get("resourceVersion", ""))

    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_s: float | None = None,
    ) -> Iterator[Change]:
        """What there is, then every change, through interruptions of the connection. Ends with WatchTimedOut."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        scope = Scope(namespace, label_selector, field_selector)
        version, lost_at = "", None
        while True:
            try:
                if not version:
                    page = self.list(resource, namespace, label_selector, field_selector)
                    version = page.resource_version
                    yield Change("LISTED", listed=page.items)
                for event in self._watch_once(resource, scope, version, deadline):
                    version, lost_at = event["object"]["metadata"]["resourceVersion"], None
                    if event["type"] != "BOOKMARK":
                        yield Change(event["type"], event["object"])
            except Gone:
                version = ""
            except Unreachable:
                lost_at = lost_at or time.monotonic()
                if not version or time.monotonic() - lost_at > GIVE_UP_S:
                    raise
                _sleep(RECONNECT_PAUSE_S, deadline)

    def _watch_once(self, resource: Resource, scope: Scope, version: str, deadline: float | None) -> Iterator[Object]:
        left = WATCH_S if deadline is None else min(WATCH_S, deadline - time.monotonic())
        if left <= 0:
            raise WatchTimedOut
        request = requests.watch(resource, scope, version, int(left) + 1)
        for line in self._lines(request, left, deadline):
            event: Object = msgspec.json.decode(line)
            if event["type"] == "ERROR":
                raise from_status(event["object"])
            yield event

    def _lines(self, request: Request, silence_s: float, deadline: float | None) -> Iterator[bytes]:
        """The lines of an answer as they come, until none came for a while, on a connection of their own."""
        with self._answered(request, alone=True) as (response, sock):
            while True:
                sock.settimeout(silence_s if deadline is None else max(deadline - time.monotonic(), 0.001))
                try:
                    line = response.readline()
                except TimeoutError:
                    if deadline is not None and time.monotonic() >= deadline:
                        raise WatchTimedOut from None
                    return
                if not line:
                    return
                yield line

    def text(self, request: Request) -> str:
        """An answer that is not JSON: a log."""
        with self._answered(request) as (response, _):
            return _unpacked(response).decode(errors="replace")

    # ------------------------------------------------------------------ writing

    def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Any,
        patch_type: PatchType = "merge",
        *,
        subresource: str = "",
        force: bool = False,
        dry_run: bool = False,
    ) -> Object:
        return self.send(
            requests.patch(
                resource,
                namespace,
                name,
                patch,
                patch_type=patch_type,
                subresource=subresource,
                field_manager="jobset",
                force=force,
                dry_run=dry_run,
            )
        )

    def delete(
        self, resource: Resource, namespace: str, name: str, *, uid: str, propagation: Propagation, dry_run: bool
    ) -> Object:
        return self.send(
            requests.delete(
                resource,
                namespace,
                name,
                uid=uid,
                propagation=propagation,
                grace_period_s=None,
                dry_run=dry_run,
            )
        )

    # ------------------------------------------------------------------ requests

    def send(self, request: Request) -> Object:
        """One request and its answer, a JSON object. Comes back when the server says when to."""
        put_off_s = 0
        while True:
            try:
                return self._send(request)
            except ApiError as error:
                if (error.code != 429 and error.code < 500) or error.retry_after_s is None:
                    raise
                put_off_s += error.retry_after_s
                if put_off_s > PATIENCE_S:
                    raise
                time.sleep(error.retry_after_s)

    def _send(self, request: Request) -> Object:
        with self._answered(request) as (response, _):
            data = _unpacked(response)
        try:
            answer = msgspec.json.decode(data)
        except msgspec.DecodeError:
            answer = None
        if not isinstance(answer, dict):
            raise InternalError(f"{self._target.server} does not answer as a Kubernetes API server does")
        return answer

    @contextmanager
    def _answered(
        self, request: Request, *, alone: bool = False
    ) -> Iterator[tuple[http.client.HTTPResponse, socket.socket]]:
        """A successful answer, to be read while the context lasts; an unsuccessful one is raised."""
        line: _Line | None = None
        if not alone:
            line, self._idle = self._idle, None
        keep = False
        try:
            line, response = self._exchange(request, line)
            if response.status == 401 and self._credentials.renewable:
                line.close()
                self._credentials.forget(line.identity)
                line, response = self._exchange(request, None)
            self._tell_warnings(response)
            if response.status >= 300:
                raise _error(response)
            yield response, line.sock
            keep = not alone and response.isclosed() and not response.will_close
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(self._target.server, _reason(error)) from error
        finally:
            if keep:
                self._idle = line
            elif line is not None:
                line.close()

    def _exchange(self, request: Request, used: _Line | None) -> tuple[_Line, http.client.HTTPResponse]:
        """On a connection that is up already, or on a new one."""
        identity = self._credentials.current()
        if used is not None and used.identity is identity:
            try:
                return used, used.ask(request, compressed=self._target.compression)
            except ConnectionError:  # the server has hung up meanwhile
                if request.method != "GET":
                    raise
        if used is not None:
            used.close()
        line = _Line(self._target, identity, self._timeout_s)
        return line, line.ask(request, compressed=self._target.compression)

    def _tell_warnings(self, response: http.client.HTTPResponse) -> None:
        for header in response.headers.get_all("Warning") or ():
            _, _, text = header.partition('"')
            self._on_warning(text.removesuffix('"').replace('\\"', '"'))


class _Line:
    """A connection to the server as somebody."""

    def __init__(self, target: Target, identity: Identity, timeout_s: float) -> None:
        self.identity = identity
        self.sock: socket.socket
        parts = urlsplit(target.server)
        host = parts.hostname or ""
        proxy = urlsplit(target.proxy) if target.proxy else None
        first = (proxy.hostname or "", proxy.port or 80) if proxy else (host, parts.port)
        self._prefix = parts.path
        self._headers = {"User-Agent": f"jobset/{__version__}", "Accept": requests.JSON}
        self._connection: http.client.HTTPConnection
        if parts.scheme == "https":
            context = tls_context(target, identity)
            secure = _Secure(*first, timeout=timeout_s, context=context)
            secure.name, secure.tls = target.server_name or host, context
            if proxy:
                secure.set_tunnel(host, parts.port or 443, _proxy_login(proxy))
            self._connection = secure
        else:
            self._connection = http.client.HTTPConnection(*first, timeout=timeout_s)
            if proxy:
                self._prefix = target.server
                self._headers |= _proxy_login(proxy)

    def ask(self, request: Request, *, compressed: bool) -> http.client.HTTPResponse:
        connection = self._connection
        connection.putrequest(request.method, self._prefix + request.target, skip_accept_encoding=True)
        headers = {**self._headers, "Accept-Encoding": "gzip" if compressed else "identity"}
        if request.body is not None:
            headers |= {"Content-Type": request.media_type, "Content-Length": str(len(request.body))}
        for name, value in (*headers.items(), *self.identity.headers):
            connection.putheader(name, value)
        connection.endheaders(request.body)
        self.sock = connection.sock
        return connection.getresponse()

    def close(self) -> None:
        self._connection.close()


class _Secure(http.client.HTTPSConnection):
    """TLS to a server whose certificate is for `name`, which need not be its address."""

    name: str
    tls: ssl.SSLContext

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self.tls.wrap_socket(self.sock, server_hostname=self.name)


def _proxy_login(proxy: SplitResult) -> dict[str, str]:
    if not proxy.username:
        return {}
    pair = base64.b64encode(f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()).decode()
    return {"Proxy-Authorization": f"Basic {pair}"}


def _unpacked(response: http.client.HTTPResponse) -> bytes:
    data = response.read()
    if response.headers.get("Content-Encoding") != "gzip":
        return data
    import zlib

    return zlib.decompress(data, wbits=31)


def _error(response: http.client.HTTPResponse) -> ApiError:
    data = _unpacked(response)
    try:
        status = msgspec.json.decode(data)
    except msgspec.DecodeError:
        status = None
    if not isinstance(status, dict) or status.get("kind") != "Status":
        text = data.decode(errors="replace").strip()
        readable = text and "<" not in text and len(text) < SHOWN_OF_AN_ERROR
        status = {"message": text if readable else f"{response.status} {response.reason}"}
    error = from_status({"code": response.status, **status})
    after = response.headers.get("Retry-After", "")
    if error.retry_after_s is None and after.isdigit():
        error.retry_after_s = int(after)
    return error


def _reason(error: OSError | http.client.HTTPException) -> str:
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted ({error.verify_message})"
        case ssl.SSLError():
            return f"TLS failed ({(error.reason or str(error)).lower().replace('_', ' ')})"
        case ConnectionRefusedError():
            return "connection refused"
        case TimeoutError():
            return "no answer in time"
        case socket.gaierror():
            return "its host name is not known"
        case http.client.RemoteDisconnected() | http.client.IncompleteRead() | ConnectionError():
            return "the connection was closed"
        case http.client.HTTPException():
            return "it does not speak HTTP"
    return error.strerror or str(error)


def _sleep(seconds: float, deadline: float | None) -> None:
    if deadline is not None and time.monotonic() + seconds >= deadline:
        raise WatchTimedOut
    time.sleep(seconds)
