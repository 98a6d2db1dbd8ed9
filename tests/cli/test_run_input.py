"""What `jobset run` takes: files, documents, standard input, addresses, settings, nodes; and what it refuses."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from command import ENDLESS, Place, job_template, jobset, new_mark, pod

CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
}


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def web_server(place: Place) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(place.directory))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def test_objects_of_all_kinds_in_several_files(place: Place) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"colour": "blue"}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"token": "s3cret"}}
    service = {
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "extra"},
        "spec": {"clusterIP": "None", "selector": {"app": "x"}},
    }  # fmt: skip
    priority = {
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10,
    }  # fmt: skip
    container = {
        "envFrom": [{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "key"}}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    script = "echo $colour $token; echo kept > /data/file-$HOSTNAME; ls /data"
    workload = jobset(script, container=container, volumes=volumes, priorityClassName="high")
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "alone"}, **job_template("echo from a job")}
    first = place.write(workload, config, name="first.yaml")
    second = place.write(secret, CLAIM, service, priority, job, pod("echo from a pod"), name="second.yaml")
    done = place.run("run", first, second)
    assert done.returncode == 0, done.stdout + done.stderr
    for said in ("blue s3cret", "file-js-w-0-0", "from a job", "from a pod"):
        assert f"| {said}" in done.stdout
    for summary in ("JobSet js: Completed", "Job alone: Completed", "Pod lone: Completed"):
        assert summary in done.stdout


def test_standard_input(place: Place) -> None:
    done = place.run("run", "-", stdin=json.dumps(jobset("echo from stdin")))
    assert done.returncode == 0
    assert "| from stdin" in done.stdout


def test_an_address(place: Place) -> None:
    place.write(jobset("echo from afar"), name="far.yaml")
    with web_server(place) as address:
        done = place.run("run", f"{address}/far.yaml")
        missing = place.run("run", f"{address}/nowhere.yaml")
    assert done.returncode == 0
    assert "| from afar" in done.stdout
    assert missing.returncode == 2
    assert "404" in missing.stderr


def test_settings_change_what_runs(place: Place) -> None:
    manifest = place.write(jobset("echo index $JOB_COMPLETION_INDEX of $JOBSET_NAME"))
    change = "spec.replicatedJobs[w].template.spec"
    done = place.run("run", manifest, "--set", f"{change}.parallelism=3", "--set", f"{change}.completions=3")
    assert done.returncode == 0
    assert "| index 2 of" in done.stdout


def test_namespace(place: Place) -> None:
    manifest = place.write(jobset("hostname -f 2>/dev/null; cat /etc/hosts"))
    done = place.run("run", manifest, "--namespace", "team-a", "--output", "json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["workloads"][0]["namespace"] == "team-a"
    refused = place.run("run", manifest, "--namespace", "Team A")
    assert refused.returncode == 2
    assert "'Team A' is not a name" in refused.stderr


def test_a_namespace_may_stand_in_the_manifest(place: Place) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}}
    workload = jobset("true")
    workload["metadata"]["namespace"] = "mine"
    assert place.run("run", place.write(workload, namespace)).returncode == 0


def test_virtual_nodes_of_a_file(place: Place) -> None:
    topology = [{"key": "rack", "pattern": "rack-{}", "hosts": 1}]
    group = {"name": "n", "count": 2, "cpu": 8, "memory": "8Gi", "topology": topology}
    nodes = place.write({"groups": [group]}, name="nodes.yaml")
    workload = jobset("echo on $NODE", replicas=2)
    workload["metadata"]["annotations"] = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
    container = workload["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]
    done = place.run("run", place.write(workload), "--nodes", nodes)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 nodes of" in done.stdout
    assert "| on n-0" in done.stdout
    assert "| on n-1" in done.stdout


def test_nodes_that_cannot_be_read(place: Place) -> None:
    nodes = place.write({"labels": "none"}, name="nodes.yaml")
    done = place.run("run", place.write(jobset("true")), "--nodes", nodes)
    assert done.returncode == 2
    assert done.stderr.startswith("error: --nodes")
    assert "Traceback" not in done.stderr


def test_nodes_are_made_to_fit(place: Place) -> None:
    done = place.run("run", place.write(jobset("echo fits", nodeSelector={"cloud.example/shape": "tpu"})))
    assert done.returncode == 0
    assert "1 virtual node made to fit the manifest" in done.stdout


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"suspend": True}, "spec.suspend: is true, and nothing on this machine will resume it"),
        ({"managedBy": "kueue.x-k8s.io/multikueue"}, "spec.managedBy: leaves it to kueue.x-k8s.io/multikueue"),
    ],
)
def test_what_could_never_finish_is_refused_with_its_fix(
    place: Place, change: dict[str, object], complaint: str
) -> None:
    manifest = place.write(jobset("echo ran", spec=change))
    done = place.run("run", manifest)
    assert done.returncode == 2
    assert complaint in done.stderr
    fix = done.stderr.split("--set ")[1].split()[0]
    assert place.run("run", manifest, "--set", fix).returncode == 0


def test_bad_manifests_end_before_anything_starts(place: Place) -> None:
    good, bad = place.write(jobset("true")), place.write(jobset("true", name="b", spec={"extra": 1}), name="bad.yaml")
    done = place.run("run", good, bad)
    assert done.returncode == 2
    assert "bad.yaml:1: spec.extra" in done.stderr
    assert done.stdout == ""
    assert list(place.temporary.iterdir()) == []


def test_a_missing_command_is_told_with_its_fix(place: Place) -> None:
    workload = jobset("true", container={"command": None})
    del workload["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]["command"]
    done = place.run("run", place.write(workload), "--timeout", "30s")
    assert done.returncode in (1, 2)
    assert "command" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_nothing_to_run(place: Place) -> None:
    done = place.run("run", place.write(CLAIM))
    assert done.returncode == 2
    assert "holds no JobSet, Job or Pod to run" in done.stderr


def test_what_only_the_api_can_refuse(place: Place) -> None:
    mark = new_mark()
    first = jobset(ENDLESS.format(mark=mark))
    clashing = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, **pod("true", priorityClassName="absent")}
    clashing["metadata"] = {"name": "p"}
    done = place.run("run", place.write(first, clashing))
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "absent" in done.stderr
    assert "Traceback" not in done.stderr
    assert place.left_behind(mark) == []


@pytest.mark.parametrize("duration", ["soon", "-1s", "1d"])
def test_durations_that_are_none(place: Place, duration: str) -> None:
    done = place.run("run", place.write(jobset("true")), "--timeout", duration)
    assert done.returncode == 2
    assert "90s, 15m or 1h30m" in done.stderr or "No such option" in done.stderr
