"""The embedded API in process: what the machinery of controllers is tried on."""

import pytest

from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.client import InProcessClient
from jobset.cluster.store.memory import MemoryStore
from jobset.sim.loop import wall_clock


@pytest.fixture
def client() -> InProcessClient:
    return InProcessClient(ApiService(MemoryStore(paranoid=True), now=wall_clock(), seed=1))
