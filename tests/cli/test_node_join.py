"""`jobset node join` as a user runs it: a second node of a cluster, with real kubectl."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator

import pytest
from command import Started, new_mark, pod, processes_with, wait_until
from test_up import Kept, kept, needs_kubectl

__all__ = ["kept"]  # the fixture
pytestmark = [pytest.mark.timeout(120), needs_kubectl]
ENDS_SLOWLY = "trap 'sleep 0.5; exit 0' TERM; echo up; while :; do sleep 0.05; done"


@pytest.fixture
def join(kept: Kept) -> Iterator[Callable[..., Started]]:
    """`join(...)`: the command, when the node is in the cluster. What still runs is killed with the test."""
    started: list[Started] = []

    def begun(*arguments: str) -> Started:
        joined = kept.start("node", "join", "--kubeconfig", str(kept.kubeconfig), "--name", "desk", *arguments)
        started.append(joined)
        joined.wait_said("node desk is in the cluster")
        return joined

    yield begun
    for joined in started:
        joined.process.kill()
        joined.process.wait()


def node(kept: Kept) -> dict:
    found: dict = json.loads(kept.kubectl("get", "node", "desk", "-o", "json"))
    return found


def is_ready(kept: Kept) -> bool:
    conditions = node(kept)["status"].get("conditions", ())
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def on_desk(script: str, **fields) -> dict:
    return pod(script, nodeSelector={"kubernetes.io/hostname": "desk"}, **fields)


def test_a_machine_joins_runs_pods_and_leaves(kept: Kept, join) -> None:
    kept.up()
    joined = join("--labels", "zone=a,rack=r1", "--labels", "kind=desk", "--taint", "mine=yes:NoSchedule")
    wait_until(lambda: is_ready(kept))
    found = node(kept)
    assert {"zone": "a", "rack": "r1", "kind": "desk"}.items() <= found["metadata"]["labels"].items()
    assert found["spec"]["taints"] == [{"key": "mine", "value": "yes", "effect": "NoSchedule"}]
    assert (
        kept.kubectl("get", "lease", "desk", "-n", "kube-node-lease", "-o", "jsonpath={.spec.holderIdentity}") == "desk"
    )

    mark = new_mark()
    kept.apply(on_desk(f"sleep {mark}", tolerations=[{"key": "mine", "operator": "Exists"}]))
    running = kept.wait_pod("lone", "Running")
    assert running["spec"]["nodeName"] == "desk"
    assert processes_with(mark)

    joined.send(signal.SIGINT)
    assert joined.process.wait(30) == 0
    assert "node desk has left the cluster" in joined.output
    assert kept.kubectl("get", "nodes", "-o", "name").count("node/") == 1
    assert kept.kubectl("get", "pods", "-o", "name") == ""
    wait_until(lambda: not processes_with(mark))
    assert list(kept.temporary.iterdir()) == []


def test_an_end_is_reported_and_others_nodes_are_left_alone(kept: Kept, join) -> None:
    kept.up()
    names = kept.kubectl("get", "nodes", "-o", "jsonpath={.items[0].metadata.name}")
    taken = kept.run("node", "join", "--kubeconfig", str(kept.kubeconfig), "--name", names)
    assert taken.returncode == 1
    assert taken.stderr.startswith(f"error: the cluster has a node {names} already")
    joined = join()
    kept.apply(on_desk("echo hello; exit 3"))
    ended = kept.wait_pod("lone", "Failed")
    assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    joined.send(signal.SIGTERM)
    assert joined.process.wait(30) == 0


def test_a_second_interrupt_does_not_wait(kept: Kept, join) -> None:
    kept.up()
    joined = join()
    mark = new_mark()
    script = f"trap '' TERM; sleep {mark} & while :; do sleep 0.1; done"
    kept.apply(on_desk(script, terminationGracePeriodSeconds=300))
    kept.wait_pod("lone", "Running")
    joined.send(signal.SIGINT)
    joined.wait_said("waiting for 1 pod to end")
    joined.send(signal.SIGINT)
    assert joined.process.wait(30) == 0
    wait_until(lambda: not processes_with(mark))


def test_a_machine_that_was_killed_joins_again(kept: Kept, join) -> None:
    kept.up()
    first = join()
    kept.apply(on_desk("sleep 300", restartPolicy="OnFailure"))
    kept.wait_pod("lone", "Running")
    first.process.kill()
    first.process.wait()
    second = join()

    def restarted() -> bool:
        found = kept.wait_pod("lone", "Running")
        return bool(found["status"]["containerStatuses"][0]["restartCount"] == 1)

    wait_until(restarted)
    second.send(signal.SIGINT)
    assert second.process.wait(30) == 0
    wait_until(lambda: not list(kept.temporary.iterdir()), lambda: "the killed one left something")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--labels", "no"], "'no' is not a label: write KEY=VALUE"),
        (["--taint", "a=b"], "'a=b' is not a taint: write KEY[=VALUE]:EFFECT"),
        (["--kubeconfig", "/nowhere"], "/nowhere"),
    ],
)
def test_bad_input(kept: Kept, arguments: list[str], said: str) -> None:
    done = kept.run("node", "join", *arguments)
    assert done.returncode in (1, 2)
    assert said in done.stderr and "Traceback" not in done.stderr
