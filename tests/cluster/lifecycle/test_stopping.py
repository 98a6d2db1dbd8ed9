"""preStop, stop signal, grace, kill: one container's way out, second by second."""

from jobset.cluster.model.pod_lifecycle.state import DeletionRequested

HOOK = {"exec": {"command": ["drain"]}}


def test_hook_then_signal_then_kill(life, container):
    pod = life({"containers": [container(lifecycle={"preStop": HOOK})]})
    pod.take()
    pod.tell(DeletionRequested(30))
    assert pod.take() == ["preStop of main"]
    pod.wait(5)
    pod.hook("main", "preStop")
    assert pod.take() == ["signal 15 to main#0"]
    pod.wait(60)
    assert pod.take() == ["30s signal 9 to main#0"]


def test_a_hook_that_takes_all_the_grace_leaves_two_seconds(life, container):
    pod = life({"containers": [container(lifecycle={"preStop": HOOK})]})
    pod.take()
    pod.tell(DeletionRequested(10))
    pod.wait(60)
    assert pod.take() == ["preStop of main", "10s signal 15 to main#0", "12s signal 9 to main#0"]


def test_the_stop_signal_is_the_containers_own(life, container):
    pod = life({"containers": [container(lifecycle={"stopSignal": "SIGUSR1"}), container("b")]})
    pod.take()
    pod.tell(DeletionRequested(10))
    assert pod.take() == ["signal 15 to b#0", "signal 10 to main#0"]


def test_without_grace_there_is_only_the_kill(life, container):
    pod = life({"containers": [container(lifecycle={"preStop": HOOK})]})
    pod.take()
    pod.tell(DeletionRequested(0))
    assert pod.take() == ["signal 9 to main#0"]


def test_a_second_deletion_shortens_the_grace(life, container):
    pod = life({"containers": [container()]})
    pod.take()
    pod.tell(DeletionRequested(300))
    pod.wait(5)
    pod.tell(DeletionRequested(3))
    assert pod.take() == ["signal 15 to main#0"]
    pod.wait(10)
    assert pod.take() == ["8s signal 9 to main#0"]
    pod.tell(DeletionRequested(0))
    assert pod.take() == []  # it is being killed already


def test_a_second_deletion_without_grace_kills_now(life, container):
    pod = life({"containers": [container(lifecycle={"preStop": HOOK})]})
    pod.take()
    pod.tell(DeletionRequested(300))
    pod.tell(DeletionRequested(0))
    assert pod.take() == ["preStop of main", "signal 9 to main#0"]


def test_sidecars_get_two_seconds_when_the_grace_is_used_up(life, container):
    pod = life({"initContainers": [container("s", restartPolicy="Always")], "containers": [container()]})
    pod.take()
    pod.tell(DeletionRequested(10))
    pod.wait(20)
    assert pod.take() == [
        "signal 15 to main#0",
        "10s signal 9 to main#0",
        "10s signal 15 to s#0",
        "12s signal 9 to s#0",
    ]


def test_a_failed_hook_does_not_keep_the_container_alive(life, container):
    pod = life({"containers": [container(lifecycle={"preStop": HOOK})]})
    pod.take()
    pod.tell(DeletionRequested(30))
    pod.hook("main", "preStop", ok=False)
    assert pod.take() == ["preStop of main", "(FailedPreStopHook: PreStopHook failed: boom)", "signal 15 to main#0"]
