"""Order of start and end, restart policies, phases: tables and transcripts of the pure machine."""

import pytest

from jobset.cluster.model.pod_lifecycle.state import (
    BackOff,
    DeletionRequested,
    Removed,
    SandboxFailed,
    SandboxReady,
    Stage,
    Started,
    StartFailed,
    Tick,
)

PROBE = {"exec": {"command": ["true"]}}


def test_an_ordinary_pod(life, container):
    pod = life({"containers": [container()], "restartPolicy": "Never"})
    assert pod.take() == ["create sandbox", "start main#0"]
    assert pod.phase() == "Running"
    pod.exit()
    assert pod.take() == ["remove sandbox"]
    assert pod.phase() == "Succeeded"


def test_init_containers_run_one_by_one_and_main_ones_start_together(life, container):
    pod = life({"initContainers": [container("a"), container("b")], "containers": [container("x"), container("y")]})
    assert pod.take() == ["create sandbox", "start a#0"]
    assert pod.phase() == "Pending"
    pod.exit("a")
    assert pod.take() == ["start b#0"]
    pod.exit("b")
    assert pod.take() == ["start x#0", "start y#0"]
    assert pod.phase() == "Running"


def test_a_main_container_starts_after_the_post_start_hook_of_the_one_before(life, container):
    hooked = container("x", lifecycle={"postStart": PROBE})
    pod = life({"containers": [hooked, container("y")]})
    assert pod.take() == ["create sandbox", "start x#0", "postStart of x"]
    assert pod.shown("x")["started"] is False
    pod.hook("x", "postStart")
    assert pod.take() == ["start y#0"]
    assert pod.shown("x")["started"] is True


def test_a_failed_post_start_hook_stops_the_container(life, container):
    pod = life({"containers": [container(lifecycle={"postStart": PROBE})], "restartPolicy": "Never"})
    pod.take()
    pod.hook("main", "postStart", ok=False)
    assert pod.take() == ["(FailedPostStartHook: PostStartHook failed: boom)", "signal 15 to main#0"]
    pod.exit(code=143)
    assert pod.phase() == "Failed"


def test_sidecars_start_in_order_and_hold_back_what_follows_until_started(life, container):
    sidecar = container("s", restartPolicy="Always", startupProbe={**PROBE, "periodSeconds": 1})
    pod = life({"initContainers": [container("a"), sidecar, container("b")], "containers": [container()]})
    pod.exit("a")
    assert pod.take() == ["create sandbox", "start a#0", "start s#0", "probe startup of s"]
    pod.probe("startup", False, "s")
    pod.wait(1)
    assert pod.take() == ["0.1s probe startup of s"]
    pod.probe("startup", True, "s")
    assert pod.take() == ["start b#0"]
    pod.exit("b")
    assert pod.take() == ["start main#0"]


def test_sidecars_do_not_keep_a_pod_alive_and_end_in_reverse_order(life, container):
    sidecars = [container(name, restartPolicy="Always") for name in ("s1", "s2")]
    pod = life({"initContainers": sidecars, "containers": [container()], "restartPolicy": "Never"})
    pod.take()
    pod.exit()
    assert pod.take() == ["signal 15 to s2#0"]
    assert pod.phase() == "Running"
    pod.exit("s2", 143)
    assert pod.take() == ["signal 15 to s1#0"]
    pod.exit("s1", 143)
    assert pod.take() == ["remove sandbox"]
    assert pod.phase() == "Succeeded"


def test_on_deletion_sidecars_wait_for_the_main_containers(life, container):
    sidecar = container("s", restartPolicy="Always", lifecycle={"preStop": PROBE})
    pod = life({"initContainers": [sidecar], "containers": [container()]})
    pod.take()
    pod.tell(DeletionRequested(30))
    assert pod.take() == ["preStop of s", "signal 15 to main#0"]
    pod.hook("s", "preStop")
    assert pod.take() == []
    pod.exit(code=143)
    assert pod.take() == ["signal 15 to s#0"]


def test_a_sidecar_that_crashes_restarts_beside_the_main_container(life, container):
    pod = life({"initContainers": [container("s", restartPolicy="Always")], "containers": [container()]})
    pod.take()
    pod.exit("s", 1)
    assert pod.take() == ["start s#1"]
    assert pod.phase() == "Running"
    assert pod.shown("s")["restartCount"] == 1


