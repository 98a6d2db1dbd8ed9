"""What the kubelet takes from the API and gives to it: configuration, volumes, conflicts, nodes, and at what cost."""

import asyncio
import time
from pathlib import Path

import pytest

from jobset.api.errors import Conflict
from jobset.api.meta import Object, condition_of
from jobset.api.resources import CONFIG_MAPS, LEASES, NODES, PODS
from jobset.cluster.runtime.port import ContainerConfig, SandboxConfig
from jobset.cluster.runtime.scripted import Behaviour, by_container

ENV_FROM = {"envFrom": [{"configMapRef": {"name": "settings"}}]}


class Recorder:
    """A script that remembers what the runtime was asked to start."""

    def __init__(self, behaviour=Behaviour()):
        self.sandboxes: list[SandboxConfig] = []
        self.containers: list[ContainerConfig] = []
        self.behaviour = behaviour

    def __call__(self, sandbox, container):
        self.sandboxes.append(sandbox)
        self.containers.append(container)
        return self.behaviour


def settings(**data) -> Object:
    metadata = {"name": "settings", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def test_a_container_waits_for_its_config_map(start, container):
    recorder = Recorder()
    async with start(recorder) as node:
        await node.create({"containers": [container(**ENV_FROM)]})
        await node.wait(lambda: node.status().get("containerStatuses"))
        waiting = node.container()["state"]["waiting"]
        assert waiting["reason"] == "CreateContainerConfigError"
        assert 'configmap "settings" not found' in waiting["message"]
        await node.client.create(CONFIG_MAPS, settings(RATE="3"))
        await node.wait_phase("Running")
        assert recorder.containers[0].env["RATE"] == "3"
        assert node.container()["restartCount"] == 0


async def test_a_pod_waits_for_its_volumes(start, container):
    recorder = Recorder()
    volume = {"name": "conf", "configMap": {"name": "settings"}}
    mount = {"volumeMounts": [{"name": "conf", "mountPath": "/etc/conf"}]}
    async with start(recorder, events=True) as node:
        await node.create({"containers": [container(**mount)], "volumes": [volume]})
        await node.wait(lambda: node.status().get("containerStatuses"))
        assert any(reason == "FailedMount" and "settings" in text for reason, text in node.events())
        assert "settings" in node.container()["state"]["waiting"]["message"]
        assert node.condition("PodReadyToStartContainers")["status"] == "False"
        await node.client.create(CONFIG_MAPS, settings(a="A"))
        await node.wait_phase("Running")
        [mounted] = recorder.containers[0].mounts
        assert (mounted.host_path / "a").read_text() == "A"
        await node.client.delete(PODS, "default", "p")
        await node.wait(lambda: not node.exists())
        assert not mounted.host_path.exists()


async def test_what_the_runtime_is_told(start, container):
    recorder = Recorder()
    limits = {"resources": {"limits": {"memory": "256Mi", "cpu": "500m", "nvidia.com/gpu": "1"}}}
    async with start(recorder, devices={"node-1": ["GPU-x", "GPU-y"]}) as node:
        await node.create({"hostname": "w-0", "subdomain": "js", "containers": [container(**limits)]})
        await node.wait_phase("Running")
        [sandbox], [started] = recorder.sandboxes, recorder.containers
        uid = node.pod()["metadata"]["uid"]
        assert (sandbox.hostname, sandbox.fqdn) == ("w-0", "w-0.js.default.svc.cluster.local")
        assert sandbox.directory == Path(sandbox.directory.parent / f"default_p_{uid}")
        assert sandbox.directory.parent.name == "pods"
        assert started.log_path == sandbox.directory / "logs" / "main" / "0.log"
        assert (started.argv, started.working_dir) == (("run",), "/work")
        assert (started.memory_limit_bytes, started.cpu_limit_cores) == (256 << 20, 0.5)
        assert started.env["CUDA_VISIBLE_DEVICES"] == "GPU-x"
        assert started.env["HOSTNAME"] == "w-0"
        assert started.env["HOME"] == "/home/me"


async def test_gpus_return_with_the_end_of_the_pod(start, container):
    recorder = Recorder(Behaviour(run_s=5))
    gpu = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    async with start(recorder, devices={"node-1": ["GPU-x"]}) as node:
        for name in ("a", "b"):
            await node.create({"restartPolicy": "Never", "containers": [container(**gpu)]}, name)
        for name in ("a", "b"):
            await node.wait_phase("Succeeded", name)
        assert [started.env["CUDA_VISIBLE_DEVICES"] for started in recorder.containers] == ["GPU-x", "GPU-x"]


async def test_termination_message_falls_back_to_the_log(start, container):
    def script(_sandbox, config):
        config.log_path.write_text("2026-01-01T00:00:00Z stderr F Traceback: boom\n")
        return Behaviour(run_s=1, exit_code=1)

    fields = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    async with start(script) as node:
        await node.create({"restartPolicy": "Never", "containers": [container(**fields)]})
        await node.wait_phase("Failed")
        assert node.container()["state"]["terminated"]["message"] == "Traceback: boom\n"


async def test_what_fails_unexpectedly_is_tried_again(start, container, caplog):
    async with start() as node:
        begin = node.runtime.create_sandbox
        failures = [RuntimeError("a defect"), RuntimeError("a defect")]

        async def faulty(config):
            if failures:
                raise failures.pop()
            return await begin(config)

        node.runtime.create_sandbox = faulty
        await node.create({"containers": [container()]})
        await node.wait_phase("Running")
        assert caplog.text.count("a defect") == 2


async def test_a_pod_that_restarts_all_the_time_does_not_keep_the_others_from_running(start, container):
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}]
    wild = container("wild", restartPolicy="Never", restartPolicyRules=rules)
    async with start(by_container({"wild": [Behaviour(run_s=0, exit_code=88)]})) as node:
        await node.create({"containers": [wild]}, "wild")
        await node.create({"containers": [container()]}, "calm")
        for _ in range(1000):
            await asyncio.sleep(0)
        assert node.status("calm")["phase"] == "Running"
        await node.client.delete(PODS, "default", "wild", grace_period_s=0)
        for _ in range(1000):
            await asyncio.sleep(0)
        assert node.kubelet.active_pods == 1


