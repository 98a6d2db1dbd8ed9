"""Recorded cases over HTTPS, by replay.py itself: the areas where connections, headers and streams matter.

The other areas go through the same answers in process, where they wait less.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from cluster.http.serving import CONTROLLERS, TOKEN, now, served_cluster
from conformance import adapter, replay
from jobset.cluster.apiserver.http.streams.port import PodStreams
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.kubelet.streams import KubeletStreams
from jobset.cluster.runtime.scripted import ScriptedRuntime

AREAS = ("discovery", "table", "list", "watch", "subresource", "auth", "dryrun")
WORKERS = 32


@pytest.mark.real_loop
@pytest.mark.timeout(120)
async def test_recorded_over_https(tmp_path: Path) -> None:
    def streams(_: ApiService) -> PodStreams:
        return KubeletStreams(ScriptedRuntime(now), tmp_path, lambda _namespace, _name: None)

    files = [str(adapter.CASES / f"{area}.jsonl") for area in AREAS]
    async with served_cluster(tmp_path, controllers=CONTROLLERS, prepare=streams) as served:
        options = ["--server", served.url, "--ca", str(served.authority), "--token", TOKEN, "--workers", str(WORKERS)]
        process = await asyncio.create_subprocess_exec(
            sys.executable, replay.__file__, *options, *files, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
    assert output.decode().splitlines() == [f"{len(replay.load(files))} passed, 0 failed"]
