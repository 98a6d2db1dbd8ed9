"""A whole local cluster with real processes is killed and started again: pods, and what controllers make of them."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from killable_server import create_manifests, server
from process_rig import LIMIT_S, processes_with, wait_none

from jobset.api.errors import NotFound
from jobset.api.meta import Object
from jobset.api.resources import JOBSETS, PODS
from jobset.cluster.runtime.process.surviving import end_pods
from jobset.local.cluster import LocalCluster

pytestmark = [
    pytest.mark.real_loop,
    pytest.mark.timeout(120),
    pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's"),
]


class Stage:
    """One cluster's directory. Containers write a line to `said` for everything that matters."""

    def __init__(self, directory: Path, network: str) -> None:
        self.directory = directory
        self.network = network
        self.said = directory / "said"
        self.go = directory / "go"
        self.marker = f"JOBSET_TEST_{os.getpid()}_{directory.name}"
        (directory / "manifests").mkdir()

    def container(self, script: str, **fields: Any) -> Object:
        text = f"say() {{ echo $HOSTNAME $* >> {self.said}; }}; go() {{ test -e {self.go}; }}; {script}"
        env = [{"name": self.marker, "value": "1"}]
        return {"name": "main", "image": "none", "command": ["sh", "-c", text], "env": env, **fields}

    def pod(self, script: str, **spec: Any) -> None:
        spec = {"containers": [self.container(script)], "restartPolicy": "Never", **spec}
        self._add({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": spec})

    def jobset(self, script: str, workers: int = 2, **spec: Any) -> None:
        def replicated(name: str, count: int) -> Object:
            pod = {"spec": {"restartPolicy": "Never", "containers": [self.container(script)]}}
            job = {"parallelism": count, "completions": count, "backoffLimit": 0, "template": pod}
            return {"name": name, "replicas": 1, "template": {"spec": job}}

        spec = {"replicatedJobs": [replicated("driver", 1), replicated("workers", workers)], **spec}
        metadata = {"name": "js", "namespace": "default"}
        self._add({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec})

    def _add(self, manifest: Object) -> None:
        (self.directory / "manifests" / f"{manifest['kind']}.json").write_text(json.dumps(manifest))

    def lines(self, *words: str) -> list[str]:
        """Who said this, once for each time."""
        if not self.said.exists():
            return []
        split = [line.split() for line in self.said.read_text().splitlines()]
        return sorted(line[0] for line in split if tuple(line[1:]) == words)

    async def wait(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not condition():
                await asyncio.sleep(0.005)

    @asynccontextmanager
    async def killed_server(self) -> AsyncIterator[None]:
        """A server in a process of its own, with all objects created; it is killed in the end."""
        words = [str(Path(__file__).with_name("killable_server.py")), str(self.directory), self.network]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        process = await asyncio.create_subprocess_exec(sys.executable, *words, env=env, stdout=asyncio.subprocess.PIPE)
        try:
            assert await asyncio.wait_for(process.stdout.readline(), LIMIT_S) == b"there\n"
            yield
        finally:
            process.kill()
            await process.wait()

    @asynccontextmanager
    async def server(self) -> AsyncIterator[LocalCluster]:
        """One in this process, that lets go of its pods in the end."""
        async with server(self.directory, self.network) as cluster:
            yield cluster

    async def completed(self, cluster: LocalCluster) -> Object:
        async with asyncio.timeout(LIMIT_S):
            while True:
                jobset = await cluster.client.get(JOBSETS, "default", "js", dict)
                state = (jobset.get("status") or {}).get("terminalState")
                if state:
                    assert state == "Completed", jobset["status"]
                    return jobset
                await asyncio.sleep(0.01)

    async def all_run(self, cluster: LocalCluster, count: int) -> None:
        async with asyncio.timeout(LIMIT_S):
            while True:
                pods = (await cluster.client.list(PODS, dict)).items
                if [(pod.get("status") or {}).get("phase") for pod in pods] == ["Running"] * count:
                    return
                await asyncio.sleep(0.01)

    async def pod_in(self, cluster: LocalCluster, *phases: str) -> Object:
        async with asyncio.timeout(LIMIT_S):
            while True:
                pod = await cluster.client.get(PODS, "default", "p", dict)
                if pod["status"]["phase"] in phases:
                    return pod
                await asyncio.sleep(0.01)


@pytest.fixture
def stage(place: Path) -> Stage:
    return Stage(place, "host")


@pytest.fixture
def stage_in_both_networks(place: Path, network: str) -> Stage:
    return Stage(place, network)


@asynccontextmanager
async def nothing_left(stage: Stage) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await end_pods(stage.directory / "root")
        await wait_none(stage.marker)


async def test_a_jobset_goes_on_and_completes(stage_in_both_networks: Stage) -> None:
    stage = stage_in_both_networks
    stage.jobset("say began; until go; do sleep 0.02; done; say done")
    async with nothing_left(stage):
        async with stage.killed_server():
            await stage.wait(lambda: len(stage.lines("began")) == 3)
        before = processes_with(stage.marker)
        async with stage.server() as cluster:
            await stage.all_run(cluster, 3)
            assert set(before) & set(processes_with(stage.marker)), "what ran runs"
            stage.go.touch()
            jobset = await stage.completed(cluster)
        assert jobset["status"].get("restarts", 0) == 0
        assert stage.lines("began") == stage.lines("done")
        assert len(stage.lines("began")) == 3, "nothing was started twice"


async def test_a_jobset_that_ended_while_nobody_looked_is_completed(stage: Stage) -> None:
    stage.jobset("say began; until go; do sleep 0.02; done; say done")
    async with nothing_left(stage):
        async with stage.killed_server():
            await stage.wait(lambda: len(stage.lines("began")) == 3)
        stage.go.touch()
        await wait_none(stage.marker)
        async with stage.server() as cluster:
            await stage.completed(cluster)
        assert len(stage.lines("began")) == len(stage.lines("done")) == 3


async def test_an_end_meanwhile_is_told_with_its_exit_code(stage: Stage) -> None:
    stage.pod("say began; until go; do sleep 0.02; done; exit 7")
    async with nothing_left(stage):
        async with stage.killed_server():
            await stage.wait(lambda: stage.lines("began"))
        stage.go.touch()
        await wait_none(stage.marker)
        async with stage.server() as cluster:
            pod = await stage.pod_in(cluster, "Failed")
        (status,) = pod["status"]["containerStatuses"]
        assert (status["state"]["terminated"]["exitCode"], status["restartCount"]) == (7, 0)


async def test_restarts_are_counted_across_servers(stage: Stage) -> None:
    stage.pod("say began; until go; do sleep 0.02; done; rm $GO; exit 1", restartPolicy="Always")
    async with nothing_left(stage):
        manifest = stage.directory / "manifests" / "Pod.json"
        manifest.write_text(manifest.read_text().replace("$GO", str(stage.go)))
        for number in range(1, 3):
            async with stage.killed_server():
                await stage.wait(lambda number=number: len(stage.lines("began")) == number)
            stage.go.touch()
            await wait_none(stage.marker)
        async with stage.server() as cluster:
            await stage.wait(lambda: len(stage.lines("began")) == 3)
            async with asyncio.timeout(LIMIT_S):
                while True:
                    pod = await stage.pod_in(cluster, "Running")
                    (status,) = pod["status"]["containerStatuses"]
                    if "running" in status["state"] and status["restartCount"] == 2:
                        break
                    await asyncio.sleep(0.01)
        assert sorted(path.name for path in stage.directory.glob("root/pods/*/logs/main/*.log")) == [
            "0.log",
            "1.log",
            "2.log",
        ]


async def test_killed_while_it_starts_pods(stage: Stage) -> None:
    """Again and again, at moments that differ; in the end every pod was started once."""
    chance = random.Random(1)
    stage.jobset("say began; until go; do sleep 0.02; done", workers=4)
    async with nothing_left(stage):
        for _ in range(4):
            async with stage.killed_server():
                await asyncio.sleep(chance.uniform(0, 0.06))
        async with stage.server() as cluster:
            await stage.wait(lambda: len(stage.lines("began")) >= 5)
            stage.go.touch()
            await stage.completed(cluster)
        assert len(stage.lines("began")) == len(set(stage.lines("began"))) == 5


async def test_killed_while_it_ends_a_pod(stage_in_both_networks: Stage) -> None:
    stage = stage_in_both_networks
    trap = "trap 'say term; sleep 0.7; say over; exit 0' TERM; say began; while :; do sleep 0.02; done"
    stage.pod(trap, terminationGracePeriodSeconds=20)
    async with nothing_left(stage):
        async with stage.server() as cluster:
            await create_manifests(cluster, stage.directory)
            await stage.wait(lambda: stage.lines("began"))
            await cluster.client.delete(PODS, "default", "p")
            await stage.wait(lambda: stage.lines("term"))
        async with stage.server() as cluster:
            async with asyncio.timeout(LIMIT_S):
                with pytest.raises(NotFound):
                    while True:
                        await cluster.client.get(PODS, "default", "p", dict)
                        await asyncio.sleep(0.01)
        assert (len(stage.lines("term")), len(stage.lines("over"))) == (1, 1), "one signal, and its grace"


async def test_a_jobset_restarts_as_its_policy_says_across_servers(stage: Stage) -> None:
    """A worker fails while nobody looks: the next server restarts the JobSet, once."""
    script = "say began; until go; do sleep 0.02; done; test -e $AGAIN && exit 0; exit 1"
    stage.jobset(script.replace("$AGAIN", str(stage.directory / "again")), failurePolicy={"maxRestarts": 1})
    async with nothing_left(stage):
        async with stage.killed_server():
            await stage.wait(lambda: len(stage.lines("began")) == 3)
        stage.go.touch()
        await wait_none(stage.marker)
        (stage.directory / "again").touch()
        async with stage.server() as cluster:
            jobset = await stage.completed(cluster)
        assert jobset["status"]["restarts"] == 1
        assert len(stage.lines("began")) == 6


async def test_after_the_machine_was_switched_off_the_jobset_restarts(stage: Stage) -> None:
    stage.jobset("say began; until go; do sleep 0.02; done", failurePolicy={"maxRestarts": 3})
    async with nothing_left(stage):
        async with stage.server() as cluster:
            await create_manifests(cluster, stage.directory)
            await stage.all_run(cluster, 3)
        await end_pods(stage.directory / "root")
        async with stage.server() as cluster:
            await stage.wait(lambda: len(stage.lines("began")) == 6)
            stage.go.touch()
            jobset = await stage.completed(cluster)
        assert jobset["status"]["restarts"] == 1
