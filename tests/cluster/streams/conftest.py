"""Tests with the real kubectl run once over WebSocket and once over SPDY; where there is no kubectl they say so."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from streams_rig import KUBECTL

from jobset.cluster.runtime.process.node.isolation import try_out

WEBSOCKET: Mapping[str, str] = {}
SPDY: Mapping[str, str] = {
    "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false",
    "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false",
}


@pytest.fixture
def kubectl() -> None:
    if shutil.which(KUBECTL) is None:
        pytest.skip(f"{KUBECTL} is not installed")


@pytest.fixture(params=[WEBSOCKET, SPDY], ids=["websocket", "spdy"])
def protocol(request: pytest.FixtureRequest, kubectl: None) -> Mapping[str, str]:
    """The environment that makes kubectl speak it."""
    return request.param


@pytest.fixture
def place() -> Path:
    """A directory with a short path."""
    with tempfile.TemporaryDirectory(prefix="jobset-test-") as directory:
        os.chmod(directory, 0o755)
        yield Path(directory)


@pytest.fixture
def pod_network() -> None:
    with tempfile.TemporaryDirectory() as directory:
        isolation = try_out(directory)
    if not isolation.network:
        pytest.skip(f"no namespaces here for pod networks: {isolation.problem}")
