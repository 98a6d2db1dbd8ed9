"""What `jobset run` says: JSON, events, logs, what is kept, and why it waits."""

import json
from pathlib import Path
from typing import Any

from command import ENDLESS, Place, jobset, new_mark, pod

CRASH_ONCE = """
echo attempt $JOBSET_RESTART_ATTEMPT
if [ $JOBSET_RESTART_ATTEMPT = 0 ] && [ $JOB_COMPLETION_INDEX = 1 ]; then echo out of luck >&2; exit 9; fi
[ $JOBSET_RESTART_ATTEMPT = 0 ] && sleep 30
true
"""


def crashing(place: Place, **fields: Any) -> str:
    name = "JOBSET_RESTART_ATTEMPT"
    path = "metadata.labels['jobset.sigs.k8s.io/restart-attempt']"
    env = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}]
    policy = {"failurePolicy": {"maxRestarts": 2}}
    fields.setdefault("terminationGracePeriodSeconds", 0)
    return place.write(jobset(CRASH_ONCE, pods=2, spec=policy, container={"env": env}, **fields))


def test_json_is_one_document_and_nothing_else(place: Place) -> None:
    done = place.run("run", crashing(place), "--output", "json")
    result = json.loads(done.stdout)
    assert (done.returncode, result["exitCode"], result["result"]) == (0, 0, "finished")
    (workload,) = result["workloads"]
    assert (workload["kind"], workload["name"], workload["result"]) == ("JobSet", "js", "Completed")
    assert workload["restarts"] == 1
    first, second = workload["attempts"]
    assert (first["outcome"], second["outcome"]) == ("Restarted", "Completed")
    (failure,) = first["failures"]
    assert failure["pod"].startswith("js-w-0-1-")
    assert failure["exitCode"] == 9
    assert failure["lastLines"] == ["attempt 0", "out of luck"]
    assert second["failures"] == []
    assert 0 < first["durationSeconds"] <= workload["durationSeconds"]


def test_the_summary_tells_why_it_restarted(place: Place) -> None:
    done = place.run("run", crashing(place), "--quiet")
    first, *rest = done.stdout.splitlines()
    assert first.startswith("JobSet js: Completed after")
    assert first.endswith(", 1 restart")
    told = "\n".join(rest)
    assert "attempt 1: restarted after" in told
    assert "js-w-0-1-" in told
    assert "exit code 9" in told
    assert "> out of luck" in told
    assert "attempt 2: completed after" in told
    assert rest[-1] == "logs: not kept (--logs DIR keeps them)"


def test_events_are_json_lines_of_the_documented_shape(place: Place) -> None:
    done = place.run("run", crashing(place), "--output", "events")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    shapes = {
        "note": {"text", "warning"},
        "added": {"object"},
        "changed": {"object"},
        "deleted": {"object"},
        "event": {"object"},
        "log": {"namespace", "pod", "container", "attempt", "stream", "line"},
        "result": {"result", "exitCode", "workloads", "logs"},
    }
    for event in events:
        assert event.keys() == {"time", "type"} | shapes[event["type"]]
    assert {event["type"] for event in events} == set(shapes)
    assert events[-1]["type"] == "result"
    assert {event["object"]["kind"] for event in events if event["type"] == "added"} == {"JobSet", "Job", "Pod"}
    assert [e["stream"] for e in events if e["type"] == "log" and e["line"] == "out of luck"] == ["stderr"]


def test_logs_are_copied_as_plain_lines(place: Place) -> None:
    logs = place.directory / "logs"
    stale = logs / "lone" / "main.log"
    stale.parent.mkdir(parents=True)
    stale.write_text("from an earlier run\n")
    manifest = place.write(pod("echo one; echo two >&2"), jobset("echo three"))
    done = place.run("run", manifest, "--logs", str(logs), "--quiet")
    assert done.returncode == 0
    assert sorted(stale.read_text().splitlines()) == ["one", "two"]
    (other,) = logs.glob("js-w-0-0-*/main.log")
    assert other.read_text() == "three\n"
    assert f"logs: {logs}" in done.stdout
    assert list(place.temporary.iterdir()) == []


