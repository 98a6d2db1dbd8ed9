"""Startup, liveness and readiness probes: when they are asked, and what thresholds lead to."""

import pytest

from jobset.cluster.model.pod_lifecycle.machine import next_wakeup
from jobset.cluster.model.pod_lifecycle.state import Probed

PROBE = {"exec": {"command": ["ok"]}}


def test_readiness_waits_for_the_probe_and_falls_after_the_threshold(life, container):
    probe = {**PROBE, "periodSeconds": 10, "failureThreshold": 2}
    pod = life({"containers": [container(readinessProbe=probe)]})
    assert pod.take() == ["create sandbox", "start main#0", "probe readiness of main"]
    assert (pod.shown()["started"], pod.shown()["ready"]) == (True, False)
    pod.probe("readiness", True)
    assert pod.shown()["ready"] is True
    pod.wait(20)
    pod.probe("readiness", False)
    assert pod.shown()["ready"] is True
    pod.wait(10)
    pod.probe("readiness", False)
    assert pod.shown()["ready"] is False
    assert pod.phase() == "Running"


def test_success_threshold_counts_answers_in_a_row(life, container):
    pod = life({"containers": [container(readinessProbe={**PROBE, "successThreshold": 2})]})
    for answer, ready in ((True, False), (False, False), (True, False), (True, True)):
        pod.probe("readiness", answer)
        assert pod.shown()["ready"] is ready
        pod.wait(10)


def test_initial_delay_and_period(life, container):
    pod = life({"containers": [container(livenessProbe={**PROBE, "initialDelaySeconds": 5, "periodSeconds": 3})]})
    pod.take()
    pod.wait(5)
    pod.probe("liveness", True)
    pod.wait(3)
    pod.probe("liveness", True)
    assert pod.take() == ["5s probe liveness of main", "8s probe liveness of main"]


def test_one_answer_is_awaited_at_a_time(life, container):
    pod = life({"containers": [container(livenessProbe={**PROBE, "periodSeconds": 1})]})
    pod.take()
    pod.wait(30)
    assert pod.take() == []
    pod.probe("liveness", True)
    assert pod.take() == ["probe liveness of main"]


def test_liveness_restarts_whatever_the_exit_code(life, container):
    probe = {**PROBE, "failureThreshold": 1}
    pod = life({"containers": [container(livenessProbe=probe)], "restartPolicy": "OnFailure"})
    pod.take()
    pod.probe("liveness", False)
    assert pod.take() == ["(Unhealthy: Liveness probe failed: seen)", "signal 15 to main#0"]
    pod.exit(code=0)
    assert pod.take() == ["start main#1", "probe liveness of main"]


def test_liveness_of_a_container_that_never_restarts_fails_the_pod(life, container):
    probe = {**PROBE, "failureThreshold": 1}
    pod = life({"containers": [container(livenessProbe=probe)], "restartPolicy": "Never"})
    pod.probe("liveness", False)
    pod.exit(code=143)
    assert pod.phase() == "Failed"


def test_a_probes_own_grace(life, container):
    probe = {**PROBE, "failureThreshold": 1, "terminationGracePeriodSeconds": 4}
    pod = life({"containers": [container(livenessProbe=probe)], "terminationGracePeriodSeconds": 60})
    pod.take()
    pod.probe("liveness", False)
    pod.wait(10)
    assert pod.take()[1:] == ["signal 15 to main#0", "4s signal 9 to main#0"]


def test_startup_holds_back_the_others(life, container):
    probes = {"startupProbe": {**PROBE, "periodSeconds": 2}, "livenessProbe": PROBE, "readinessProbe": PROBE}
    pod = life({"containers": [container(**probes)]})
    assert pod.take()[2:] == ["probe startup of main"]
    assert (pod.shown()["started"], pod.shown()["ready"]) == (False, False)
    pod.wait(2)
    pod.probe("startup", False)
    pod.take()
    pod.probe("startup", True)
    assert pod.take() == ["probe liveness of main", "probe readiness of main"]
    assert (pod.shown()["started"], pod.shown()["ready"]) == (True, False)


def test_startup_budget_used_up_restarts(life, container):
    probe = {**PROBE, "periodSeconds": 5, "failureThreshold": 3}
    pod = life({"containers": [container(startupProbe=probe)]})
    asked = []
    while "signal 15 to main#0" not in asked:
        pod.probe("startup", False)
        pod.wait(5)
        asked += pod.take()
    # four early tries that do not count, then three that do
    assert sum("probe startup" in text for text in asked) == 1 + 4 + 2
    assert sum("Unhealthy" in text for text in asked) == 3


def test_a_container_that_just_started_is_asked_soon_again(life, container):
    pod = life({"containers": [container(readinessProbe={**PROBE, "periodSeconds": 10, "failureThreshold": 1})]})
    pod.take()
    for _ in range(6):
        pod.probe("readiness", False)
        due = next_wakeup(pod.state, pod.now)
        pod.wait((due - pod.now).total_seconds())
    times = [float(text.split("s ")[0]) for text in pod.take() if "probe readiness" in text]
    assert times == pytest.approx([0.1, 0.3, 0.7, 1.5, 2.5, 3.5])
    pod.probe("readiness", True)
    assert pod.shown()["ready"] is True


def test_early_tries_are_never_rarer_than_the_period(life, container):
    pod = life({"containers": [container(startupProbe={**PROBE, "periodSeconds": 1, "initialDelaySeconds": 3})]})
    pod.take()
    pod.wait(3)
    pod.probe("startup", False)
    pod.wait(0.1)
    assert pod.take() == ["3s probe startup of main", "3.1s probe startup of main"]


def test_a_late_answer_of_an_earlier_attempt_changes_nothing(life, container):
    probe = {**PROBE, "failureThreshold": 1}
    pod = life({"containers": [container(livenessProbe=probe)]})
    pod.exit(code=1)
    pod.take()
    late = pod.state.containers["main"].attempt - 1
    pod.tell(Probed("main", late, "liveness", False))
    assert pod.take() == []
    assert pod.shown()["restartCount"] == 1