@pytest.mark.parametrize(
    ("policy", "code", "restarts", "phase"),
    [
        ("Always", 0, True, "Running"),
        ("Always", 1, True, "Running"),
        ("OnFailure", 0, False, "Succeeded"),
        ("OnFailure", 1, True, "Running"),
        ("Never", 0, False, "Succeeded"),
        ("Never", 1, False, "Failed"),
    ],
)
def test_restart_policy(life, container, policy, code, restarts, phase):
    pod = life({"containers": [container()], "restartPolicy": policy})
    pod.take()
    pod.exit(code=code)
    assert ("start main#1" in pod.take()) is restarts
    assert pod.phase() == phase


@pytest.mark.parametrize(
    ("pod_policy", "own", "code", "outcome"),
    [
        ("Never", None, 1, "Failed"),
        ("OnFailure", None, 1, "again"),
        ("Always", None, 1, "again"),
        ("Always", None, 0, "next"),
        ("Always", "Never", 1, "Failed"),
        ("Never", "OnFailure", 1, "again"),
    ],
)
def test_restart_of_init_containers(life, container, pod_policy, own, code, outcome):
    init = container("i", **({"restartPolicy": own} if own else {}))
    pod = life({"initContainers": [init], "containers": [container()], "restartPolicy": pod_policy})
    pod.take()
    pod.exit("i", code)
    expected = {"Failed": ["remove sandbox"], "again": ["start i#1"], "next": ["start main#0"]}[outcome]
    assert pod.take() == expected
    assert pod.phase() == {"Failed": "Failed", "again": "Pending", "next": "Running"}[outcome]


def test_one_of_two_failing_leaves_the_other_running(life, container):
    pod = life({"containers": [container("x"), container("y")], "restartPolicy": "Never"})
    pod.exit("x", 1)
    assert pod.phase() == "Running"
    pod.exit("y", 0)
    assert pod.phase() == "Failed"


RULES = [
    {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}},
    {"action": "RestartAllContainers", "exitCodes": {"operator": "NotIn", "values": [0, 1, 42]}},
]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (42, ["start main#1"]),
        (1, []),
        (0, []),
        (88, ["signal 9 to other#0"]),
    ],
)
def test_restart_rules_come_before_the_policy(life, container, code, expected):
    ruled = container(restartPolicy="Never", restartPolicyRules=RULES)
    pod = life({"containers": [ruled, container("other")], "restartPolicy": "Never"})
    pod.take()
    pod.exit(code=code)
    assert [text for text in pod.take() if not text.startswith("(")] == expected


def test_restarting_all_containers(life, container):
    sidecar = container("s", restartPolicy="Always", lifecycle={"preStop": PROBE})
    ruled = container(restartPolicy="Never", restartPolicyRules=RULES)
    pod = life(
        {
            "initContainers": [container("i"), sidecar],
            "containers": [ruled, container("done"), container("other")],
            "restartPolicy": "Never",
        }
    )
    pod.exit("i")
    pod.exit("done")
    pod.take()
    assert pod.status()["phase"] == "Running"
    pod.exit(code=88)
    # no grace, no preStop hook, no order
    assert pod.take() == [
        "(RestartAllContainers: Container main exited with code 88: restarting all containers)",
        "signal 9 to s#0",
        "signal 9 to other#0",
    ]
    conditions = {c["type"]: c for c in pod.status()["conditions"]}
    assert conditions["AllContainersRestarting"]["reason"] == "RestartAllContainersStarted"
    pod.exit("other", 137)
    assert pod.take() == []
    pod.exit("s", 137)
    assert pod.take() == ["start i#1"]
    conditions = {c["type"]: c["status"] for c in pod.status()["conditions"]}
    assert (conditions["AllContainersRestarting"], conditions["Initialized"]) == ("False", "True")
    assert pod.phase() == "Pending"
    pod.exit("i")
    assert pod.take() == ["start s#1", "start main#1", "start done#1", "start other#1"]
    assert {name: pod.shown(name)["restartCount"] for name in ("i", "s", "main", "done", "other")} == dict.fromkeys(
        ("i", "s", "main", "done", "other"), 1
    )
    assert pod.shown("done")["lastState"]["terminated"]["exitCode"] == 0


def test_back_off_doubles_up_to_its_limit_and_is_forgotten_after_a_long_run(life, container):
    pod = life({"containers": [container()]}, back_off=BackOff(base_s=10, max_s=40, reset_after_s=600))
    pod.take()
    waits = []
    for _ in range(6):
        before = pod.now
        pod.exit(code=1)
        while pod.state.containers["main"].phase.value == "waiting":
            pod.wait(1)
        waits.append((pod.now - before).total_seconds())
    assert waits == [0, 10, 20, 40, 40, 40]
    pod.wait(601)
    pod.take()
    pod.exit(code=1)
    assert pod.take() == ["start main#7"]


