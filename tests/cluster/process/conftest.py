"""Tests of real processes need Linux namespaces; where this machine has none they say so."""

from __future__ import annotations

import functools
import os
import tempfile
from pathlib import Path

import pytest

from jobset.cluster.runtime.process.node.isolation import Isolation, try_out


@functools.cache
def isolation() -> Isolation:
    with tempfile.TemporaryDirectory() as directory:
        return try_out(directory)


@pytest.fixture(params=["pod", "host"])
def network(request: pytest.FixtureRequest) -> str:
    if request.param == "pod" and not isolation().network:
        pytest.skip(f"no namespaces here for pod networks: {isolation().problem}")
    return str(request.param)


@pytest.fixture
def namespaces() -> None:
    if not (isolation().mounts and isolation().processes):
        pytest.skip(f"no namespaces here: {isolation().problem}")


@pytest.fixture
def no_namespaces() -> None:
    if isolation().mounts:
        pytest.skip("this machine has namespaces; test_process_unprivileged.py runs this without")


@pytest.fixture
def place() -> Path:
    """A directory with a short path that everybody may look into."""
    with tempfile.TemporaryDirectory(prefix="jobset-test-") as directory:
        os.chmod(directory, 0o755)
        yield Path(directory)
