"""A pod's life as its status tells it, with scripted containers on virtual time."""

from jobset.api.resources import PODS
from jobset.cluster.runtime.scripted import Behaviour, by_container


async def test_a_pod_becomes_ready_in_one_write_and_ends_in_one_more(start, container):
    async with start(by_container({"main": [Behaviour(run_s=60)]})) as node:
        await node.create({"restartPolicy": "Never", "containers": [container()]})
        await node.wait_phase("Running")
        status = node.status()
        assert (status["podIP"], status["hostIP"]) == ("10.88.0.2", "192.0.2.7")
        assert node.condition("Ready")["status"] == "True"
        assert node.container()["state"] == {"running": {"startedAt": status["startTime"]}}
        assert node.client.status_writes == 1
        await node.wait_phase("Succeeded")
        assert node.container()["state"]["terminated"]["exitCode"] == 0
        assert node.condition("Ready")["reason"] == "PodCompleted"
        assert node.client.status_writes == 2
        assert node.runtime.sandboxes == 0
        assert node.kubelet.active_pods == 0


async def test_pods_of_other_nodes_are_left_alone(start, container):
    async with start() as node:
        await node.create({"nodeName": "elsewhere", "containers": [container()]})
        await node.create({"nodeName": "node-1", "containers": [container()]}, "ours")
        await node.wait_phase("Running", "ours")
        assert node.runtime.sandboxes == 1


async def test_deletion_stops_the_pod_and_is_confirmed_after_the_last_status(start, container):
    async with start(by_container({"main": [Behaviour(stop_s=5)]})) as node:
        await node.create({"containers": [container()], "terminationGracePeriodSeconds": 30})
        await node.wait_phase("Running")
        await node.client.patch(PODS, "default", "p", {"metadata": {"finalizers": ["example.com/look"]}})
        before = node.now()
        await node.client.delete(PODS, "default", "p")
        await node.wait_phase("Failed")
        assert 5 <= (node.now() - before).total_seconds() < 6
        assert node.container()["state"]["terminated"]["exitCode"] == 143
        await node.wait(lambda: node.pod()["metadata"]["deletionGracePeriodSeconds"] == 0)
        await node.client.patch(PODS, "default", "p", {"metadata": {"finalizers": None}})
        assert not node.exists()


async def test_grace_over_means_kill(start, container):
    async with start(by_container({"main": [Behaviour(ignores_signals=True)]})) as node:
        await node.create({"containers": [container()], "terminationGracePeriodSeconds": 7})
        await node.wait_phase("Running")
        before = node.now()
        await node.client.delete(PODS, "default", "p")
        await node.wait(lambda: not node.exists())
        assert 7 <= (node.now() - before).total_seconds() < 8.1
        assert node.runtime.running() == []


async def test_forced_deletion_kills_at_once(start, container):
    async with start(by_container({"main": [Behaviour(ignores_signals=True)]})) as node:
        await node.create({"containers": [container()]})
        await node.wait_phase("Running")
        await node.client.delete(PODS, "default", "p", grace_period_s=0)
        await node.wait(lambda: node.kubelet.active_pods == 0, 1)
        assert node.runtime.sandboxes == 0


async def test_a_successor_of_the_same_name_runs_while_the_old_pod_is_killed(start, container):
    async with start() as node:
        await node.create({"containers": [container()]})
        await node.wait_phase("Running")
        first = node.pod()["metadata"]["uid"]
        await node.client.delete(PODS, "default", "p", grace_period_s=0)
        await node.create({"containers": [container()]})
        await node.wait_phase("Running")
        assert [uid for uid, _, _ in node.runtime.running()] == [node.pod()["metadata"]["uid"]] != [first]


async def test_crash_loop_backs_off(start, container):
    async with start(by_container({"main": [Behaviour(run_s=1, exit_code=3)]})) as node:
        await node.create({"restartPolicy": "OnFailure", "containers": [container()]})
        await node.wait(
            lambda: "waiting" in node.container().get("state", {}) if node.status().get("containerStatuses") else False
        )
        status = node.container()
        assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert status["restartCount"] == 1
        assert status["lastState"]["terminated"]["exitCode"] == 3
        before = node.now()
        await node.wait(lambda: node.container()["restartCount"] == 4)
        # 10 s, 20 s and 40 s of waiting, and two more runs of a second
        assert 60 <= (node.now() - before).total_seconds() < 75
        assert node.status()["phase"] == "Running"


async def test_init_containers_and_sidecars_come_first_and_sidecars_leave_last(start, container):
    script = by_container(
        {"setup": [Behaviour(run_s=3)], "main": [Behaviour(run_s=10)], "proxy": [Behaviour(stop_s=1)]}
    )
    async with start(script) as node:
        await node.create(
            {
                "restartPolicy": "Never",
                "initContainers": [container("setup"), container("proxy", restartPolicy="Always")],
                "containers": [container()],
            }
        )
        await node.wait(lambda: node.status().get("initContainerStatuses"))
        assert node.status()["phase"] == "Pending"
        assert node.condition("Initialized")["message"] == "containers with incomplete status: [setup proxy]"
        assert node.container("main")["state"] == {"waiting": {"reason": "PodInitializing"}}
        await node.wait_phase("Running")
        assert {name for _, name, _ in node.runtime.running()} == {"proxy", "main"}
        assert node.container("setup")["ready"] is True
        await node.wait_phase("Succeeded")
        assert node.container("proxy")["state"]["terminated"]["exitCode"] == 143