async def test_grpc_probes_are_refused_with_the_fix(start, container):
    async with start() as node:
        probed = container(readinessProbe={"grpc": {"port": 9000}})
        await node.create({"restartPolicy": "Never", "containers": [probed]})
        await node.wait_phase("Failed")
        message = node.container()["state"]["terminated"]["message"]
        assert message.endswith("readinessProbe.grpc is not supported on this machine; use exec, httpGet or tcpSocket")


async def test_hooks_sleep_and_ask_over_http(start, container):
    lifecycle = {"postStart": {"httpGet": {"port": 80}}, "preStop": {"sleep": {"seconds": 4}}}
    async with start() as node:
        await node.create({"containers": [container(lifecycle=lifecycle)]})
        await node.wait(lambda: node.status().get("phase") == "Running" and node.container()["started"])
        before = node.now()
        await node.client.delete(PODS, "default", "p")
        await node.wait(lambda: not node.exists())
        assert 4 <= (node.now() - before).total_seconds() < 5


async def test_conditions_of_others_survive(start, container):
    """Somebody writes a condition that the kubelet has not seen yet: its own write is refused and made again."""
    async with start(by_container({"main": [Behaviour(run_s=5)]})) as node:
        await node.create({"restartPolicy": "Never", "containers": [container()]})
        await node.wait_phase("Running")
        refused = []
        patch = node.client.patch

        async def disturbed(resource, namespace, name, body, **options):
            if resource == PODS and not refused:
                target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
                status = {"conditions": [*node.status()["conditions"], target]}
                await patch(PODS, namespace, name, {"status": status}, subresource="status")
                refused.append(name)
                with pytest.raises(Conflict):
                    return await patch(resource, namespace, name, body, **options)
                raise Conflict("changed")
            return await patch(resource, namespace, name, body, **options)

        node.client.patch = disturbed
        await node.wait_phase("Succeeded")
        assert refused and node.condition("DisruptionTarget")["status"] == "True"


async def test_served_nodes_become_ready_and_hold_a_lease(start):
    async with start(heartbeat_s=60) as node:
        await node.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "other"}})
        await node.wait(lambda: condition_of(node.service.get(NODES, "", "node-1"), "Ready"))
        await asyncio.sleep(1)
        first = node.service.get(LEASES, "kube-node-lease", "node-1")["spec"]["renewTime"]
        await asyncio.sleep(60)
        assert node.service.get(LEASES, "kube-node-lease", "node-1")["spec"]["renewTime"] > first
        assert condition_of(node.service.get(NODES, "", "other"), "Ready") is None


async def up_and_down(start, container, count: int) -> tuple[float, int]:
    """CPU seconds, and status writes, to run `count` pods to ready and to delete them."""
    async with start() as node:
        before = time.process_time()
        for number in range(count):
            await node.create({"restartPolicy": "Never", "containers": [container()]}, f"p{number}")
        await node.wait(lambda: len(node.runtime.running()) == count)
        for number in range(count):
            await node.client.delete(PODS, "default", f"p{number}")
        await node.wait(lambda: node.kubelet.active_pods == 0)
        assert node.runtime.sandboxes == 0
        assert len(asyncio.all_tasks()) < 64, "pods cost no tasks"
        return time.process_time() - before, node.client.status_writes


async def test_cost_is_linear_and_writes_are_few(start, container):
    await up_and_down(start, container, 20)
    small, few = await up_and_down(start, container, 100)
    large, many = await up_and_down(start, container, 500)
    assert (few, many) == (200, 1000)
    assert large < 5 * small * 2.5
    assert large / 500 < 0.004