def test_logs_that_cannot_be_written_are_refused_first(place: Place) -> None:
    (place.directory / "file").write_text("")
    done = place.run("run", place.write(jobset("true")), "--logs", str(place.directory / "file" / "logs"))
    assert done.returncode == 2
    assert "cannot be made" in done.stderr


def test_keep_leaves_logs_and_volumes_and_says_where(place: Place) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    container = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    workload = jobset("echo said; echo written > /data/result", container=container, volumes=volumes)
    done = place.run("run", place.write(workload, claim), "--keep")
    assert done.returncode == 0
    said = dict(line.split(": ", 1) for line in done.stdout.splitlines() if line.startswith(("logs: ", "volumes: ")))
    (log,) = Path(said["logs"]).rglob("0.log")
    assert log.read_text().endswith(" stdout F said\n")
    (result,) = Path(said["volumes"]).rglob("result")
    assert result.read_text() == "written\n"
    mounts = Path("/proc/self/mounts").read_text()
    assert str(place.temporary) not in mounts


def test_it_says_why_a_pod_is_not_scheduled(place: Place) -> None:
    nodes = place.write({"groups": [{"name": "small", "count": 1, "cpu": 1, "memory": "1Gi"}]}, name="nodes.yaml")
    workload = jobset("true", pods=3, container={"resources": {"requests": {"cpu": "16"}}})
    done = place.run("run", place.write(workload), "--nodes", nodes, "--timeout", "1.5s")
    assert done.returncode == 124
    running, summary = done.stdout.split("JobSet js: not finished")
    assert running.count("0/1 nodes are available: 1 Insufficient cpu") == 1
    assert "Job js-w-0 has 0 of 3 pods ready" in summary
    assert " and 2 more: 0/1 nodes are available: 1 Insufficient cpu" in summary


def test_it_says_which_config_map_a_pod_waits_for(place: Place) -> None:
    workload = jobset("true", container={"envFrom": [{"configMapRef": {"name": "absent"}}]})
    done = place.run("run", place.write(workload), "--timeout", "1.5s")
    assert done.returncode == 124
    assert done.stdout.count('configmap "absent" not found') == 2


def test_it_says_which_executable_is_missing(place: Place) -> None:
    done = place.run("run", place.write(jobset("true", container={"command": ["no-such-program"]})))
    assert done.returncode == 1
    summary = done.stdout[done.stdout.index("JobSet js: Failed") :]
    assert "StartError, exit code 127" in summary
    assert "> executable 'no-such-program' is not in PATH" in summary


def test_it_says_what_a_replicated_job_waits_for(place: Place) -> None:
    mark = new_mark()
    workload = jobset(ENDLESS.format(mark=mark))
    (first,) = workload["spec"]["replicatedJobs"]
    waiting = {**first, "name": "later", "dependsOn": [{"name": "w", "status": "Complete"}]}
    workload["spec"]["replicatedJobs"] = [first, waiting]
    done = place.run("run", place.write(workload), "--timeout", "1.5s", "--output", "json")
    (told,) = json.loads(done.stdout)["workloads"]
    assert told["result"] == "Running"
    assert any("later waits for" in reason for reason in told["waitsFor"])


def test_a_claim_that_nobody_made(place: Place) -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "absent"}}]
    done = place.run("run", place.write(jobset("true", volumes=volumes)), "--timeout", "1.5s")
    assert done.returncode == 124
    assert '"absent" not found' in done.stdout


def test_prefixes_tell_containers_apart(place: Place) -> None:
    second = {"name": "side", "image": "none", "command": ["echo", "beside"]}
    workload = jobset("echo before")
    workload["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"].append(second)
    done = place.run("run", place.write(workload))
    assert "w-0-0/main | before" in done.stdout
    assert "w-0-0/side | beside" in done.stdout
