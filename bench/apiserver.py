"""How fast the API server is over HTTPS: reads, durable writes, events to 200 watchers; beside a plain aiohttp handler.

The server runs in this process, the clients in another; so each has a core of its own where there are two. The plain
handler gets the same requests and answers bytes it has at hand: what the ratio leaves is the price of being Kubernetes.
Rates are of the wall clock and suffer from whatever else the machine does; microseconds are processor time of the
server alone. Prints one JSON line last.
"""

from __future__ import annotations

import asyncio
import gc
import json
import multiprocessing
import resource
import socket
import ssl
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from jobset.api.resources import CONFIG_MAPS as CONFIG_MAPS_RESOURCE
from jobset.api.resources import PODS
from jobset.cluster.apiserver.http.app import build_app
from jobset.cluster.apiserver.http.authentication import Authentication
from jobset.cluster.apiserver.http.authorization import Authorization
from jobset.cluster.apiserver.http.certificates import new_authority, new_server_certificate, new_signing_key
from jobset.cluster.apiserver.http.server import serving
from jobset.cluster.apiserver.http.tokens import Signer, Tokens
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.store.sqlite import SqliteStore

TOKEN = "the-administrator"
SECONDS = 4.0
CONNECTIONS = 32
WATCHERS = 200
WATCH_WRITES = 2000
PODS_STORED = 1000
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
POD_SPEC = {"containers": [{"name": "main", "image": "python:3.11", "command": ["python", "train.py"]}]}


def now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Load:
    """What the client process does: `requests` in turn on each connection, or count events as a watcher."""

    port: int
    kind: str
    method: str = "GET"
    path: str = ""
    bodies: bool = False


class Connection(asyncio.Protocol):
    """One keep-alive connection that asks again as soon as it was answered."""

    def __init__(self, load: Load, number: int) -> None:
        self._load = load
        self._number = number
        self._buffer = b""
        self.answered = 0
        self.latencies: list[float] = []

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._ask()

    def _ask(self) -> None:
        load, name = self._load, f"c{self._number}-{self.answered}"
        body = b""
        if load.bodies:
            body = json.dumps({"metadata": {"name": name}, "data": {"key": "value" * 20}}).encode()
        head = f"{load.method} {load.path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self._asked_at = time.perf_counter()
        self._transport.write(head.encode() + body)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head_end = self._buffer.find(b"\r\n\r\n")
        if head_end < 0:
            return
        head = self._buffer[:head_end].lower()
        length = int(head[head.index(b"content-length:") + 15 :].split(b"\r\n", 1)[0])
        if len(self._buffer) < head_end + 4 + length:
            return
        if not head.startswith((b"http/1.1 200", b"http/1.1 201")):
            raise SystemExit(self._buffer.decode())
        self._buffer = b""
        self.answered += 1
        self.latencies.append(time.perf_counter() - self._asked_at)
        self._ask()


