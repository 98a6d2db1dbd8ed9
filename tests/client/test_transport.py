"""How requests travel: credentials, patience where the server asks for it, and words when it cannot be reached."""

import asyncio
import logging
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web
from tests.client.servers import answering, client_of, now, server_tls, status, target

from jobset.api.errors import (
    ApiError,
    BadRequest,
    Conflict,
    InternalError,
    Timeout,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from jobset.api.resources import CONFIG_MAPS, NODES
from jobset.client.http import transport
from jobset.client.http.adapter import HttpClient
from jobset.client.kubeconfig import Login, Pem, Plugin
from jobset.cluster.apiserver.http.certificates import new_authority, new_client_certificate, new_server_certificate

pytestmark = pytest.mark.real_loop

NODE = {"metadata": {"name": "n"}}


def in_turn(*answers: Callable[[web.Request], web.StreamResponse]) -> Callable[..., Awaitable[web.StreamResponse]]:
    """A handler that gives these answers one after the other."""
    left = list(answers)

    async def handle(request: web.Request) -> web.StreamResponse:
        return left.pop(0)(request)

    return handle


async def raised(client: HttpClient) -> ApiError:
    with pytest.raises(ApiError) as found:
        await client.get(NODES, "", "n", dict)
    return found.value


async def test_a_request_says_who_asks_and_connections_are_kept() -> None:
    peers, headers = set(), []

    async def handle(request: web.Request) -> web.Response:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        headers.append(request.headers)
        return web.json_response(NODE)

    login = Login(token="secret", impersonation=(("Impersonate-Group", "a"), ("Impersonate-Group", "b")))
    async with client_of(handle, login) as client:
        for _ in range(3):
            assert await client.get(NODES, "", "n", dict) == NODE
    assert len(peers) == 1
    assert headers[0]["Authorization"] == "Bearer secret"
    assert headers[0].getall("Impersonate-Group") == ["a", "b"]
    assert headers[0]["User-Agent"].startswith("jobset/")


@pytest.mark.parametrize("code", [429, 503])
async def test_a_server_that_says_when_to_come_back_is_heeded(code: int) -> None:
    busy = status(code, "TooManyRequests" if code == 429 else "ServiceUnavailable")
    busy.headers["Retry-After"] = "1"
    loop = asyncio.get_running_loop()
    start = loop.time()
    async with client_of(in_turn(lambda _: busy, lambda _: web.json_response(NODE))) as client:
        assert await client.get(NODES, "", "n", dict) == NODE
    assert loop.time() - start >= 1


async def test_nobody_waits_too_long_or_where_nothing_was_promised() -> None:
    busy = status(429, "TooManyRequests", "later")
    busy.headers["Retry-After"] = "120"
    answers = in_turn(lambda _: busy, lambda _: status(503, "ServiceUnavailable", retryAfterSeconds=1))
    async with client_of(answers) as client:
        error = await raised(client)
        assert (type(error), error.retry_after_s, error.message) == (TooManyRequests, 120, "later")
        assert type(await raised(client)) is Unavailable


async def test_errors_keep_reason_and_details() -> None:
    async with client_of(in_turn(lambda _: status(409, "Conflict", "no", name="n", kind="nodes"))) as client:
        error = await raised(client)
    assert (type(error), error.message, error.name, error.kind) == (Conflict, "no", "n", "nodes")


async def test_what_is_no_status_is_told_as_far_as_it_can_be_read() -> None:
    plain = "Client sent an HTTP request to an HTTPS server.\n"
    async with client_of(
        in_turn(
            lambda _: web.Response(status=400, text=plain),
            lambda _: web.Response(status=502, text="<html>...</html>", content_type="text/html"),
            lambda _: web.Response(status=302, headers={"Location": "http://elsewhere/login"}),
            lambda _: web.Response(text="<html>log in</html>"),
        )
    ) as client:
        assert (type(error := await raised(client)), error.message) == (BadRequest, plain.strip())
        assert (type(error := await raised(client)), error.message) == (InternalError, "502 Bad Gateway")
        assert (await raised(client)).message == "302 Found"
        assert "does not answer as a Kubernetes API server does" in (await raised(client)).message


async def test_refused_credentials_are_renewed_once(tmp_path: Path) -> None:
    seen: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        return web.json_response(NODE) if seen[-1] == "Bearer 2" else status(401, "Unauthorized", "Unauthorized")

    program = tmp_path / "login"
    program.write_text(
        f"#!{sys.executable}\nimport json\nfrom pathlib import Path\n"
        f"count = Path({str(tmp_path / 'count')!r})\nwith count.open('a') as file: file.write('x')\n"
        "status = {'token': str(len(count.read_text()))}\n"
        "print(json.dumps({'kind': 'ExecCredential', 'apiVersion': 'client.authentication.k8s.io/v1',"
        " 'status': status}))\n"
    )
    program.chmod(0o700)
    login = Login(plugin=Plugin("client.authentication.k8s.io/v1", str(program), interactive="Never"))
    async with client_of(handle, login) as client:
        assert await client.get(NODES, "", "n", dict) == NODE
        await asyncio.gather(*(client.get(NODES, "", "n", dict) for _ in range(5)))
    assert seen == ["Bearer 1"] + ["Bearer 2"] * 6
    async with client_of(handle, Login(token="fixed")) as client:
        assert type(await raised(client)) is Unauthorized
    assert seen.count("Bearer fixed") == 1


async def test_who_cannot_be_reached_is_named() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    async with HttpClient(target(address), now=now) as client:
        error = await raised(client)
        assert (type(error), error.message) == (Unavailable, f"cannot reach {address}: connection refused")
        with pytest.raises(Unavailable, match="connection refused"):
            async with client.watch(NODES, dict, resource_version="1"):
                pass
    async with HttpClient(target("https://absent.invalid:6443"), now=now) as client:
        message = (await raised(client)).message
        assert message == "cannot reach https://absent.invalid:6443: the host name absent.invalid is not known"


async def test_a_connection_that_breaks_in_the_middle_and_an_answer_that_never_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            await asyncio.Event().wait()
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    monkeypatch.setattr(transport, "REQUEST_TIMEOUT_S", 0.2)
    async with client_of(handle) as client:
        with pytest.raises(Unavailable, match="the connection was closed in the middle of a request"):
            await client.create(NODES, NODE)
        error = await raised(client)
        assert type(error) is Timeout
        assert "gave no answer in" in error.message


async def test_requests_go_through_the_proxy() -> None:
    async def handle(request: web.Request) -> web.Response:
        return web.json_response({**NODE, "seen": request.headers["Host"]})

    async with answering(handle) as proxy, HttpClient(target("http://api.invalid", proxy=proxy), now=now) as client:
        assert (await client.get(NODES, "", "n", dict))["seen"] == "api.invalid"


async def test_certificates_are_checked_and_ours_is_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority, other = new_authority(now()), new_authority(now())
    server = new_server_certificate(authority, ["api.example.com"], now())
    user = new_client_certificate(authority, "me", ["us"], now())
    shown = Login(certificate=Pem(user.certificate.encode()), key=Pem(user.key.encode()))
    ours = Pem(authority.certificate.encode())

    async def handle(request: web.Request) -> web.Response:
        assert request.transport is not None
        return web.json_response({**NODE, "seen": request.transport.get_extra_info("peercert")["subject"]})

    async def ask(login: Login, **options: object) -> object:
        async with HttpClient(target(address, login, **options), now=now) as client:
            return (await client.get(NODES, "", "n", dict))["seen"]

    async with answering(handle, server_tls(tmp_path, server, authority)) as address:
        named = {"server_name": "api.example.com"}
        expected = [[["organizationName", "us"]], [["commonName", "me"]]]
        assert await ask(shown, authority=ours, **named) == expected
        with pytest.raises(Unavailable, match=r"cannot reach https://127\.0\.0\.1.*certificate is not trusted"):
            await ask(shown, authority=Pem(other.certificate.encode()), **named)
        with pytest.raises(Unavailable, match=r"certificate is not trusted.*mismatch"):
            await ask(shown, authority=ours)
        with pytest.raises(Unavailable, match="certificate is not trusted"):
            await ask(shown)
        with pytest.raises(Unavailable):
            await ask(Login(), authority=ours, **named)
        with caplog.at_level(logging.WARNING):
            assert await ask(shown, insecure=True) == expected
        assert "is not checked" in caplog.text
        encrypted = Login(certificate=shown.certificate, key=Pem(b"nonsense"))
        with pytest.raises(Unauthorized, match="client certificate and key cannot be used"):
            await ask(encrypted, authority=ours)


async def test_a_client_is_used_inside_its_context_only() -> None:
    client = HttpClient(target("http://127.0.0.1:1"), now=now)
    with pytest.raises(RuntimeError, match="before"):
        await client.list(CONFIG_MAPS, dict)
