"""From a status and what is there of the pod to the machine's state: a table of moments at which a kubelet was lost."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from jobset.api.meta import format_time
from jobset.cluster.model.pod_lifecycle.adopting import Facts, Run, adopt
from jobset.cluster.model.pod_lifecycle.state import DeletionRequested, End, Phase, Stage, StopStep, Tick

PROBE = {"exec": {"command": ["true"]}, "periodSeconds": 10}
IP = "10.0.0.1"


class Lost:
    """A life whose kubelet is lost: `again` continues it from its last written status and what the runtime knows."""

    def __init__(self, life: Any) -> None:
        self.life = life
        self.status = life.status()

    def again(self, facts: Facts | None, grace_left_s: float | None = None) -> list[str]:
        """Adopt, tick; the transcript."""
        life = self.life
        life.take()
        life.state, instructions = adopt(
            life.state.spec, life.state.back_off, self.status, facts, life.now, grace_left_s
        )
        before = [type(instruction).__name__ for instruction in instructions]
        life.tell(Tick())
        return [name for name in before if name != "Notice"] + [text for text in life.take() if text[0] != "("]

    def phase_of(self, name: str = "main") -> Phase:
        return self.life.state.containers[name].phase


def run(life: Any, attempt: int = 0, code: int | None = None, signal: int = 0, lasted_s: float = 1) -> Run:
    started = life.now - timedelta(seconds=lasted_s)
    reason = "Completed" if code == 0 else "Error"
    end = None if code is None else End(code, reason, started, life.now, attempt)
    return Run(attempt, started, signal, end)


def facts(**runs: Run | list[Run]) -> Facts:
    return Facts(IP, {name: listed if isinstance(listed, list) else [listed] for name, listed in runs.items()})


@pytest.fixture
def lost(life):
    def made(spec, play=lambda pod: None, wait_s=0.0):
        pod = life(spec)
        play(pod)
        pod.wait(wait_s)
        return Lost(pod)

    return made


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
def test_a_run_that_goes_on_goes_on(lost, container, policy):
    pod = lost({"containers": [container()], "restartPolicy": policy}, wait_s=5)
    shown = pod.status
    assert pod.again(facts(main=run(pod.life, lasted_s=5))) == []
    assert (pod.phase_of(), pod.life.state.stage) == (Phase.RUNNING, Stage.RUNNING)
    assert pod.life.status() == shown, "nothing is worth a write"


@pytest.mark.parametrize(
    ("policy", "code", "transcript", "phase"),
    [
        ("Always", 0, ["start main#1"], "Running"),
        ("Always", 1, ["start main#1"], "Running"),
        ("OnFailure", 0, ["remove sandbox"], "Succeeded"),
        ("OnFailure", 1, ["start main#1"], "Running"),
        ("Never", 0, ["remove sandbox"], "Succeeded"),
        ("Never", 7, ["remove sandbox"], "Failed"),
    ],
)
def test_an_end_that_nobody_heard_is_heard(lost, container, policy, code, transcript, phase):
    pod = lost({"containers": [container()], "restartPolicy": policy})
    assert pod.again(facts(main=run(pod.life, code=code))) == transcript
    assert pod.life.phase() == phase


@pytest.mark.parametrize(
    ("policy", "transcript", "phase"),
    [
        ("Always", ["create sandbox", "start main#1"], "Running"),
        ("OnFailure", ["create sandbox", "start main#1"], "Running"),
        ("Never", ["remove sandbox"], "Failed"),
    ],
)
def test_what_is_lost_follows_its_policy(lost, container, policy, transcript, phase):
    pod = lost({"containers": [container()], "restartPolicy": policy})
    assert pod.again(None) == transcript
    assert pod.life.phase() == phase


def test_what_ended_before_the_loss_stays_ended(lost, container):
    spec = {"containers": [container("a"), container("b")], "restartPolicy": "OnFailure"}
    pod = lost(spec, lambda pod: pod.exit("a"))
    assert pod.again(None) == ["create sandbox", "start b#1"]
    assert pod.life.shown("a")["state"]["terminated"]["exitCode"] == 0


def test_a_pod_that_was_still_being_prepared_is_prepared(lost, container):
    pod = lost({"containers": [container()]})
    waiting = {"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}, "restartCount": 0}
    pod.status = {"phase": "Pending", "startTime": format_time(pod.life.now), "containerStatuses": [waiting]}
    assert pod.again(None) == ["create sandbox", "start main#0"]


def test_a_sandbox_that_nobody_reported_is_used(lost, container):
    pod = lost({"containers": [container()]})
    pod.status = {}
    assert pod.again(facts()) == ["start main#0"]
    assert pod.life.status()["podIP"] == IP


def test_a_start_that_nobody_reported_is_not_repeated(lost, container):
    pod = lost({"containers": [container()], "restartPolicy": "Never"})
    pod.status = {}
    assert pod.again(facts(main=run(pod.life))) == []
    pod.life.exit(code=3)
    assert pod.life.phase() == "Failed"


def test_a_start_that_failed_leaves_no_run_but_is_over(lost, container):
    pod = lost({"containers": [container(), container("other")], "restartPolicy": "Never"})
    moment = format_time(pod.life.now)
    failed = {"exitCode": 127, "reason": "StartError", "startedAt": moment, "finishedAt": moment}
    pod.status["containerStatuses"][0] |= {"state": {"terminated": failed}, "ready": False, "started": False}
    assert pod.again(facts(other=run(pod.life))) == []
    assert pod.phase_of() is Phase.EXITED
    assert pod.life.shown()["state"]["terminated"]["exitCode"] == 127


def test_init_containers_that_passed_are_passed(lost, container):
    spec = {"initContainers": [container("a"), container("b")], "containers": [container()]}
    pod = lost(spec, lambda pod: pod.exit("a"))
    assert pod.again(facts(a=run(pod.life, code=0), b=run(pod.life))) == []
    pod.life.exit("b")
    assert pod.life.take() == ["start main#0"]


def test_a_failed_init_container_fails_the_pod(lost, container):
    spec = {"initContainers": [container("a")], "containers": [container()], "restartPolicy": "Never"}
    pod = lost(spec)
    assert pod.again(facts(a=run(pod.life, code=1))) == ["remove sandbox"]
    assert pod.life.phase() == "Failed"


def test_lost_pods_begin_with_their_init_containers(lost, container):
    sidecar = container("s", restartPolicy="Always")
    spec = {"initContainers": [container("a"), sidecar], "containers": [container()]}
    pod = lost(spec, lambda pod: pod.exit("a"))
    assert pod.again(None) == ["create sandbox", "start a#1"]
    pod.life.exit("a")
    assert pod.life.take() == ["start s#1", "start main#1"]


def test_sidecars_end_with_the_main_containers_that_ended_unheard(lost, container):
    spec = {"initContainers": [container("s", restartPolicy="Always")], "containers": [container()]}
    spec["restartPolicy"] = "Never"
    pod = lost(spec)
    assert pod.again(facts(s=run(pod.life), main=run(pod.life, code=0))) == ["signal 15 to s#0"]
    both = lost(spec)
    assert both.again(facts(s=run(both.life, code=1), main=run(both.life, code=0))) == ["remove sandbox"]
    assert both.life.phase() == "Succeeded"


def test_readiness_stays_and_probes_go_on(lost, container):
    spec = {"containers": [container(readinessProbe=PROBE, livenessProbe=PROBE)]}
    pod = lost(spec, lambda pod: pod.probe("readiness", True), wait_s=3)
    assert pod.again(facts(main=run(pod.life))) == ["probe liveness of main", "probe readiness of main"]
    assert pod.life.shown()["ready"]


def test_a_startup_that_was_not_over_begins_again(lost, container):
    spec = {"containers": [container(startupProbe=PROBE, readinessProbe=PROBE)]}
    pod = lost(spec)
    assert pod.again(facts(main=run(pod.life))) == ["probe startup of main"]
    assert not pod.life.shown()["started"]


def test_a_hook_without_an_answer_is_run_again(lost, container):
    spec = {"containers": [container(lifecycle={"postStart": PROBE})]}
    pod = lost(spec)
    assert pod.again(facts(main=run(pod.life))) == ["RunHook"]
    answered = lost(spec, lambda pod: pod.hook("main", "postStart"))
    assert answered.again(facts(main=run(answered.life))) == []


def test_back_off_is_counted_from_the_restarts(lost, container):
    def crash_thrice(pod):
        pod.exit(code=1)
        for wait_s in (10, 20):
            pod.exit(code=1)
            pod.wait(wait_s)
        pod.exit(code=1)

    pod = lost({"containers": [container()]}, crash_thrice, wait_s=5)
    assert pod.life.shown()["state"]["waiting"]["message"].startswith("back-off 40s")
    end = pod.life.state.containers["main"].end
    last = Run(3, end.started_at, end=end)
    assert pod.again(facts(main=last)) == []
    assert "back-off 40s" in pod.life.shown()["state"]["waiting"]["message"]
    pod.life.wait(34)
    assert pod.life.take() == []
    pod.life.wait(2)
    assert [text.partition("s ")[2] for text in pod.life.take()] == ["start main#4"]


def test_a_run_that_was_told_to_stop_is_not_told_again(lost, container):
    spec = {"containers": [container(lifecycle={"preStop": PROBE})], "terminationGracePeriodSeconds": 30}

    def stopping(pod):
        pod.tell(DeletionRequested(30))
        pod.hook("main", "preStop")

    pod = lost(spec, stopping, wait_s=10)
    assert pod.again(facts(main=run(pod.life, signal=15)), grace_left_s=20) == []
    assert pod.life.state.containers["main"].stop.step is StopStep.SIGNALLED
    pod.life.wait(19)
    assert pod.life.take() == []
    pod.life.wait(2)
    assert pod.life.take() == ["30s signal 9 to main#0"]
    pod.life.exit(code=137)
    assert pod.life.take() == ["remove sandbox", "confirm deletion"]


def test_a_deletion_that_nobody_began_begins(lost, container):
    pod = lost({"containers": [container()]})
    assert pod.again(facts(main=run(pod.life)), grace_left_s=12) == ["signal 15 to main#0"]


def test_a_deleted_pod_of_which_nothing_is_left_is_over(lost, container):
    pod = lost({"containers": [container()]})
    assert pod.again(None, grace_left_s=30) == ["remove sandbox", "confirm deletion"]


def test_a_probe_that_stopped_a_container_makes_it_start_again(lost, container):
    spec = {"containers": [container(livenessProbe={**PROBE, "failureThreshold": 1})], "restartPolicy": "OnFailure"}
    pod = lost(spec, lambda pod: pod.probe("liveness", False))
    assert pod.again(facts(main=run(pod.life, signal=15))) == []
    pod.life.exit(code=0)
    assert pod.life.take()[0] == "start main#1"
    unheard = lost(spec, lambda pod: pod.probe("liveness", False))
    assert unheard.again(facts(main=run(unheard.life, code=0, signal=15)))[0] == "start main#1"


def test_a_deadline_that_passed_meanwhile_ends_the_pod(lost, container):
    pod = lost({"containers": [container()], "activeDeadlineSeconds": 60})
    pod.life.now += timedelta(seconds=100)
    assert pod.again(facts(main=run(pod.life))) == ["signal 15 to main#0"]
    pod.life.exit(code=143)
    assert pod.life.status()["reason"] == "DeadlineExceeded"


def test_restarting_all_containers_goes_on(lost, container):
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}
    spec = {"containers": [container("a", restartPolicyRules=[rule]), container("b")], "restartPolicy": "Never"}
    pod = lost(spec, wait_s=10)
    told = run(pod.life, code=88, lasted_s=9)
    assert pod.again(facts(a=told, b=run(pod.life, lasted_s=9))) == ["signal 9 to b#0"]
    pod.life.exit("b", 137)
    assert pod.life.take() == ["start a#1", "start b#1"]

    between = lost(spec, wait_s=10)
    old = [run(between.life, code=88, lasted_s=9), run(between.life, code=137, lasted_s=9)]
    between.life.now += timedelta(seconds=1)
    begun = facts(a=[old[0], run(between.life, attempt=1, lasted_s=0.5)], b=old[1])
    assert between.again(begun) == ["start b#1"], "what runs in its new life is left alone"
    assert between.phase_of("a") is Phase.RUNNING


def test_a_state_can_be_adopted_over_and_over(lost, container):
    spec = {"initContainers": [container("i")], "containers": [container(), container("other")]}
    pod = lost(spec, lambda pod: pod.exit("i"), wait_s=4)
    known = facts(i=run(pod.life, code=0), main=run(pod.life), other=run(pod.life))
    assert pod.again(known) == []
    first = pod.life.state
    pod.status = pod.life.status()
    assert pod.again(known) == []
    assert msgspec.structs.asdict(pod.life.state) == msgspec.structs.asdict(first)
