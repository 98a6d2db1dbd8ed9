"""kubectl port-forward to real servers in pods: bulk both ways, many at once, half-closed, and nobody there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from streams_rig import LIMIT_S, PYTHON, Rig, rig

pytestmark = pytest.mark.real_loop
Environment = Mapping[str, str]

SERVER = """
import socket, threading
def answer(client):
    with client, client.makefile("rb") as lines:
        wanted = int(lines.readline())
        if wanted:
            client.sendall(b"z" * wanted)
            return
        received = 0
        while data := lines.read1(65536):
            received += len(data)
        client.sendall(b"%d" % received)
listener = socket.create_server(("", 8080), backlog=100)
print("listens", flush=True)
while True:
    threading.Thread(target=answer, args=(listener.accept()[0],)).start()
"""


@contextlib.asynccontextmanager
async def forwarded(r: Rig, env: Environment, port: int = 8080) -> AsyncIterator[tuple[int, asyncio.StreamReader]]:
    """(the port here, what kubectl complains about)"""
    async with r.started("port-forward", "p", f":{port}", env=env) as client:
        assert client.stdout is not None and client.stderr is not None
        line = (await client.stdout.readline()).decode()
        assert line.startswith("Forwarding from 127.0.0.1:")
        yield int(line.split()[2].rpartition(":")[2]), client.stderr


async def serve(r: Rig) -> None:
    await r.run(PYTHON, "-c", SERVER)
    async with asyncio.timeout(LIMIT_S):
        while "listens" not in (await r.kubectl("logs", "p")).text:
            await asyncio.sleep(0.05)


async def download(port: int, size: int) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"%d\n" % size)
    data = await reader.read(-1)
    writer.close()
    return len(data)


async def test_twenty_megabytes_each_way(place: Path, protocol: Environment) -> None:
    async with rig(place) as r:
        await serve(r)
        async with forwarded(r, protocol) as (port, _), asyncio.timeout(LIMIT_S):
            assert await download(port, 20_000_000) == 20_000_000
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"0\n" + bytes(20_000_000))
            writer.write_eof()  # the answer comes after this: one direction is closed alone
            assert await reader.read(-1) == b"20000000"
            writer.close()


async def test_many_connections_at_once(place: Path, protocol: Environment) -> None:
    async with rig(place) as r:
        await serve(r)
        async with forwarded(r, protocol) as (port, _), asyncio.timeout(LIMIT_S):
            sizes = [10_000 * n + 1 for n in range(40)]
            assert await asyncio.gather(*(download(port, size) for size in sizes)) == sizes


async def test_one_that_does_not_read_holds_up_nobody(place: Path, protocol: Environment) -> None:
    """As far as its buffers reach: SPDY as clients speak it has no flow control for single streams."""
    async with rig(place) as r:
        await serve(r)
        async with forwarded(r, protocol) as (port, _), asyncio.timeout(LIMIT_S):
            _, lazy = await asyncio.open_connection("127.0.0.1", port)
            lazy.write(b"1000000\n")
            assert await download(port, 1_000_000) == 1_000_000
            lazy.close()
            assert await download(port, 1_000_000) == 1_000_000


async def test_nobody_listens(place: Path, protocol: Environment) -> None:
    async with rig(place) as r:
        await serve(r)
        async with forwarded(r, protocol, port=9) as (port, complaints), asyncio.timeout(LIMIT_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            with contextlib.suppress(ConnectionError):
                assert await reader.read(-1) == b""
            writer.close()
            line = (await complaints.readline()).decode()
            assert "error forwarding port 9 to pod p" in line
            assert "Connection refused" in line


async def test_pod_networks_and_localhost(place: Path, protocol: Environment, pod_network: None) -> None:
    async with rig(place, network="pod") as r:
        script = SERVER.replace('("", 8080)', '("127.0.0.1", 8080)')
        await r.run(PYTHON, "-c", script)
        async with asyncio.timeout(LIMIT_S):
            while "listens" not in (await r.kubectl("logs", "p")).text:
                await asyncio.sleep(0.05)
        async with forwarded(r, protocol) as (port, _), asyncio.timeout(LIMIT_S):
            assert await download(port, 100_000) == 100_000
