"""The recorded conversations against the embedded cluster, in process: what replay.py sends goes to the front door's
own answers, past the HTTP library, the connections and the pods' streams. test_https.py has those.

`start_cluster(controllers=[...])` runs the API service and controllers on an event loop in a thread, in real time. The
cases run in other threads, many at once, because most of what they do is wait.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import UTC, datetime
from email.message import Message
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

import pytest

from conformance import replay
from jobset.api.errors import ApiError
from jobset.api.resources import SERVICE_ACCOUNTS
from jobset.cluster.apiserver.http.answers import NO_SUCH_PAGE, Answers
from jobset.cluster.apiserver.http.authentication import Authentication
from jobset.cluster.apiserver.http.authorization import Authorization, create_default_roles
from jobset.cluster.apiserver.http.certificates import new_signing_key
from jobset.cluster.apiserver.http.errors import NoSuchPage
from jobset.cluster.apiserver.http.paths import parse_query, request_info
from jobset.cluster.apiserver.http.requests import Answer, Request
from jobset.cluster.apiserver.http.tokens import Signer, Tokens
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.client import InProcessClient
from jobset.cluster.store.memory import MemoryStore
from jobset.reconcile.informer import SharedInformers

T = TypeVar("T")
CASES = Path(__file__).parent / "cases"
TOKEN = "the-administrator"


class Runs(Protocol):
    """A controller of the embedded cluster."""

    async def run(self) -> None: ...


ControllerFactory = Callable[[InProcessClient, SharedInformers, Callable[[], datetime]], Runs]


def now() -> datetime:
    return datetime.now(UTC)


class Cluster:
    """An API service with controllers on its own event loop; safe to call from any thread."""

    def __init__(self, controllers: Sequence[ControllerFactory]) -> None:
        self._controllers = controllers
        self._ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._main, daemon=True, name="embedded cluster")

    def start(self) -> None:
        self._thread.start()
        self._ready.result(10)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        self.service.store.verify()  # type: ignore[attr-defined]

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def _main(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self.service = ApiService(MemoryStore(paranoid=True), now=now)
        create_default_roles(self.service)
        tokens = Tokens(Signer(new_signing_key()), self.service.store, now)
        self.service.add_subresource(SERVICE_ACCOUNTS, "token", tokens.request)
        authentication = Authentication(tokens, TOKEN)
        self.answers = Answers(self.service, authentication, Authorization(self.service.store), now)
        client = InProcessClient(self.service)
        informers = SharedInformers(client)
        running = [factory(client, informers, now) for factory in self._controllers]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(informers.run()), *(group.create_task(one.run()) for one in running)]
            await informers.wait_synced()
            self._ready.set_result(None)
            await self._stop.wait()
            for task in tasks:
                task.cancel()


@contextmanager
def start_cluster(controllers: Sequence[ControllerFactory] = ()) -> Iterator[Cluster]:
    cluster = Cluster(controllers)
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()


def request_of(
    method: str, url: str, headers: dict[str, str] | None, body: bytes | None, auth: Any
) -> tuple[Request, dict[str, str]]:
    """The request that replay.Client would send, and its headers."""
    tokens = {"none": "", "bad": "Bearer not-a-token"}
    token = f"Bearer {auth['token']}" if isinstance(auth, dict) else tokens.get(auth, f"Bearer {TOKEN}")
    head = {"User-Agent": replay.AGENT, "Accept": "application/json", "Host": "localhost", "Authorization": token}
    head |= headers or {}
    parts = urlsplit(url)
    query = parse_query(parts.query)
    info = request_info(method, unquote(parts.path), query)
    accept, content_type, agent = head["Accept"], head.get("Content-Type", ""), head["User-Agent"]
    return Request(method, info, query, accept, content_type, agent, body=body or b""), head


class InProcess:
    """Takes the place of replay.Client."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def call(
        self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes | None = None, auth: Any = None
    ) -> tuple[int, Message, bytes]:
        request, sent = request_of(method, path, headers, body, auth)

        async def answer() -> Answer:
            answers = self.cluster.answers
            try:
                answers.admit(request, sent, None)
            except ApiError as error:
                return answers.refusal(request, error)
            return answers.answer(request)

        got = self.cluster.do(answer())
        head = Message()
        head["Content-Type"] = got.content_type
        for name, value in got.headers:
            head[name] = value
        return got.status, head, got.body


class Stream:
    """Takes the place of replay.Watch: the same attributes, fed from the cluster's loop."""

    def __init__(self, client: InProcess, path: str, headers: dict[str, str] | None, auth: Any) -> None:
        self._cluster = client.cluster
        self._request, _ = request_of("GET", path, headers, None, auth)
        self.events: list[Any] = []
        self.done = False
        self.status: int | None = None
        self.ctype = "application/json"
        self.error: Any = None
        self.started = threading.Event()

    def start(self) -> None:
        self._future = asyncio.run_coroutine_threadsafe(self._follow(), self._cluster.loop)

    def stop(self) -> None:
        self._future.cancel()

    def join(self, _timeout: float) -> None:
        pass

    async def _follow(self) -> None:
        answers = self._cluster.answers
        try:
            watch = answers.open_watch(self._request)
            self.status = 200
            self.started.set()
            await watch.relay(self._take)
        except NoSuchPage:
            self.status, self.error = NO_SUCH_PAGE.status, NO_SUCH_PAGE.body.decode()
        except ApiError as error:
            refused = answers.refusal(self._request, error)
            self.status, self.error = refused.status, json.loads(refused.body)
        finally:
            self.done = True
            self.started.set()

    async def _take(self, chunk: bytes) -> None:
        self.events.extend(json.loads(line) for line in chunk.splitlines())


replay.Watch = Stream  # type: ignore[misc,assignment]


def cases(area: str, later: dict[str, str] | None = None) -> list[Any]:
    """The cases of an area as pytest parameters; those in `later` (name to reason) are skipped with their reason."""
    later = dict(later or {})
    params = []
    for case in replay.load([str(CASES / f"{area}.jsonl")]):
        marks = [pytest.mark.xdist_group("conformance"), pytest.mark.timeout(180)]
        if reason := later.pop(case["name"], ""):
            marks.append(pytest.mark.skip(reason=reason))
        params.append(pytest.param(case, id=case["name"], marks=marks))
    assert not later, f"no such cases: {sorted(later)}"
    return params