class Watcher(asyncio.Protocol):
    """Counts the events that arrive."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._rest = b""
        self.events = 0
        self.last_at = 0.0

    def connection_made(self, transport: Any) -> None:
        head = f"GET {self._load.path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        transport.write(head.encode())

    def data_received(self, data: bytes) -> None:
        whole = self._rest + data
        self.events += whole.count(b'"type":"MODIFIED"')
        self._rest = whole[whole.rfind(b"\n") + 1 :]
        self.last_at = time.perf_counter()


def client(load: Load, pipe: Any) -> None:
    asyncio.run(watch(load, pipe) if load.kind == "watch" else ask(load, pipe))


def client_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def ask(load: Load, pipe: Any) -> None:
    loop, context = asyncio.get_running_loop(), client_tls()
    connections = [Connection(load, number) for number in range(CONNECTIONS)]
    start = time.perf_counter()
    for one in connections:
        await loop.create_connection(lambda one=one: one, "127.0.0.1", load.port, ssl=context)
    await asyncio.sleep(SECONDS)
    elapsed = time.perf_counter() - start
    latencies = sorted(one for connection in connections for one in connection.latencies)
    count = len(latencies)
    pipe.send((count, count / elapsed, latencies[count // 2] * 1e3, latencies[-count // 100] * 1e3))


async def watch(load: Load, pipe: Any) -> None:
    loop, context = asyncio.get_running_loop(), client_tls()
    watchers = [Watcher(load) for _ in range(WATCHERS)]
    for one in watchers:
        await loop.create_connection(lambda one=one: one, "127.0.0.1", load.port, ssl=context)
    pipe.send("ready")
    wanted = WATCHERS * WATCH_WRITES
    while sum(one.events for one in watchers) < wanted:
        await asyncio.sleep(0.01)
    pipe.send(time.time() - (time.perf_counter() - max(one.last_at for one in watchers)))


async def received(pipe: Any) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, pipe.recv)


@asynccontextmanager
async def loaded(load: Load) -> AsyncIterator[Any]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=client, args=(load, theirs), daemon=True)
    process.start()
    try:
        yield ours
    finally:
        process.join(10)
        process.kill()


@dataclass(frozen=True)
class Rate:
    per_s: float
    p50_ms: float
    p99_ms: float
    cpu_us: float
    """Processor time of the server for one request."""


async def rate(load: Load) -> Rate:
    async with loaded(load) as pipe:
        cpu = time.process_time()
        count, per_s, p50_ms, p99_ms = await received(pipe)
        return Rate(per_s, p50_ms, p99_ms, (time.process_time() - cpu) / count * 1e6)


def tls(directory: Path) -> ssl.SSLContext:
    authority = new_authority(now())
    pair = new_server_certificate(authority, ["127.0.0.1"], now())
    (directory / "crt").write_text(pair.certificate)
    (directory / "key").write_text(pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "crt", directory / "key")
    return context


async def plain(path: Path, body: bytes) -> tuple[Rate, Rate]:
    """Gets and posts of a handler that does nothing."""

    async def handle(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=body, content_type="application/json")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    async with serving(app, [listener], tls(path)):
        gets = await rate(Load(port, "ask", "GET", f"{CONFIG_MAPS}/one"))
        posts = await rate(Load(port, "ask", "POST", CONFIG_MAPS, bodies=True))
    return gets, posts


async def watch_rate(service: ApiService, port: int) -> tuple[float, float]:
    """(events delivered a second, from the first write until the last watcher has the last event; microseconds each)"""
    path = f"{CONFIG_MAPS}?watch=1&resourceVersion={service.store.revision}&labelSelector=watched"
    async with loaded(Load(port, "watch", path=path)) as pipe:
        await received(pipe)
        await asyncio.sleep(0.3)
        start, cpu = time.time(), time.process_time()
        stored = service.store.get("configmaps", "default", "watched")
        assert stored is not None
        for number in range(WATCH_WRITES):
            service.store.put("configmaps", {**stored, "data": {"n": str(number), "key": "value" * 60}})
            if number % 4 == 0:
                await asyncio.sleep(0)
        end = await received(pipe)
    deliveries = WATCHERS * WATCH_WRITES
    return deliveries / (end - start), (time.process_time() - cpu) / deliveries * 1e6


async def measure(path: Path) -> dict[str, float]:
    store = SqliteStore(path / "cluster.db", durability="NORMAL")
    service = ApiService(store, now=now)
    tokens = Tokens(Signer(new_signing_key()), store, now)
    app = build_app(
        service,
        authentication=Authentication(tokens, TOKEN),
        authorization=Authorization(store),
        now=now,
    )
    for number in range(PODS_STORED):
        service.create(PODS, "default", {"metadata": {"name": f"pod-{number}"}, "spec": POD_SPEC})
    pod = json.dumps(service.get(PODS, "default", "pod-0")).encode()
    watched = {"metadata": {"name": "watched", "labels": {"watched": "yes"}}}
    service.create(CONFIG_MAPS_RESOURCE, "default", watched)
    gc.freeze()
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    async with serving(app, [listener], tls(path)):
        events, event_us = await watch_rate(service, port)
        gets = await rate(Load(port, "ask", "GET", "/api/v1/namespaces/default/pods/pod-0"))
        writes = await rate(Load(port, "ask", "POST", CONFIG_MAPS, bodies=True))
    plain_gets, plain_posts = await plain(path, pod)
    figures = {"get": gets, "plain_get": plain_gets, "durable_write": writes, "plain_post": plain_posts}
    shown = {f"{name}s_per_s": round(one.per_s) for name, one in figures.items()}
    shown |= {f"{name}_us": round(one.cpu_us) for name, one in figures.items()}
    return {
        **shown,
        "get_ratio": round(gets.cpu_us / plain_gets.cpu_us, 2), "get_p50_ms": round(gets.p50_ms, 2),
        "get_p99_ms": round(gets.p99_ms, 2), "write_ratio": round(writes.cpu_us / plain_posts.cpu_us, 2),
        "write_p50_ms": round(writes.p50_ms, 2), "write_p99_ms": round(writes.p99_ms, 2),
        "watch_deliveries_per_s": round(events), "watch_delivery_us": round(event_us, 2),
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }  # fmt: skip


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        figures = asyncio.run(measure(Path(directory)))
    for name, value in figures.items():
        print(f"{name:24} {value:>12,}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
