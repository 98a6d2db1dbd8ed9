"""The synchronous client against a server that says what the test tells it to: pages, patience, watches, refusals."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from click.testing import CliRunner

from jobset.api.errors import Conflict, Forbidden, Gone, InternalError, NotFound, TooManyRequests, Unauthorized
from jobset.api.resources import JOBSETS, PODS
from jobset.cli.main import cli
from jobset.client import query as query_module
from jobset.client.credentials import Credentials
from jobset.client.kubeconfig import Login, Target
from jobset.client.query import QueryClient, Unreachable, WatchTimedOut

NOW = datetime(2026, 1, 1, tzinfo=UTC)
Answer = Callable[["Handler"], None]


class Server(ThreadingHTTPServer):
    """Answers requests one after the other with `script`; remembers what was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: list[Answer] = []
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.connections = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def client(self, login: Login | None = None, **options: Any) -> QueryClient:
        target = Target(self.url, "a test", login=login or Login())
        return QueryClient(target, Credentials(target.login, now=lambda: NOW), **options)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def setup(self) -> None:
        self.server.connections += 1
        super().setup()

    def handle_any(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.server.asked.append((self.command, parts.path, query))
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.script.pop(0)(self)

    do_GET = do_PATCH = do_DELETE = handle_any

    def log_message(self, *_: Any) -> None:
        pass

    def answer(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (("Content-Length", str(len(body))), ("Content-Type", "application/json"), *headers):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def says(body: Any, status: int = 200, *headers: tuple[str, str]) -> Answer:
    return lambda handler: handler.answer(status, json.dumps(body).encode(), *headers)


def refuses(code: int, reason: str, message: str = "no", *headers: tuple[str, str], **details: Any) -> Answer:
    body = {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}
    return says(body, code, *headers)


def page(*names: str, version: str = "5", more: str = "") -> Answer:
    items = [{"metadata": {"name": name}} for name in names]
    return says({"items": items, "metadata": {"resourceVersion": version, "continue": more}})


def streams(*events: Any, cut: bool = False) -> Answer:
    """A watch, which the server ends, or which breaks off."""

    def write(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for event in events:
            line = json.dumps(event).encode() + b"\n"
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        if cut:
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
        else:
            handler.wfile.write(b"0\r\n\r\n")

    return write


def event(type_: str, name: str, version: str) -> Any:
    return {"type": type_, "object": {"metadata": {"name": name, "resourceVersion": version}}}


@pytest.fixture
def server() -> Iterator[Server]:
    served = Server()
    thread = threading.Thread(target=served.serve_forever, args=(0.01,))
    thread.start()
    yield served
    served.shutdown()
    thread.join()
    served.server_close()
    assert served.script == [], "everything that was prepared was asked for"


def test_pages_are_put_together_on_one_connection(server: Server) -> None:
    server.script = [page("a", "b", more="next"), page("c")]
    found = server.client().list(JOBSETS, "ns", "x=y", "metadata.name=z")
    assert [item["metadata"]["name"] for item in found.items] == ["a", "b", "c"]
    assert found.items[0]["kind"] == "JobSet"
    assert found.resource_version == "5"
    path = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/ns/jobsets"
    chosen = {"labelSelector": "x=y", "fieldSelector": "metadata.name=z", "limit": "500"}
    assert server.asked == [("GET", path, chosen), ("GET", path, {**chosen, "continue": "next"})]
    assert server.connections == 1


def test_pages_that_the_server_forgot_are_asked_for_at_once(server: Server) -> None:
    server.script = [page("a", more="next"), refuses(410, "Expired"), page("a", "b")]
    assert len(server.client().list(PODS).items) == 2
    assert "limit" not in server.asked[-1][2]
    server.script = [refuses(410, "Expired")]
    with pytest.raises(Gone):
        server.client().list(PODS)


def test_compressed_answers_and_warnings(server: Server) -> None:
    def compressed(handler: Handler) -> None:
        assert handler.headers["Accept-Encoding"] == "gzip"
        body = gzip.compress(b'{"a": 1}')
        handler.answer(200, body, ("Content-Encoding", "gzip"), ("Warning", '299 - "say \\"please\\""'))

    warnings: list[str] = []
    server.script = [compressed]
    assert server.client(on_warning=warnings.append).get(PODS, "ns", "p") == {"a": 1}
    assert warnings == ['say "please"']


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (refuses(404, "NotFound", "gone", name="x"), NotFound, "gone"),
        (refuses(403, "Forbidden", "not you"), Forbidden, "not you"),
        (refuses(409, "Conflict", "changed"), Conflict, "changed"),
        (lambda handler: handler.answer(404, b"404 page not found\n"), NotFound, "404 page not found"),
        (lambda handler: handler.answer(502, b"<html>oh</html>"), InternalError, "502 Bad Gateway"),
        (says([1]), InternalError, "does not answer as a Kubernetes API server does"),
        (lambda handler: handler.answer(200, b"hello"), InternalError, "does not answer as"),
    ],
)
def test_refusals(server: Server, answer: Answer, error: type[Exception], message: str) -> None:
    server.script = [answer]
    with pytest.raises(error, match=message):
        server.client().get(PODS, "ns", "x")


def test_a_busy_server_is_asked_again_when_it_says_so(server: Server) -> None:
    busy = refuses(429, "TooManyRequests", "busy", ("Retry-After", "0"))
    server.script = [busy, busy, says({"a": 1})]
    assert server.client().get(PODS, "ns", "p") == {"a": 1}
    server.script = [refuses(429, "TooManyRequests", "busy")]
    with pytest.raises(TooManyRequests):
        server.client().get(PODS, "ns", "p")


def test_renewed_credentials_are_shown_once(server: Server, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    shown: list[str] = []

    def refuse(handler: Handler) -> None:
        shown.append(handler.headers["Authorization"])
        token.write_text("new")
        refuses(401, "Unauthorized")(handler)

    def accept(handler: Handler) -> None:
        shown.append(handler.headers["Authorization"])
        says({"a": 1})(handler)

    server.script = [refuse, accept]
    client = server.client(Login(token_file=token))
    assert client.get(PODS, "ns", "p") == {"a": 1}
    assert shown == ["Bearer old", "Bearer new"]
    server.script = [refuse, refuse]
    with pytest.raises(Unauthorized):
        client.get(PODS, "ns", "p")


def test_writing(server: Server) -> None:
    bodies: list[Any] = []

    def remember(handler: Handler) -> None:
        bodies.append((handler.headers["Content-Type"], json.loads(handler.body)))
        says({})(handler)

    server.script = [remember, remember]
    client = server.client()
    client.patch(JOBSETS, "ns", "x", {"a": 1}, "apply", subresource="status", force=True, dry_run=True)
    client.delete(JOBSETS, "ns", "x", uid="u", propagation="Orphan", dry_run=False)
    assert server.asked[0][2] == {"fieldManager": "jobset", "force": "true", "dryRun": "All"}
    assert server.asked[0][1].endswith("/namespaces/ns/jobsets/x/status")
    assert bodies[0] == ("application/apply-patch+yaml", {"a": 1})
    assert bodies[1][1]["propagationPolicy"] == "Orphan"
    assert bodies[1][1]["preconditions"] == {"uid": "u"}


def test_watch_goes_on_where_it_was_cut(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_module, "RECONNECT_PAUSE_S", 0)
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}
    server.script = [
        page("a"),
        streams(event("ADDED", "b", "7"), cut=True),
        streams(bookmark),
        streams({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}),
        page("c", version="20"),
        streams(event("DELETED", "c", "21")),
        refuses(403, "Forbidden"),
    ]
    seen: list[tuple[str, list[str]]] = []
    with pytest.raises(Forbidden):
        seen.extend(
            (change.type, [obj["metadata"]["name"] for obj in change.objects])
            for change in server.client().watch(JOBSETS, "ns")
        )
    assert seen == [("LISTED", ["a"]), ("ADDED", ["b"]), ("LISTED", ["c"]), ("DELETED", ["c"])]
    versions = [query.get("resourceVersion") for _, _, query in server.asked]
    assert versions == [None, "5", "7", "9", None, "20", "21"]


def test_watch_ends_at_its_deadline(server: Server) -> None:
    ended = threading.Event()

    def silence(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        ended.wait(10)

    server.script = [page(), silence]
    with pytest.raises(WatchTimedOut):
        list(server.client().watch(JOBSETS, "ns", timeout_s=0.1))
    ended.set()


def test_nobody_there(server: Server) -> None:
    url = server.url
    target = Target("http://127.0.0.1:1", "a test")
    with pytest.raises(Unreachable, match=r"cannot reach http://127\.0\.0\.1:1: connection refused"):
        QueryClient(target, Credentials(target.login, now=lambda: NOW)).get(PODS, "ns", "p")
    secure = Target(url.replace("http:", "https:"), "a test")
    with pytest.raises(Unreachable, match="TLS failed"):
        QueryClient(secure, Credentials(secure.login, now=lambda: NOW)).get(PODS, "ns", "p")


def test_a_cluster_that_knows_no_jobsets(server: Server, tmp_path: Path) -> None:
    """As the commands tell it: a 404 that names nothing is about the kind, not about an object."""
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        f"current-context: c\ncontexts: [{{name: c, context: {{cluster: k}}}}]\n"
        f"clusters: [{{name: k, cluster: {{server: '{server.url}'}}}}]\n"
    )
    server.script = [lambda handler: handler.answer(404, b"404 page not found\n")]
    result = CliRunner().invoke(cli, ["get", "--kubeconfig", str(kubeconfig)])
    assert result.exit_code == 1
    assert result.stderr == "error: this cluster does not know JobSets (context c): install JobSet on it first\n"


def test_no_kubeconfig_at_all(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["get"], env={"HOME": str(tmp_path), "KUBECONFIG": ""})
    assert result.exit_code == 1
    assert "no cluster? jobset up starts one on this machine" in result.stderr