def test_a_waiting_container_says_why(life, container):
    pod = life({"containers": [container()]})
    pod.exit(code=1)
    pod.exit(code=2)
    shown = pod.shown()
    assert shown["state"]["waiting"] == {
        "reason": "CrashLoopBackOff",
        "message": "back-off 10s restarting failed container=main pod=p",
    }
    assert shown["lastState"]["terminated"]["exitCode"] == 2
    assert shown["restartCount"] == 1
    assert shown["ready"] is shown["started"] is False


def test_missing_configuration_waits_and_is_tried_again(life, container):
    pod = life({"containers": [container()]}, manual=True)
    pod.tell(SandboxReady("10.0.0.1"))
    assert pod.take() == ["create sandbox", "start main#0"]
    pod.tell(StartFailed("main", 0, "CreateContainerConfigError", 'configmap "c" not found'))
    assert pod.take() == ['(Failed: Error: configmap "c" not found)']
    assert pod.shown()["state"]["waiting"] == {
        "reason": "CreateContainerConfigError",
        "message": 'configmap "c" not found',
    }
    pod.wait(2)
    assert pod.take() == ["2s start main#0"]
    pod.tell(Started("main", 0))
    assert pod.shown()["restartCount"] == 0


def test_a_start_that_cannot_be_is_an_end(life, container):
    pod = life({"containers": [container()], "restartPolicy": "Never"}, manual=True)
    pod.tell(SandboxReady("10.0.0.1"))
    pod.tell(StartFailed("main", 0, "StartError", "no such file: x", 127))
    ended = pod.shown()["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (127, "StartError", "no such file: x")
    assert pod.phase() == "Failed"


def test_an_end_reported_before_the_start(life, container):
    pod = life({"containers": [container()], "restartPolicy": "Never"}, manual=True)
    pod.tell(SandboxReady("10.0.0.1"))
    pod.exit(code=3)
    pod.tell(Started("main", 0))
    assert pod.phase() == "Failed"
    assert pod.shown()["state"]["terminated"]["exitCode"] == 3


def test_the_sandbox_is_tried_again(life, container):
    pod = life({"containers": [container()]}, manual=True)
    pod.tell(SandboxFailed("FailedMount", 'volume "v": no'))
    assert pod.take() == ["create sandbox", '(FailedMount: volume "v": no)']
    assert pod.phase() == "Pending"
    pod.wait(2)
    assert pod.take() == ["2s create sandbox"]


def test_the_active_deadline_ends_the_pod_as_failed_however_its_containers_end(life, container):
    pod = life({"containers": [container()], "activeDeadlineSeconds": 60})
    pod.take()
    pod.wait(60)
    assert pod.take() == ["60s signal 15 to main#0"]
    assert pod.phase() == "Running"
    pod.exit(code=0)
    status = pod.status()
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")


@pytest.mark.parametrize("grace_s", [0, 30])
def test_deletion_before_anything_ran(life, container, grace_s):
    pod = life({"containers": [container()]}, manual=True)
    pod.take()
    pod.tell(DeletionRequested(grace_s))
    assert pod.take() == []  # the sandbox is still being made
    pod.tell(SandboxReady("10.0.0.1"))
    assert pod.take() == ["remove sandbox", "confirm deletion"]
    assert pod.phase() == "Failed"


def test_deletion_of_a_pod_that_is_over_is_confirmed_once(life, container):
    pod = life({"containers": [container()], "restartPolicy": "Never"})
    pod.exit()
    pod.take()
    pod.tell(DeletionRequested(30))
    assert pod.take() == ["confirm deletion"]
    pod.tell(DeletionRequested(0))
    pod.tell(Tick())
    assert pod.take() == []
    assert pod.phase() == "Succeeded"


def test_a_pod_that_is_gone_is_killed_and_nothing_is_confirmed(life, container):
    pod = life({"containers": [container(lifecycle={"preStop": PROBE})]})
    pod.take()
    pod.tell(Removed())
    assert pod.take() == ["signal 9 to main#0"]
    pod.exit(code=137)
    assert pod.take() == ["remove sandbox"]
    assert pod.state.stage is Stage.DONE


def test_a_container_in_back_off_at_the_end_shows_its_last_end(life, container):
    pod = life({"containers": [container()]})
    pod.exit(code=1)
    pod.exit(code=2)
    pod.tell(DeletionRequested(30))
    assert pod.shown()["state"]["terminated"]["exitCode"] == 2
    assert pod.phase() == "Failed"
