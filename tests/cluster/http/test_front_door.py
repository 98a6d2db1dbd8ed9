"""The API server over HTTPS: what belongs to connections, headers and documents rather than to objects."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from cluster.http.serving import TOKEN, Served, served_cluster
from jobset.api.resources import CONFIG_MAPS
from jobset.api.schema import definitions
from jobset.cluster.apiserver.http import app
from jobset.cluster.apiserver.http.bodies import LIMIT_BYTES
from jobset.cluster.apiserver.http.openapi import SWAGGER_PROTOBUF
from jobset.core.admission.crd import custom_resource_definition

pytestmark = pytest.mark.real_loop
MAPS = "/api/v1/namespaces/default/configmaps"


@asynccontextmanager
async def connected(path: Path) -> AsyncIterator[tuple[aiohttp.ClientSession, Served]]:
    async with served_cluster(path) as served:
        tls = ssl.create_default_context(cafile=str(served.authority))
        headers = {"Authorization": f"Bearer {TOKEN}", "User-Agent": "test"}
        connector = aiohttp.TCPConnector(ssl=tls)
        async with aiohttp.ClientSession(served.url, headers=headers, connector=connector) as session:
            yield session, served


def config_map(name: str, size: int = 1, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "data": {"a": "x" * size}}


async def test_without_a_token_nobody_comes_in(tmp_path: Path) -> None:
    async with connected(tmp_path) as (session, _):
        for path in ("/api", "/healthz", MAPS):
            async with session.get(path, headers={"Authorization": ""}) as answer:
                assert (answer.status, (await answer.json())["reason"]) == (401, "Unauthorized")


async def test_large_answers_are_compressed_for_who_takes_it(tmp_path: Path) -> None:
    async with connected(tmp_path) as (session, served):
        served.service.create(CONFIG_MAPS, "default", config_map("big", 200_000))
        sizes = {}
        for encoding in ("gzip", "identity"):
            async with session.get(f"{MAPS}/big", headers={"Accept-Encoding": encoding}) as answer:
                sizes[encoding] = int(answer.headers["Content-Length"])
                assert len((await answer.json())["data"]["a"]) == 200_000
                assert answer.headers.get("Content-Encoding", "identity") == encoding
        assert sizes["gzip"] < sizes["identity"] / 50


async def test_bodies_have_a_limit(tmp_path: Path) -> None:
    async with connected(tmp_path) as (session, _):
        async with session.post(MAPS, data=b" " * (LIMIT_BYTES + 1)) as answer:
            assert (answer.status, (await answer.json())["reason"]) == (413, "RequestEntityTooLarge")


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("HEAD", MAPS, 405),
        ("OPTIONS", MAPS, 405),
        ("POST", f"{MAPS}/x", 405),
        ("DELETE", "/api/v1/configmaps", 405),
        ("DELETE", "/api/v1/namespaces", 405),
        ("GET", "/api/v1/configmaps/x", 404),
        ("GET", f"{MAPS}/x/nothing", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("GET", "/api/v1/namespaces/default/pods/p/binding", 405),
        ("GET", "/nothing", 404),
        ("POST", "/version", 405),
    ],
)
async def test_methods_and_paths_that_there_are_not(tmp_path: Path, method: str, path: str, code: int) -> None:
    async with connected(tmp_path) as (session, _), session.request(method, path) as answer:
        assert answer.status == code


async def test_json_is_laid_out_for_people(tmp_path: Path) -> None:
    async with connected(tmp_path) as (session, _):
        async with session.get(MAPS) as answer:
            assert b"\n" not in await answer.read()
        async with session.get(MAPS, params={"pretty": "true"}) as answer:
            assert b'\n  "kind"' in await answer.read()
        async with session.get(MAPS, headers={"User-Agent": "curl/8"}) as answer:
            assert b'\n  "kind"' in await answer.read()


async def lines(answer: aiohttp.ClientResponse, count: int) -> list[dict[str, Any]]:
    return [json.loads(await answer.content.readline()) for _ in range(count)]


async def test_a_watch_of_tables_follows_changes_and_ends_in_time(tmp_path: Path) -> None:
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    async with connected(tmp_path) as (session, served):
        served.service.create(CONFIG_MAPS, "default", config_map("one"))
        query = {"watch": "true", "timeoutSeconds": "1"}
        async with session.get(MAPS, params=query, headers={"Accept": accept}) as answer:
            served.service.create(CONFIG_MAPS, "default", config_map("two"))
            first, second = await lines(answer, 2)
            assert [one["object"]["rows"][0]["cells"][0] for one in (first, second)] == ["one", "two"]
            assert first["object"]["columnDefinitions"] and second["object"]["columnDefinitions"] is None
            assert await answer.content.read() == b""


async def test_a_watch_from_too_long_ago_is_told_in_its_stream(tmp_path: Path) -> None:
    async with connected(tmp_path) as (session, served):
        for number in range(5000):
            name = f"c{number % 10}"
            if served.service.exists(CONFIG_MAPS, "default", name):
                patch = {"data": {"a": str(number)}}
                served.service.patch(CONFIG_MAPS, "default", name, patch)
            else:
                served.service.create(CONFIG_MAPS, "default", config_map(name))
        async with session.get(MAPS, params={"watch": "true", "resourceVersion": "30"}) as answer:
            body = await answer.json()
    assert (answer.status, body["object"]["code"], body["object"]["reason"]) == (200, 410, "Expired")


async def test_who_does_not_read_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "READER_PATIENCE_S", 0.2)
    changes = 60
    async with served_cluster(tmp_path) as served:
        served.service.create(CONFIG_MAPS, "default", config_map("one", 500_000))
        tls = ssl.create_default_context(cafile=str(served.authority))
        reader, writer = await asyncio.open_connection("127.0.0.1", int(served.url.rpartition(":")[2]), ssl=tls)
        writer.write(
            f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
        )
        await reader.readuntil(b"ADDED")
        for number in range(changes):
            served.service.patch(CONFIG_MAPS, "default", "one", {"data": {"b": str(number)}})
        await asyncio.sleep(1)
        received = b""
        with suppress(ConnectionError):
            while chunk := await asyncio.wait_for(reader.read(1 << 20), 5):
                received += chunk
        assert received.count(b"MODIFIED") < changes
        writer.close()


async def test_open_watches_do_not_hold_the_server_up(tmp_path: Path) -> None:
    async with connected(tmp_path) as (session, _):
        answer = await session.get(MAPS, params={"watch": "true"})
        start = asyncio.get_running_loop().time()
    answer.close()
    assert asyncio.get_running_loop().time() - start < 1.5


async def test_schemas_are_found_by_their_digest_and_name_all_they_refer_to(tmp_path: Path) -> None:
    async with connected(tmp_path) as (session, _):
        async with session.get("/openapi/v3") as answer:
            index = (await answer.json())["paths"]
        async with session.get(index["apis/batch/v1"]["serverRelativeURL"]) as answer:
            document = await answer.json()
            etag = answer.headers["ETag"]
        async with session.get("/openapi/v3/apis/batch/v1", headers={"If-None-Match": etag}) as answer:
            assert answer.status == 304
        schemas = document["components"]["schemas"]
        known = {f'"#/components/schemas/{name}"' for name in schemas}
        mentioned = {part.split("}")[0].split(",")[0].strip() for part in json.dumps(document).split('"$ref":')[1:]}
        assert mentioned <= known
        job = schemas["io.k8s.api.batch.v1.Job"]
        assert job["properties"]["spec"] == {"$ref": "#/components/schemas/io.k8s.api.batch.v1.JobSpec"}
        assert "patch" in document["paths"]["/apis/batch/v1/namespaces/{namespace}/jobs/{name}"]


async def test_a_definition_shows_in_discovery_and_schemas_at_once(tmp_path: Path) -> None:
    async with connected(tmp_path) as (session, _):
        async with session.get("/openapi/v2") as answer:
            assert "io.x-k8s.jobset.v1alpha2.JobSet" not in (await answer.json())["definitions"]
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        async with session.post(path, json=custom_resource_definition()) as answer:
            assert answer.status == 201
        async with session.get("/apis/jobset.x-k8s.io/v1alpha2") as answer:
            assert [one["name"] for one in (await answer.json())["resources"]] == ["jobsets", "jobsets/status"]
        async with session.get("/openapi/v2") as answer:
            assert "io.x-k8s.jobset.v1alpha2.JobSet" in (await answer.json())["definitions"]


async def test_old_clients_get_schemas_in_protobuf(tmp_path: Path) -> None:
    async with connected(tmp_path) as (session, _):
        async with session.get("/openapi/v2", headers={"Accept": SWAGGER_PROTOBUF}) as answer:
            body = await answer.read()
    assert body.startswith(b"\x0a\x032.0")
    assert all(name.encode() in body for name in definitions() if name.startswith("io.k8s.api.batch"))
