"""The kubelet is forgotten and another one takes over: pods go on as if nothing had happened."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobset.api.meta import Object
from jobset.api.resources import CORE_EVENTS, PODS
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.client import InProcessClient
from jobset.cluster.kubelet.execution import Machine
from jobset.cluster.kubelet.kubelet import Kubelet
from jobset.cluster.runtime.port import ContainerConfig, SandboxConfig
from jobset.cluster.runtime.scripted import Behaviour, Script, ScriptedRuntime, by_container
from jobset.cluster.store.memory import MemoryStore
from jobset.reconcile.events import EventRecorder
from jobset.reconcile.informer import SharedInformers
from jobset.sim.loop import run_virtual, wall_clock

MACHINE = Machine(env={}, working_dir="/")
HOOK = {"exec": {"command": ["x"]}}
PROBE = {"exec": {"command": ["x"]}, "periodSeconds": 2, "failureThreshold": 2}


class CountingRuntime(ScriptedRuntime):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.starts: list[tuple[str, int]] = []

    async def start_container(self, uid: str, config: ContainerConfig) -> None:
        await super().start_container(uid, config)
        self.starts.append((config.name, config.attempt))


class Cluster:
    """Objects and containers that stay, and a kubelet that comes and goes. `starts` is all that was ever started."""

    def __init__(self, root: Path, script: Script | None = None, **options: Any) -> None:
        self.now = wall_clock()
        self.service = ApiService(MemoryStore(), now=self.now, seed=1)
        self.client = InProcessClient(self.service)
        self.runtime = CountingRuntime(self.now, script, survives=True)
        self.starts = self.runtime.starts
        self._root = root
        self._options = options
        self._tasks: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        informers = SharedInformers(self.client)
        self.kubelet = Kubelet(
            self.client,
            informers,
            self.runtime,
            self.now,
            self._root,
            {"n"}.__contains__,
            MACHINE,
            events=EventRecorder(self.client, "kubelet", self.now),
            **self._options,
        )
        self._tasks = [asyncio.create_task(part.run()) for part in (informers, self.kubelet)]
        await informers.wait_synced()

    async def crash(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.runtime.abandon()

    async def restart(self, away_s: float = 0.0) -> None:
        await self.crash()
        await asyncio.sleep(away_s)
        await self.begin()

    async def create(self, spec: Object, name: str = "p") -> None:
        metadata = {"name": name, "namespace": "default"}
        await self.client.create(
            PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "n", **spec}}
        )

    def pod(self, name: str = "p") -> Object | None:
        return self.service.store.get(str(PODS), "default", name)

    def status(self) -> Object:
        return (self.pod() or {}).get("status") or {}

    def container(self, name: str = "main") -> Object:
        status = self.status()
        return next(
            c for c in (*status["containerStatuses"], *status.get("initContainerStatuses", ())) if c["name"] == name
        )

    def events(self, reason: str) -> int:
        listed = self.service.list(CORE_EVENTS, "default").items
        return sum(event.get("count") or 1 for event in listed if event["reason"] == reason)

    async def wait(self, condition: Callable[[], Any], limit_s: float = 600.0) -> None:
        async with asyncio.timeout(limit_s):
            while not condition():
                await asyncio.sleep(0.05)

    async def wait_phase(self, phase: str) -> None:
        await self.wait(lambda: self.status().get("phase") == phase)

    async def wait_ready(self) -> None:
        await self.wait(lambda: all(c["ready"] for c in self.status().get("containerStatuses", [{"ready": False}])))


@pytest.fixture
def cluster(tmp_path: Path) -> Callable[..., Cluster]:
    return lambda script=None, **options: Cluster(tmp_path, script, **options)


async def test_what_runs_is_not_started_again_and_its_status_is_not_written(cluster, container):
    it = cluster()
    await it.begin()
    await it.create({"containers": [container()]})
    await it.wait_ready()
    before = it.pod()
    await it.restart()
    await asyncio.sleep(60)
    assert it.pod() == before
    assert it.starts == [("main", 0)]
    assert it.events("Started") == 1


async def test_an_end_that_nobody_heard_is_told(cluster, container):
    it = cluster(by_container({"main": [Behaviour(run_s=10, exit_code=3, message="why")]}))
    await it.begin()
    await it.create({"containers": [container()], "restartPolicy": "Never"})
    await it.wait_phase("Running")
    await it.restart(away_s=60)
    await it.wait_phase("Failed")
    terminated = it.container()["state"]["terminated"]
    assert (terminated["exitCode"], terminated["message"]) == (3, "why")
    assert it.runtime.sandboxes == 0


async def test_a_restart_that_was_due_happens_at_once_and_is_counted(cluster, container):
    it = cluster(by_container({"main": [Behaviour(run_s=10, exit_code=1), Behaviour()]}))
    await it.begin()
    await it.create({"containers": [container()]})
    await it.wait_phase("Running")
    await it.restart(away_s=30)
    await it.wait(lambda: it.container()["restartCount"] == 1, 1)
    assert it.container()["lastState"]["terminated"]["exitCode"] == 1


async def test_back_off_goes_on(cluster, container):
    it = cluster(by_container({"main": [Behaviour(run_s=1, exit_code=1)]}))
    await it.begin()
    await it.create({"containers": [container()]})
    await it.wait(lambda: len(it.starts) == 4)
    await it.wait(lambda: "waiting" in it.container()["state"])
    before = it.now()
    await it.restart(away_s=5)
    assert it.container()["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert "back-off 40s" in it.container()["state"]["waiting"]["message"]
    await it.wait(lambda: len(it.starts) == 5)
    assert 39 < (it.now() - before).total_seconds() < 41
    assert it.container()["restartCount"] == 3 or it.container()["restartCount"] == 4


async def test_init_containers_are_not_repeated(cluster, container):
    it = cluster(by_container({"a": [Behaviour(run_s=5)], "b": [Behaviour(run_s=20)]}))
    await it.begin()
    await it.create({"initContainers": [container("a"), container("b")], "containers": [container()]})
    await it.wait(lambda: ("b", 0) in it.starts)
    await it.restart(away_s=1)
    await it.wait_ready()
    await it.restart()
    await asyncio.sleep(60)
    assert it.starts == [("a", 0), ("b", 0), ("main", 0)]


async def test_probes_go_on_and_readiness_stays(cluster, container):
    it = cluster(by_container({"main": [Behaviour(ready_after_s=5)]}))
    await it.begin()
    await it.create({"containers": [container(readinessProbe=PROBE, startupProbe={**PROBE, "failureThreshold": 20})]})
    await it.wait_phase("Running")
    await it.restart(away_s=1)
    assert not it.container()["started"]
    await it.wait_ready()
    await it.restart()
    assert it.container()["ready"]
    await asyncio.sleep(30)
    assert it.container()["ready"]
    assert it.starts == [("main", 0)]


async def test_a_deletion_goes_on_without_a_second_signal(cluster, container):
    it = cluster(by_container({"main": [Behaviour(stop_s=20)]}))
    await it.begin()
    await it.create({"containers": [container()], "terminationGracePeriodSeconds": 60})
    await it.wait_ready()
    before = it.now()
    await it.client.delete(PODS, "default", "p")
    await asyncio.sleep(10)
    await it.restart(away_s=2)
    await it.wait(lambda: it.pod() is None)
    assert 20 <= (it.now() - before).total_seconds() < 21, "a second signal would have made it wait again"


async def test_a_deletion_kills_when_its_grace_is_over(cluster, container):
    it = cluster(by_container({"main": [Behaviour(ignores_signals=True)]}))
    await it.begin()
    await it.create({"containers": [container()], "terminationGracePeriodSeconds": 30})
    await it.wait_ready()
    before = it.now()
    await it.client.delete(PODS, "default", "p")
    await asyncio.sleep(10)
    await it.restart(away_s=2)
    await it.wait(lambda: it.pod() is None)
    assert 30 <= (it.now() - before).total_seconds() < 32


async def test_a_pod_that_was_deleted_meanwhile_is_killed(cluster, container):
    it = cluster()
    await it.begin()
    await it.create({"containers": [container(volumeMounts=[])], "volumes": [{"name": "v", "emptyDir": {}}]})
    await it.wait_ready()
    await it.crash()
    await it.client.delete(PODS, "default", "p", grace_period_s=0)
    await it.begin()
    await it.wait(lambda: it.runtime.sandboxes == 0, 1)
    assert not list(it._root.glob("pods/*/volumes"))


async def test_a_deletion_that_began_while_nobody_looked_is_carried_out(cluster, container):
    it = cluster()
    await it.begin()
    await it.create({"containers": [container()]})
    await it.wait_ready()
    await it.crash()
    await it.client.delete(PODS, "default", "p")
    await it.begin()
    await it.wait(lambda: it.pod() is None, 2)
    assert it.runtime.sandboxes == 0


async def test_a_deletion_is_confirmed_by_the_next_if_the_last_one_only_told_the_end(cluster, container):
    it = cluster()
    await it.begin()
    await it.create({"containers": [container()], "terminationGracePeriodSeconds": 20})
    await it.wait_ready()
    uid, running = it.pod()["metadata"]["uid"], it.container()
    await it.crash()
    await it.client.delete(PODS, "default", "p")
    await it.runtime.remove_sandbox(uid)
    since = running["state"]["running"]["startedAt"]
    terminated = {"exitCode": 143, "reason": "Error", "startedAt": since, "finishedAt": since}
    told = {"phase": "Failed", "containerStatuses": [{**running, "state": {"terminated": terminated}, "ready": False}]}
    await it.client.patch(PODS, "default", "p", {"status": told}, subresource="status")
    await it.begin()
    await it.wait(lambda: it.pod() is None, 1)


@pytest.mark.parametrize(
    ("policy", "end"),
    [("Never", ("Failed", 137, 0)), ("OnFailure", ("Running", None, 1)), ("Always", ("Running", None, 1))],
)
async def test_after_the_machine_was_switched_off_the_policy_decides(cluster, container, policy, end):
    it = cluster(by_container({"init": [Behaviour(run_s=1)]}))
    await it.begin()
    await it.create({"initContainers": [container("init")], "containers": [container()], "restartPolicy": policy})
    await it.wait_ready()
    await it.crash()
    it.runtime.lose_everything()
    await it.begin()
    await asyncio.sleep(5)
    phase, code, restarts = end
    main = it.container()
    assert (it.status()["phase"], main["restartCount"]) == (phase, restarts)
    assert main["state"].get("terminated", {}).get("exitCode") == code
    if policy == "Never":
        assert main["state"]["terminated"]["reason"] == "ContainerStatusUnknown"
        assert ("init", 1) not in it.starts
    else:
        assert it.starts == [("init", 0), ("main", 0), ("init", 1), ("main", 1)], "init containers come first again"
        assert main["ready"]


async def test_a_pod_that_was_completing_when_the_machine_was_switched_off(cluster, container):
    it = cluster(by_container({"done": [Behaviour(run_s=1)]}))
    await it.begin()
    await it.create({"containers": [container("done"), container("main")], "restartPolicy": "OnFailure"})
    await it.wait(lambda: it.status().get("phase") == "Running" and "terminated" in it.container("done")["state"])
    await it.crash()
    it.runtime.lose_everything()
    await it.begin()
    await it.wait(lambda: ("main", 1) in it.starts)
    assert ("done", 1) not in it.starts, "what succeeded is not repeated"


async def test_gpus_stay_with_the_pods_that_have_them(tmp_path, container):
    seen: dict[str, str] = {}

    def script(sandbox: SandboxConfig, config: ContainerConfig) -> Behaviour:
        seen[sandbox.name] = config.env["CUDA_VISIBLE_DEVICES"]
        return Behaviour()

    it = Cluster(tmp_path, script, devices={"n": ["gpu-a", "gpu-b"]})
    one = {
        "containers": [container(resources={"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}})]
    }
    await it.begin()
    await it.create(one, "first")
    await it.wait(lambda: "first" in seen)
    await it.create(one)
    await it.wait_ready()
    await it.client.delete(PODS, "default", "first")
    await it.wait(lambda: it.pod("first") is None)
    await it.restart()
    await it.create(one, "third")
    await it.wait(lambda: "third" in seen)
    assert seen == {"first": "gpu-a", "p": "gpu-b", "third": "gpu-a"}


# -- at any moment ------------------------------------------------------------------------------------------------


@st.composite
def lives(draw):
    """(spec, behaviours, moments of crashes and how long nobody was there)"""

    def container(name, **fields):
        chosen = draw(st.sets(st.sampled_from(["startupProbe", "readinessProbe"])))
        hooks = dict.fromkeys(sorted(draw(st.sets(st.sampled_from(["preStop", "postStart"])))), HOOK)
        probes = {name: {**PROBE, "failureThreshold": 50} for name in sorted(chosen)}
        return {"name": name, "image": "i", "command": ["x"], **probes, "lifecycle": hooks, **fields}

    runs = st.builds(
        Behaviour,
        run_s=st.sampled_from([0.0, 0.5, 3.0, 20.0]),
        exit_code=st.sampled_from([0, 0, 1]),
        start_delay_s=st.sampled_from([0.0, 0.3]),
        stop_s=st.sampled_from([0.0, 2.0]),
    )
    spec = {
        "containers": [container("main"), container("other")],
        "restartPolicy": draw(st.sampled_from(["OnFailure", "Never"])),
        "terminationGracePeriodSeconds": draw(st.sampled_from([0, 5])),
    }
    behaviours = {name: draw(st.lists(runs, min_size=1, max_size=3)) for name in ("main", "other", "setup")}
    for listed in behaviours.values():
        listed.append(Behaviour(run_s=1.0))
    if draw(st.booleans()):
        spec["initContainers"] = [
            {"name": "setup", "image": "i", "command": ["x"]},
            container("side", restartPolicy="Always"),
        ]
    crashes = draw(st.lists(st.tuples(st.integers(0, 400), st.sampled_from([0.0, 0.2, 4.0, 30.0])), max_size=4))
    delete_at = draw(st.sampled_from([None, None, 0.4, 2.0, 15.0]))
    return spec, behaviours, sorted(crashes), delete_at


async def live(root: Path, spec: Object, behaviours, crashes, delete_at) -> tuple[Any, Cluster]:
    """How a pod ends. Crashes come after so many turns of the event loop."""
    it = Cluster(root, by_container(behaviours))
    await it.begin()
    await it.create(spec)
    deleted = None
    if delete_at is not None:

        async def delete() -> None:
            await asyncio.sleep(delete_at)
            await it.client.delete(PODS, "default", "p")

        deleted = asyncio.create_task(delete())
    turn = 0
    for moment, away_s in crashes:
        while turn < moment:
            turn += 1
            await asyncio.sleep(0 if turn % 3 else 0.05)
        await it.restart(away_s)
    if deleted is not None:
        await deleted
        await it.wait(lambda: it.pod() is None or it.status().get("phase") in ("Succeeded", "Failed"))
        await it.wait(lambda: it.pod() is None or delete_at is None, 60)
        await it.wait(lambda: it.runtime.sandboxes == 0, 60)
        result: Any = None
    else:
        await it.wait(lambda: it.status().get("phase") in ("Succeeded", "Failed"))
        await it.wait(lambda: it.runtime.sandboxes == 0, 60)
        shown = [it.container(name) for name in ("main", "other")]
        result = (
            it.status()["phase"],
            [(c["restartCount"], c["state"].get("terminated", {}).get("exitCode")) for c in shown],
        )
    await it.crash()
    return result, it


@settings(max_examples=60, deadline=None)
@given(lives())
def test_a_crash_at_any_moment_leads_to_the_same_end(life):
    spec, behaviours, crashes, delete_at = life
    with tempfile.TemporaryDirectory() as directory:
        undisturbed, _ = run_virtual(live(Path(directory), spec, behaviours, [], delete_at))
        disturbed, it = run_virtual(live(Path(directory), spec, behaviours, crashes, delete_at))
    assert disturbed == undisturbed
    assert len(it.starts) == len(set(it.starts)), "no run happens twice"
    assert it.runtime.running() == []
