"""The kubelet with real processes: exit codes, logs, mounts, probes, hooks, grace, kill of the whole tree."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from jobset.api.meta import Object
from jobset.api.resources import CONFIG_MAPS, PODS
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.client import InProcessClient
from jobset.cluster.kubelet.cri_log import read_log
from jobset.cluster.kubelet.env import inherited_env
from jobset.cluster.kubelet.execution import Machine
from jobset.cluster.kubelet.kubelet import Kubelet
from jobset.cluster.kubelet.pods import log_path, pod_directory
from jobset.cluster.model.pod_lifecycle.state import BackOff
from jobset.cluster.runtime.process.runtime import ProcessRuntime
from jobset.cluster.store.memory import MemoryStore
from jobset.reconcile.informer import SharedInformers

pytestmark = pytest.mark.real_loop


def now() -> datetime:
    return datetime.now(UTC)


class Node:
    def __init__(self, root: Any, client: InProcessClient) -> None:
        self.root = root
        self.client = client

    async def create(self, spec: Object, name: str = "p") -> None:
        spec = {"nodeName": "n", "restartPolicy": "Never", "terminationGracePeriodSeconds": 5, **spec}
        metadata = {"name": name, "namespace": "default"}
        await self.client.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    async def wait(self, condition: Callable[[Object], Any], name: str = "p", limit_s: float = 20) -> Object:
        async with asyncio.timeout(limit_s):
            while True:
                pod = await self.client.get(PODS, "default", name, dict)
                if condition(pod):
                    return pod
                await asyncio.sleep(0.01)

    async def wait_phase(self, phase: str, name: str = "p") -> Object:
        return await self.wait(lambda pod: (pod.get("status") or {}).get("phase") == phase, name)

    def log(self, pod: Object, container: str = "main", attempt: int = 0) -> list[str]:
        path = log_path(pod_directory(self.root, pod), container, attempt)
        return [line.text for line in read_log(path)]


@pytest.fixture
def start(tmp_path):
    @asynccontextmanager
    async def started():
        client = InProcessClient(ApiService(MemoryStore(), now=now))
        informers = SharedInformers(client)
        machine = Machine(inherited_env(os.environ, sys.executable), str(tmp_path))
        runtime = ProcessRuntime(tmp_path, network="auto")
        served = {"n"}.__contains__
        kubelet = Kubelet(
            client, informers, runtime, now, tmp_path, served, machine, back_off=BackOff(base_s=0.1, max_s=1)
        )
        await runtime.start()
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(part.run()) for part in (informers, kubelet)]
                yield Node(tmp_path, client)
                for task in tasks:
                    task.cancel()
        finally:
            await runtime.close()

    return started


def sh(script: str, name: str = "main", **fields: Any) -> Object:
    return {"name": name, "image": "i", "command": ["sh", "-c", script], **fields}


def end(pod: Object, number: int = 0) -> Object:
    return pod["status"]["containerStatuses"][number]["state"]["terminated"]


async def test_output_environment_volumes_and_exit_code(start):
    async with start() as node:
        await node.client.create(
            CONFIG_MAPS,
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "c", "namespace": "default"},
                "data": {"greeting": "hello"},
            },
        )
        script = "cat /conf/greeting; echo; echo $WHO at $HOSTNAME >&2; echo bye > /dev/termination-log; exit 3"
        main = sh(
            script,
            env=[{"name": "WHO", "value": "me"}],
            volumeMounts=[{"name": "conf", "mountPath": "/conf"}],
            terminationMessagePath="/dev/termination-log",
        )
        await node.create(
            {"containers": [main], "hostname": "h0", "volumes": [{"name": "conf", "configMap": {"name": "c"}}]}
        )
        pod = await node.wait_phase("Failed")
        assert sorted(node.log(pod)) == ["hello", "me at h0"]
        assert (end(pod)["exitCode"], end(pod)["reason"], end(pod).get("message")) == (3, "Error", "bye\n")


async def test_restarts_keep_a_log_each(start):
    async with start() as node:
        script = "echo attempt; test -e /scratch/seen && exit 0; touch /scratch/seen; exit 1"
        main = sh(script, volumeMounts=[{"name": "scratch", "mountPath": "/scratch"}])
        await node.create(
            {"restartPolicy": "OnFailure", "containers": [main], "volumes": [{"name": "scratch", "emptyDir": {}}]}
        )
        pod = await node.wait_phase("Succeeded")
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 1
        assert node.log(pod, attempt=0) == node.log(pod, attempt=1) == ["attempt"]


async def test_python_is_the_one_that_runs_this_program(start):
    async with start() as node:
        command = ["python", "-c", "import jobset, sys; print(sys.prefix)"]
        await node.create({"containers": [{"name": "main", "image": "i", "command": command}]})
        pod = await node.wait_phase("Succeeded")
        assert node.log(pod) == [sys.prefix]


async def test_deletion_lets_the_container_say_goodbye(start):
    async with start() as node:
        hook = {"preStop": {"exec": {"command": ["sh", "-c", "echo hook >> $OUT"]}}}
        script = "trap 'echo term >> $OUT; exit 0' TERM; echo up >> $OUT; while :; do sleep 0.05; done"
        out = node.root / "out"
        main = sh(script, lifecycle=hook, env=[{"name": "OUT", "value": str(out)}])
        await node.create({"containers": [main]})
        await node.wait(lambda _: out.exists())
        await node.client.delete(PODS, "default", "p")
        async with asyncio.timeout(20):
            while (await node.client.list(PODS, dict)).items:
                await asyncio.sleep(0.01)
        assert out.read_text().split() == ["up", "hook", "term"]


async def test_a_tree_that_will_not_stop_is_killed_whole(start):
    async with start() as node:
        child = "sleep 31415.9265"
        script = f"trap '' TERM; (trap '' TERM; {child}) & while :; do sleep 0.05; done"
        await node.create({"containers": [sh(script)], "terminationGracePeriodSeconds": 1})
        async with asyncio.timeout(20):
            while not alive(child):
                await asyncio.sleep(0.01)
            await node.client.delete(PODS, "default", "p")
            while (await node.client.list(PODS, dict)).items:
                await asyncio.sleep(0.01)
        assert not alive(child)


def alive(command: str) -> bool:
    """Whether a process of this machine has exactly this command line."""
    wanted = command.replace(" ", "\0").encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes().rstrip(b"\0") == wanted:
                return True
    return False


async def test_probes_reach_the_process(start):
    async with start() as node:
        serve = "import http.server as h; h.HTTPServer(('', 18099), h.SimpleHTTPRequestHandler).serve_forever()"
        probe = {"httpGet": {"port": 18099}, "periodSeconds": 1}
        main = {"name": "main", "image": "i", "command": ["python", "-c", serve], "readinessProbe": probe}
        await node.create({"containers": [main]})

        def ready(pod: Object) -> bool:
            conditions = (pod.get("status") or {}).get("conditions") or ()
            return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

        pod = await node.wait(ready)
        assert pod["status"]["containerStatuses"][0]["ready"] is True


async def test_an_unknown_program_is_named(start):
    async with start() as node:
        await node.create({"containers": [{"name": "main", "image": "i", "command": ["no-such-program"]}]})
        pod = await node.wait_phase("Failed")
        assert end(pod)["exitCode"] == 127
        assert "no-such-program" in end(pod)["message"]
