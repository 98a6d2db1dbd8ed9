"""What the commands for clusters show and send, from objects alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import click
import pytest
from command import jobset

from jobset.cli.board import GroupRow, JobRow, PodRow, SetRow, jobset_row, pod_notes
from jobset.cli.columns import Columns, age, age_since
from jobset.cli.connection import bare_name
from jobset.cli.documents import full_name, list_of
from jobset.cli.event_list import EventList, about, in_order, most_telling
from jobset.cli.log_sources import Selection, is_running, sources_of
from jobset.cli.pod_paths import parse_path, path_of_pod
from jobset.cli.restart import restart_patch
from jobset.cli.spec_words import spec_lines
from jobset.cli.tree import tree_lines
from jobset.cli.wait import holds, out_of_reach
from jobset.core.failed_containers import ContainerFailure, ended_containers, is_bad_end
from jobset.core.failed_containers import in_order as failures_in_order

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"), (0, "0s"), (119.9, "119s"), (120, "2m"), (200, "3m20s"), (600, "10m"), (10799, "179m"),
        (10800, "3h"), (15000, "4h10m"), (28800, "8h"), (172799, "47h"), (172800, "2d"), (180000, "2d2h"),
        (691200, "8d"), (86400 * 729, "729d"), (86400 * 740, "2y10d"),
    ],
)  # fmt: skip
def test_age(seconds: float, text: str) -> None:
    assert age(seconds) == text


def test_age_of_nothing() -> None:
    assert age_since(None, NOW) == "-"
    assert age_since("2026-01-01T11:59:00Z", NOW) == "60s"


def test_columns_grow_and_never_shrink() -> None:
    columns = Columns(["NAME", "X"])
    assert columns.table([["long-name", "1"]]) == ["NAME        X", "long-name   1"]
    assert columns.lines([["a", "2"]]) == ["a           2"]
    assert columns.lines([["", ""]]) == [""]


def set_row(*pods: PodRow) -> SetRow:
    job = JobRow("train-w-0", "starting", pods)
    return SetRow("JobSet", "train", "Starting", 2, (GroupRow("w", 1, 0, 0, 0, (job,)),))


def test_tree_of_many_pods_shows_those_in_trouble() -> None:
    pods = [PodRow(f"p-{index}", "ready", 0, "n1") for index in range(20)]
    pods[3] = PodRow("p-3", "backing off", 4, "n1", "CrashLoopBackOff")
    lines = [click.unstyle(line) for line in tree_lines(set_row(*pods), "5m")]
    assert lines == [
        "JobSet train  Starting  attempt 3  5m",
        "└─ w  0 ready of 1",
        "   └─ train-w-0  starting",
        "      ├─ p-3  backing off  4 restarts  CrashLoopBackOff",
        "      └─ … 19 ready (-o wide shows all)",
    ]
    everything = [click.unstyle(line) for line in tree_lines(set_row(*pods), "5m", everything=True)]
    assert len(everything) == 23
    assert everything[-1] == "      └─ p-19  ready  n1"


def test_tree_of_many_pods_in_trouble() -> None:
    pods = [PodRow(f"p-{index}", "pending", 0, "", "no room") for index in range(40)]
    lines = [click.unstyle(line) for line in tree_lines(set_row(*pods), "5m")]
    assert len(lines) == 3 + 16 + 1
    assert lines[-1].endswith("… 24 pending (-o wide shows all)")
    assert pod_notes(set_row(*pods)) == ["Pod p-0 and 39 more: no room"]


def test_tree_without_jobs() -> None:
    made = jobset("true")
    made["spec"]["replicatedJobs"][0]["dependsOn"] = [{"name": "x", "status": "Ready"}]
    lines = [click.unstyle(line) for line in tree_lines(jobset_row(made, (), ()), "1s")]
    assert lines == ["JobSet js  Starting  1s", "└─ w  0 ready of 1 (waits for x ready)"]


def test_spec_in_words() -> None:
    made = jobset("run me", name="js", pods=2, replicas=3)
    container = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"cpu": "2"}, "requests": {"memory": "1Gi"}}
    made["metadata"]["annotations"] = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
    made["spec"] |= {
        "startupPolicy": {"startupPolicyOrder": "InOrder"},
        "successPolicy": {"operator": "Any", "targetReplicatedJobs": ["w"]},
        "failurePolicy": {
            "maxRestarts": 1,
            "restartStrategy": "BlockingRecreate",
            "rules": [
                {
                    "action": "FailJobSet",
                    "onJobFailureReasons": ["BackoffLimitExceeded", "DeadlineExceeded"],
                    "onJobFailureMessagePatterns": ["x.*"],
                    "targetReplicatedJobs": ["w"],
                }
            ],
        },
        "network": {"enableDNSHostnames": True, "subdomain": "sub"},
        "coordinator": {"replicatedJob": "w", "podIndex": 1},
        "suspend": True,
        "managedBy": "someone/else",
        "ttlSecondsAfterFinished": 90,
    }
    assert spec_lines(made) == [
        "w: 3 Jobs of 2 pods each",
        "  container main (none): sh -c run me",
        "    asks for cpu 2, memory 1Gi",
        "  no retries",
        "Each Job has a rack to itself.",
        "Replicated jobs start one after the other, each once the one before is ready.",
        "It is completed when any Job of w succeeded.",
        "When a Job fails, all are restarted, 1 time at most.",
        "On a restart no Job is created before all old ones are gone (BlockingRecreate).",
        "Rule failurePolicyRule0: when a Job of w fails and the reason is BackoffLimitExceeded or DeadlineExceeded "
        "and the message matches x.*, fail the JobSet.",
        "Pods find each other as JOB-INDEX.sub.",
        "The coordinator is js-w-0-1.",
        "It is suspended.",
        "It is managed by someone/else.",
        "It is deleted 90s after it has finished.",
    ]


def event(kind: str, name: str, seconds: int = 0, version: str = "1", **fields: Any) -> Any:
    seen = (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata = {"name": f"e{version}", "resourceVersion": version, "namespace": "ns"}
    return {"metadata": metadata, "involvedObject": {"kind": kind, "name": name}, "lastTimestamp": seen, **fields}


@pytest.mark.parametrize(
    ("kind", "name", "belongs"),
    [
        ("JobSet", "js", True), ("JobSet", "js-w-0", False), ("Job", "js-w-0", True), ("Pod", "js-w-12-0-x7k2p", True),
        ("Pod", "js-v-0-0-x7k2p", False), ("Pod", "js-w-x-0-0", False), ("Node", "js-w-0", False),
    ],
)  # fmt: skip
def test_events_about_a_jobset(kind: str, name: str, belongs: bool) -> None:
    assert about("js", jobset("true"))(event(kind, name)) is belongs


def test_events_about_a_jobset_that_is_gone() -> None:
    assert about("js", None)(event("Pod", "js-whatever-0-0-abcde"))


def test_event_lines_are_in_order_and_counted() -> None:
    old = event("Pod", "p", 600, "9", type="Warning", reason="BackOff", message="again\nand again", count=3)
    new = event("Job", "j", 0, "10", type="Normal", reason="Created", message="one", series={"count": 2})
    assert in_order([new, old]) == [old, new]
    lines = [click.unstyle(line) for line in EventList(with_namespace=True).table([new, old], NOW)]
    assert lines[1].split() == ["ns", "10m", "Warning", "BackOff", "pod/p", "again", "and", "again", "(x3)"]
    assert lines[2].endswith("one (x2)")


def test_most_telling_events() -> None:
    daily = [event("Pod", f"p{n}", n, str(n), type="Normal") for n in range(5)]
    warning = event("Pod", "w", 900, "20", type="Warning")
    ours = event("JobSet", "js", 800, "21", type="Normal")
    assert most_telling([*daily, warning, ours], 3) == [warning, ours, daily[0]]
    assert most_telling([*daily, warning, ours], 2) == [warning, ours]
    assert most_telling([*daily, warning, ours], 1) == [ours]


@pytest.mark.parametrize(
    ("text", "selector"),
    [
        ("js", "jobset.sigs.k8s.io/jobset-name=js"),
        ("jobset/js", "jobset.sigs.k8s.io/jobset-name=js"),
        ("js/w", "jobset.sigs.k8s.io/jobset-name=js,jobset.sigs.k8s.io/replicatedjob-name=w"),
        (
            "js/w/0/3",
            "jobset.sigs.k8s.io/jobset-name=js,jobset.sigs.k8s.io/replicatedjob-name=w,"
            "jobset.sigs.k8s.io/job-index=0,batch.kubernetes.io/job-completion-index=3",
        ),
    ],
)
def test_place_of_pods(text: str, selector: str) -> None:
    assert parse_path(text).selector() == selector


@pytest.mark.parametrize("text", ["", "/w", "js/", "js/w/x", "js/w/0/0/0", "js//0", "js/w/-1"])
def test_no_place_of_pods(text: str) -> None:
    with pytest.raises(click.BadParameter):
        parse_path(text)


def test_names_as_kubectl_has_them() -> None:
    assert [bare_name(name) for name in ("js", "jobsets/js", "jobset.jobset.x-k8s.io/js", "pod/js")] == [
        "js", "js", "js", "pod/js",
    ]  # fmt: skip
    assert full_name({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}) == "configmap/c"
    listed = list_of([{"metadata": {"name": "a", "managedFields": [1]}}])
    assert listed["items"] == [{"metadata": {"name": "a"}}]


ALL_READY = [{"name": "w", "ready": 1}]


def conditioned(*conditions: tuple[str, str], **status: Any) -> Any:
    made = jobset("true")
    listed = [
        {"type": type_, "status": value, "lastTransitionTime": "2026-01-01T11:00:00Z"} for type_, value in conditions
    ]
    return {**made, "status": {"conditions": listed, **status}}


def test_restart_raises_the_number_of_this_version_only() -> None:
    made = conditioned(("Suspended", "False"), ("RestartingJobSet", "False"), restarts=4)
    made["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    patch = restart_patch(made, NOW)
    assert patch["metadata"] == {"uid": "u", "resourceVersion": "7"}
    assert patch["status"]["restarts"] == 5
    suspended, restarting = patch["status"]["conditions"]
    assert suspended == made["status"]["conditions"][0]
    assert (restarting["status"], restarting["lastTransitionTime"]) == ("True", "2026-01-01T12:00:00Z")


def test_restart_of_what_restarts_already_keeps_its_time() -> None:
    made = conditioned(("RestartingJobSet", "True"), restarts=1)
    made["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    (restarting,) = restart_patch(made, NOW)["status"]["conditions"]
    assert restarting["lastTransitionTime"] == "2026-01-01T11:00:00Z"
    made["status"] = {}
    assert restart_patch(made, NOW)["status"]["restarts"] == 1


@pytest.mark.parametrize(
    ("obj", "state", "reached", "lost"),
    [
        (conditioned(("Completed", "True")), "completed", True, True),
        (conditioned(("Failed", "True")), "completed", False, True),
        (conditioned(("Failed", "True")), "deleted", False, False),
        (conditioned(("Failed", "False")), "failed", False, False),
        (conditioned(("Mine", "Unknown")), "condition=mine=unknown", True, False),
        (conditioned(("Mine", "Unknown")), "condition=mine", False, False),
        (conditioned(replicatedJobsStatus=ALL_READY), "ready", True, False),
        (conditioned(("RestartingJobSet", "True"), replicatedJobsStatus=ALL_READY), "ready", False, False),
        (conditioned(), "ready", False, False),
    ],
)  # fmt: skip
def test_states_that_are_waited_for(obj: Any, state: str, reached: bool, lost: bool) -> None:
    assert holds(obj, state) is reached
    assert bool(out_of_reach(obj, state)) is lost


def pod_with(*statuses: Any, **metadata: Any) -> Any:
    found = {
        "jobset.sigs.k8s.io/jobset-name": "js", "jobset.sigs.k8s.io/replicatedjob-name": "w",
        "jobset.sigs.k8s.io/job-index": "1", "batch.kubernetes.io/job-completion-index": "0",
        "jobset.sigs.k8s.io/restart-attempt": "2",
    }  # fmt: skip
    return {
        "metadata": {"name": "js-w-1-0-abcde", "namespace": "ns", "uid": "u", "labels": found, **metadata},
        "spec": {"hostname": "js-w-1-0", "containers": [{"name": each["name"]} for each in statuses]},
        "status": {"containerStatuses": list(statuses)},
    }


RUNNING = {"name": "main", "restartCount": 1, "state": {"running": {}}}
WAITING = {"name": "side", "restartCount": 0, "state": {"waiting": {}}}


def test_sources_are_runs_that_have_begun() -> None:
    pod = pod_with(RUNNING, WAITING)
    (source,) = sources_of([pod], Selection())
    assert (source.container, source.run, source.short_name, source.attempt) == ("main", 1, "w-1-0/main", 3)
    assert is_running(pod, source)
    assert not is_running(pod_with({**RUNNING, "restartCount": 2}), source)
    (before,) = sources_of([pod], Selection(previous=True))
    assert before.run == 0
    assert sources_of([pod], Selection(container="side")) == []
    assert sources_of([pod], Selection(attempt=2)) == []
    assert path_of_pod(pod) == "js/w/1/0"


def failure(pod: str, finished: str, last_output: str = "") -> ContainerFailure:
    return ContainerFailure(pod, "main", 1, "Error", finished, last_output)


def test_who_failed_first_is_told_by_the_last_words_within_a_second() -> None:
    victim = failure("victim", "2026-01-01T12:00:00Z", "12:00:00.9")
    culprit = failure("culprit", "2026-01-01T12:00:01Z", "12:00:00.1")
    later = failure("later", "2026-01-01T12:00:05Z", "12:00:00.0")
    assert failures_in_order([later, victim, culprit]) == [culprit, victim, later]
    assert failures_in_order([]) == []


def test_ends_that_count_as_failures() -> None:
    ended = {"name": "main", "restartCount": 1, "state": {"terminated": {"exitCode": 143}}}
    ended["lastState"] = {"terminated": {"exitCode": 2}}
    pod = pod_with(ended)
    assert [(run, end["exitCode"]) for _, run, end in ended_containers(pod)] == [(1, 143), (0, 2)]
    told_to_end = pod_with(ended, deletionTimestamp="2026-01-01T12:00:00Z")
    assert is_bad_end(pod, {"exitCode": 143})
    assert not is_bad_end(told_to_end, {"exitCode": 143})
    assert not is_bad_end(pod, {"exitCode": 0})
