"""The recorded conversations against the embedded cluster, in process: what replay.py sends over HTTP goes to a Router.

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

import msgspec
import pytest

from conformance import replay
from conformance.router import Request, Router
from jobset.api.errors import ApiError
from jobset.api.meta import Object
from jobset.client.port import WatchEvent
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.client import InProcessClient
from jobset.cluster.store.memory import MemoryStore
from jobset.reconcile.informer import SharedInformers

T = TypeVar("T")
CASES = Path(__file__).parent / "cases"


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
        self.router = Router(self.service)
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


class InProcess:
    """Takes the place of replay.Client."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def call(
        self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes | None = None, auth: Any = None
    ) -> tuple[int, Message, bytes]:
        async def answer() -> tuple[int, Message, bytes]:
            got = self.cluster.router.handle(Request.of(method, path, headers, body))
            head = Message()
            head["Content-Type"] = "application/json"
            for warning in got.warnings:
                head["Warning"] = f"299 - {json.dumps(warning)}"
            text = got.body.encode() if isinstance(got.body, str) else msgspec.json.encode(got.body)
            return got.status, head, text

        return self.cluster.do(answer())


class Stream:
    """Takes the place of replay.Watch: the same attributes, fed from the cluster's loop."""

    def __init__(self, client: InProcess, path: str, headers: dict[str, str] | None, auth: Any) -> None:
        self._cluster = client.cluster
        self._request = Request.of("GET", path, headers, None)
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
        router, service = self._cluster.router, self._cluster.service
        timeout_s = float(self._request.query.get("timeoutSeconds", 120))
        try:
            target = router.target(self._request.path)
            options = router.watch_options(self._request, target)
            watching = service.watch(target.resource, target.namespace, options)
            self.status = 200
            async with asyncio.timeout(timeout_s), watching as batches:
                self.started.set()
                async for batch in batches:
                    self.events.extend(_event(event) for event in batch)
        except ApiError as error:
            if self.status is None:
                self.status, self.error = error.code, error.to_status()
            else:
                self.events.append({"type": "ERROR", "object": error.to_status()})
        except TimeoutError:
            pass
        finally:
            self.done = True
            self.started.set()


def _event(event: WatchEvent[Object]) -> Any:
    return json.loads(msgspec.json.encode({"type": event.type, "object": event.object}))


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


def all_later(area: str, why: str) -> list[Any]:
    """Every case of an area, skipped with one reason."""
    names = [case["name"] for case in replay.load([str(CASES / f"{area}.jsonl")])]
    return cases(area, dict.fromkeys(names, why))