async def test_readiness_follows_the_probe(start, container):
    probe = {"httpGet": {"port": 80}, "periodSeconds": 5}
    async with start(by_container({"main": [Behaviour(ready_after_s=12)]})) as node:
        await node.create({"containers": [container(readinessProbe=probe)]})
        await node.wait_phase("Running")
        assert node.condition("Ready")["reason"] == "ContainersNotReady"
        before = node.now()
        await node.wait(lambda: node.condition("Ready")["status"] == "True")
        assert 11.5 <= (node.now() - before).total_seconds() < 13.5
        assert node.client.status_writes == 2


async def test_liveness_failure_restarts_the_container(start, container):
    probe = {"tcpSocket": {"port": 80}, "periodSeconds": 5, "failureThreshold": 2, "initialDelaySeconds": 1}
    script = by_container({"main": [Behaviour(ready_after_s=None), Behaviour()]})
    async with start(script, events=True) as node:
        await node.create({"containers": [container(livenessProbe=probe)]})
        await node.wait_phase("Running")
        await node.wait(lambda: node.container()["restartCount"] == 1)
        assert node.container()["lastState"]["terminated"]["exitCode"] == 143
        reasons = [reason for reason, _ in node.events()]
        assert "Unhealthy" in reasons and "Killing" in reasons


async def test_active_deadline_fails_the_pod(start, container):
    async with start() as node:
        before = node.now()
        await node.create({"activeDeadlineSeconds": 20, "containers": [container()]})
        await node.wait_phase("Failed")
        assert node.status()["reason"] == "DeadlineExceeded"
        assert 20 <= (node.now() - before).total_seconds() < 21


async def test_restart_all_containers_keeps_the_pod(start, container):
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}]
    script = by_container({"setup": [Behaviour(run_s=1)], "main": [Behaviour(run_s=10, exit_code=88), Behaviour()]})
    async with start(script) as node:
        await node.create(
            {
                "restartPolicy": "Never",
                "initContainers": [container("setup")],
                "containers": [container(restartPolicy="Never", restartPolicyRules=rules), container("other")],
            }
        )
        await node.wait_phase("Running")
        before = node.pod()
        await node.wait(lambda: node.container()["restartCount"] == 1 and node.status()["phase"] == "Running")
        after = node.pod()
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["status"]["podIP"] == before["status"]["podIP"]
        assert {name: node.container(name)["restartCount"] for name in ("setup", "main", "other")} == {
            "setup": 1,
            "main": 1,
            "other": 1,
        }
        assert node.container("other")["lastState"]["terminated"]["exitCode"] == 137
        assert node.condition("AllContainersRestarting")["status"] == "False"


async def test_readiness_gates_hold_readiness_back(start, container):
    async with start() as node:
        await node.create({"containers": [container()], "readinessGates": [{"conditionType": "example.com/go"}]})
        await node.wait_phase("Running")
        assert node.condition("Ready")["reason"] == "ReadinessGatesNotReady"
        conditions = [*node.status()["conditions"], {"type": "example.com/go", "status": "True"}]
        await node.client.patch(PODS, "default", "p", {"status": {"conditions": conditions}}, subresource="status")
        await node.wait(lambda: node.condition("Ready")["status"] == "True")
        assert node.condition("example.com/go")["status"] == "True"


async def test_a_missing_command_is_a_clear_failure(start, container):
    async with start(events=True) as node:
        await node.create({"restartPolicy": "Never", "containers": [{"name": "main", "image": "ubuntu:24.04"}]})
        await node.wait_phase("Failed")
        ended = node.container()["state"]["terminated"]
        assert (ended["reason"], ended["exitCode"]) == ("StartError", 128)
        assert "image 'ubuntu:24.04' is not pulled here" in ended["message"]
        assert "command:" in ended["message"]
        assert any(reason == "Failed" and "is not pulled here" in text for reason, text in node.events())


async def test_an_executable_that_is_not_there_is_a_clear_failure(start, container):
    async with start(by_container({"main": [Behaviour(cannot_start="no such program: trainn")]})) as node:
        await node.create({"restartPolicy": "Never", "containers": [container()]})
        await node.wait_phase("Failed")
        assert node.container()["state"]["terminated"]["message"] == "no such program: trainn"


async def test_events_tell_the_story(start, container):
    async with start(by_container({"main": [Behaviour(run_s=1)]}), events=True) as node:
        await node.create({"restartPolicy": "Never", "containers": [container()]})
        await node.wait_phase("Succeeded")
        assert ("Started", "Started container main") in node.events()
