"""One embedded cluster for all recorded cases; all cases of the session start at once, each test waits for its own."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from conformance import adapter, replay
from jobset.cluster.controllers.garbage import GarbageCollector
from jobset.cluster.controllers.job import JobController
from jobset.cluster.controllers.namespaces import NamespaceController
from jobset.cluster.controllers.scheduler import Scheduler
from jobset.cluster.controllers.ttl import TTLController

CONTROLLERS: list[adapter.ControllerFactory] = [
    JobController,
    Scheduler,
    TTLController,
    GarbageCollector,
    NamespaceController,
]
"""Everything the cases need besides the API service."""
WORKERS = 48


class Replayed:
    """The outcomes of the session's cases by name."""

    def __init__(self) -> None:
        self._outcomes: dict[str, Future[tuple[bool, list[str]]]] = {}

    def start(self, pool: ThreadPoolExecutor, client: adapter.InProcess, case: dict) -> None:
        self._outcomes[case["name"]] = pool.submit(replay.run_case, client, case, True)

    def check(self, case: dict) -> None:
        passed, lines = self._outcomes[case["name"]].result()
        assert passed, "\n".join(lines)


@pytest.fixture(scope="session")
def replayed(request: pytest.FixtureRequest) -> Iterator[Replayed]:
    outcomes = Replayed()
    with adapter.start_cluster(CONTROLLERS) as cluster, ThreadPoolExecutor(WORKERS) as pool:
        for item in request.session.items:
            if "replayed" in getattr(item, "fixturenames", ()) and item.get_closest_marker("skip") is None:
                outcomes.start(pool, adapter.InProcess(cluster), item.callspec.params["case"])
        yield outcomes
        pool.shutdown(cancel_futures=True)
