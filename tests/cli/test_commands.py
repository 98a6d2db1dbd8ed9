"""The commands against a cluster, on one of `jobset up` with real pods, through its HTTPS door."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from command import Place, job_template, jobset, wait_until

from jobset.cli.main import cli

pytestmark = [pytest.mark.timeout(120), pytest.mark.xdist_group("commands")]
STAYS = "echo up $JOB_COMPLETION_INDEX; exec sleep 1000"


class Cluster(Place):
    """A cluster of its own, and commands that run in this process, or as real ones (`run`, `start`)."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.kubeconfig = directory / "state/jobset/local/kubeconfig"

    def environment(self) -> dict[str, str]:
        own = {"XDG_STATE_HOME": str(self.directory / "state"), "KUBECONFIG": str(self.kubeconfig)}
        return {**super().environment(), **own}

    def ask(self, *arguments: str, stdin: str = "") -> Result:
        environment = {"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.directory)}
        return CliRunner().invoke(cli, arguments, input=stdin, env=environment, prog_name="jobset")

    def told(self, *arguments: str, stdin: str = "") -> str:
        result = self.ask(*arguments, stdin=stdin)
        assert result.exit_code == 0, result.output
        return result.stdout

    def refused(self, *arguments: str, code: int = 1) -> str:
        result = self.ask(*arguments)
        assert result.exit_code == code, result.output
        return result.stderr

    def json(self, *arguments: str) -> Any:
        return json.loads(self.told(*arguments, "-o", "json"))

    def apply(self, obj: Any) -> str:
        return self.told("apply", "-f", "-", stdin=json.dumps(obj))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    done = cluster.run("up", "--detach", "--network", "host", "--store", "memory")
    assert done.returncode == 0, done.stdout + done.stderr
    yield cluster
    assert cluster.run("down").returncode == 0


@pytest.fixture
def cluster(kept: Cluster) -> Iterator[Cluster]:
    """Without JobSets before and after."""
    yield kept
    kept.told("delete", "--all", "--wait", "--timeout", "30s")


def two_groups(name: str = "train") -> Any:
    made = jobset(STAYS, name=name, replicas=2, pods=2)
    made["spec"]["replicatedJobs"].insert(0, {"name": "driver", "replicas": 1, "template": job_template(STAYS)})
    made["spec"]["failurePolicy"] = {"maxRestarts": 3}
    return made


def ready(cluster: Cluster, name: str) -> None:
    cluster.told("wait", name, "--for", "ready", "--timeout", "30s")


def test_a_life_from_apply_to_delete(cluster: Cluster) -> None:
    full = "jobset.jobset.x-k8s.io/train"
    assert "no JobSets in namespace default" in cluster.ask("get").stderr
    assert cluster.apply(two_groups()) == f"{full} created\n"
    assert cluster.apply(two_groups()) == f"{full} unchanged\n"
    assert cluster.told("wait", "train", "--for", "ready", "--timeout", "30s") == f"{full} ready\n"
    header, line = cluster.told("get").splitlines()
    assert header.split() == ["NAME", "STATE", "RESTARTS", "READY", "AGE"]
    assert line.split()[:4] == ["train", "Running", "0", "3/3"]
    assert cluster.told("get", "-A").split()[5:7] == ["AGE", "default"]
    assert cluster.told("get", "-o", "name") == f"{full}\n"
    assert "driver 1/1, w 2/2" in cluster.told("get", "-o", "wide")
    assert cluster.json("get")["items"][0]["metadata"]["name"] == "train"
    assert "managedFields" not in cluster.json("get", full)["metadata"]
    tree = cluster.told("get", "train").splitlines()
    assert tree[1:3] == ["├─ driver  1 ready of 1", "│  └─ train-driver-0  ready"]
    assert sum(1 for line in tree if line.endswith("  ready")) == 3 + 5
    assert cluster.told("suspend", "train") == f"{full} suspended\n"
    assert cluster.told("suspend", "train") == f"{full} suspended already\n"
    assert cluster.told("wait", "train", "--for", "condition=suspended", "--timeout", "30s")
    assert cluster.told("resume", "train") == f"{full} resumed\n"
    ready(cluster, "train")
    assert cluster.told("delete", "train", "--cascade", "foreground", "--wait") == f"{full} deleted\n"
    assert cluster.told("wait", "train", "--for", "deleted") == f"{full} deleted\n"
    assert cluster.refused("get", "train") == "error: there is no JobSet train in namespace default; there are none\n"


def test_restart_is_an_attempt_that_does_not_count(cluster: Cluster) -> None:
    cluster.apply(two_groups())
    ready(cluster, "train")
    assert cluster.told("restart", "train") == "jobset.jobset.x-k8s.io/train restarted (attempt 2)\n"
    ready(cluster, "train")
    status = cluster.json("get", "train")["status"]
    assert (status["restarts"], status.get("restartsCountTowardsMax", 0)) == (1, 0)
    events = cluster.told("events", "train")
    assert "JobsReady" in events
    lines = [json.loads(line) for line in cluster.told("logs", "train", "-o", "json").splitlines()]
    assert [line["attempt"] for line in lines] == [2] * 5
    cluster.told("suspend", "train")
    assert "is suspended: jobset resume train starts it" in cluster.refused("restart", "train")


def test_a_finished_jobset_is_neither_restarted_nor_suspended(cluster: Cluster) -> None:
    cluster.apply(jobset("exit 0", name="done"))
    assert cluster.told("wait", "done", "--timeout", "30s").endswith("completed\n")
    for command in ("restart", "suspend", "resume"):
        assert "JobSet done is completed" in cluster.refused(command, "done")
    assert "is completed, so it will never be failed" in cluster.refused("wait", "done", "--for", "failed")


def test_wait_gives_up_when_it_cannot_come(cluster: Cluster) -> None:
    cluster.apply(jobset("exit 3", name="bad"))
    assert "is failed, so it will never be completed" in cluster.refused("wait", "bad", "--timeout", "30s")
    cluster.apply(jobset(STAYS, name="slow"))
    began = time.monotonic()
    assert "timed out waiting" in cluster.refused("wait", "slow", "--timeout", "0.3s")
    assert time.monotonic() - began < 5
    assert cluster.told("wait", "bad", "--for", "condition=Failed=true").endswith("condition=Failed=true is met\n")
    assert "none of completed" in cluster.refused("wait", "bad", "--for", "well", code=2)


def test_describe_says_what_failed_first(cluster: Cluster) -> None:
    made = jobset("echo begin; echo boom >&2; exit 3", name="bad")
    made["spec"]["replicatedJobs"].append(
        {"name": "after", "dependsOn": [{"name": "w", "status": "Complete"}], "template": job_template(STAYS)}
    )
    made["metadata"]["labels"] = {"team": "ml"}
    cluster.apply(made)
    cluster.told("wait", "bad", "--for", "failed", "--timeout", "30s")
    text = cluster.told("describe", "bad")
    for part in ("team=ml", "starts once w is complete", "It fails when any Job fails.", "BackoffLimitExceeded"):
        assert part in text
    assert "(main): exit code 3" in text
    assert text.index("> begin") < text.index("> boom")
    found = cluster.json("describe", "bad")
    assert found["state"] == "Failed"
    assert found["failures"][0]["lastLines"] == ["begin", "boom"]
    assert found["waitsFor"] == []


def test_describe_says_why_it_waits(cluster: Cluster) -> None:
    made = two_groups()
    made["spec"]["replicatedJobs"][1]["dependsOn"] = [{"name": "driver", "status": "Complete"}]
    cluster.apply(made)
    wait_until(lambda: "Running" in cluster.told("get", "train") or "1 ready" in cluster.told("get", "train"))
    assert "Replicated job w waits for dependsOn: driver must be complete" in cluster.told("describe", "train")


def test_logs_of_all_pods_of_one_and_of_none(cluster: Cluster) -> None:
    cluster.apply(two_groups())
    ready(cluster, "train")
    wait_until(lambda: len(cluster.told("logs", "train").splitlines()) == 5)
    lines = cluster.told("logs", "train").splitlines()
    assert sorted(lines) == [
        "driver-0-0 | up 0", "w-0-0      | up 0", "w-0-1      | up 1", "w-1-0      | up 0", "w-1-1      | up 1",
    ]  # fmt: skip
    assert cluster.told("logs", "train/w/1/1", "--no-prefix") == "up 1\n"
    assert cluster.told("logs", "train", "-r", "driver", "--tail", "0") == ""
    assert cluster.told("logs", "train", "--index", "1", "--timestamps").count("T") == 2
    assert "has no replicated job x; there are: driver, w" in cluster.refused("logs", "train/x")
    assert "no pod has a container x; there are: main" in cluster.refused("logs", "train", "-c", "x")
    assert "is in attempt 1: attempt 2 has not come" in cluster.refused("logs", "train", "--attempt", "2")
    assert "No container of JobSet train has been restarted" in cluster.ask("logs", "train", "-p").stderr
    cluster.told("restart", "train")
    ready(cluster, "train")
    assert "attempt 1 of JobSet train is over" in cluster.refused("logs", "train", "--attempt", "1")


def test_logs_are_followed_through_a_restart_to_the_end(cluster: Cluster) -> None:
    script = '[ "$JOBSET_RESTART_ATTEMPT" = 1 ] && { echo second; sleep 1; exit 0; }; echo first; exec sleep 1000'
    made = jobset(script, name="f", container={"env": [_attempt_variable()]})
    made["spec"]["failurePolicy"] = {"maxRestarts": 1}
    cluster.apply(made)
    with cluster.start("logs", "-f", "f") as following:
        following.wait_said("w-0-0 | first")
        cluster.told("restart", "f")
        assert following.end() == 0
        assert following.output == "w-0-0 | first\nw-0-0 | second\n"
        assert following.errors == "JobSet f is restarted: attempt 2\nJobSet f is completed\n"


def _attempt_variable() -> Any:
    path = "metadata.annotations['jobset.sigs.k8s.io/restart-attempt']"
    return {"name": "JOBSET_RESTART_ATTEMPT", "valueFrom": {"fieldRef": {"fieldPath": path}}}


def test_logs_wait_for_pods_that_are_not_there_yet(cluster: Cluster) -> None:
    made = jobset("echo here; exit 0", name="later")
    made["spec"]["suspend"] = True
    cluster.apply(made)
    assert "is suspended and has no pods" in cluster.ask("logs", "later").stderr
    with cluster.start("logs", "-f", "later") as following:
        cluster.told("resume", "later")
        assert following.end() == 0
        assert following.output == "w-0-0 | here\n"


def test_exec_carries_streams_and_exit_code(cluster: Cluster) -> None:
    cluster.apply(two_groups())
    ready(cluster, "train")
    done = cluster.run("exec", "train/w/1/1", "--", "sh", "-c", "echo at $JOB_COMPLETION_INDEX; echo no >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "at 1\n", "no\n")
    data = "x" * 300_000
    done = cluster.run("exec", "-i", "train/driver/0/0", "--", "wc", "-c", stdin=data)
    assert (done.returncode, done.stdout.strip()) == (0, "300000")
    name = cluster.json("get", "train")["metadata"]["name"]
    done = cluster.run("exec", name, "--", "true")
    assert (done.returncode, "in pod train/driver/0/0" in done.stderr) == (0, True)
    assert "there is no pod train/w/5/0" in cluster.refused("exec", "train/w/5", "--", "ls")
    assert "has no container x; there are: main" in cluster.refused("exec", "train", "-c", "x", "--", "ls")
    failed = cluster.run("exec", "train/driver/0/0", "--", "no-such-program")
    assert (failed.returncode, "no-such-program" in failed.stderr) == (1, True)


def test_exec_on_a_terminal(cluster: Cluster) -> None:
    cluster.apply(jobset(STAYS, name="js"))
    ready(cluster, "js")
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    script = "echo ready; read word; test -t 1 && exit 5"
    command = cluster.command("exec", "-it", "js/w/0/0", "--", "sh", "-c", script)
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, env=cluster.environment()) as process:
        seen = b""
        while b"ready" not in seen:
            seen += os.read(ours, 1000)
        os.write(ours, b"go\r")
        assert process.wait(timeout=30) == 5
    assert termios.tcgetattr(theirs) == before, "the terminal is as it was"
    os.close(ours)
    os.close(theirs)


def test_apply_sends_nothing_of_a_bad_manifest(cluster: Cluster) -> None:
    good, bad = jobset(STAYS, name="good"), jobset(STAYS, name="Bad")
    bad["spec"]["replicatedJobs"][0]["replicsa"] = 2
    result = cluster.ask("apply", "-f", cluster.write(good, bad))
    assert result.exit_code == 2
    assert "replicsa" in result.stderr
    assert cluster.json("get")["items"] == []
    unnamed = jobset(STAYS)
    unnamed["metadata"] = {"generateName": "js-"}
    assert "kubectl create makes one" in cluster.refused("apply", "-f", cluster.write(unnamed), code=2)
    elsewhere = jobset(STAYS)
    elsewhere["metadata"]["namespace"] = "other"
    refused = cluster.refused("apply", "-n", "default", "-f", cluster.write(elsewhere), code=2)
    assert "is other, and --namespace is default" in refused


def test_apply_goes_on_after_what_the_cluster_refuses(cluster: Cluster) -> None:
    cluster.apply(jobset(STAYS, name="js"))
    changed = jobset(STAYS, name="js", replicas=2)
    result = cluster.ask("apply", "-f", cluster.write(changed, jobset(STAYS, name="other")))
    assert result.exit_code == 1
    assert "spec.replicatedJobs" in result.stderr
    assert result.stdout == "jobset.jobset.x-k8s.io/other created\n"


def test_apply_knows_other_kinds_and_dry_runs(cluster: Cluster) -> None:
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}, "rules": []}
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}
    path = cluster.write(role, settings)
    said = cluster.told("apply", "-f", path, "--dry-run").splitlines()
    assert said == ["role.rbac.authorization.k8s.io/r created (dry run)", "configmap/c created (dry run)"]
    assert cluster.told("apply", "-f", path, "-o", "name").splitlines() == [
        "role.rbac.authorization.k8s.io/r", "configmap/c",
    ]  # fmt: skip
    settings["data"] = {"a": "c"}
    assert cluster.apply(settings) == "configmap/c configured\n"
    strange = {"apiVersion": "example.com/v1", "kind": "Strange", "metadata": {"name": "s"}}
    assert cluster.ask("apply", "-f", cluster.write(strange)).exit_code == 1


def test_apply_names_who_owns_a_field(cluster: Cluster) -> None:
    made = jobset(STAYS, name="js")
    cluster.apply(made)
    cluster.told("suspend", "js")
    made["spec"]["suspend"] = False
    result = cluster.ask("apply", "-f", cluster.write(made))
    assert result.exit_code == 1
    assert ".spec.suspend" in result.stderr
    assert "--force-conflicts" in result.stderr
    assert cluster.told("apply", "--force-conflicts", "-f", cluster.write(made)).endswith("configured\n")


def test_watching_shows_changes(cluster: Cluster) -> None:
    with cluster.start("get", "-w") as watching:
        watching.wait_said("NAME")
        cluster.apply(jobset(STAYS, name="w1"))
        watching.wait_said("Running")
        cluster.told("delete", "w1")
        watching.wait_said("Deleted")
    cluster.apply(jobset(STAYS, name="w2"))
    with cluster.start("get", "w2", "-w") as watching:
        watching.wait_said("  ready")
        cluster.told("delete", "w2")
        assert watching.end() == 0
        assert watching.output.endswith("JobSet w2 is deleted\n")
    with cluster.start("events", "-w", "w3", "-o", "json") as watching:
        cluster.apply(jobset(STAYS, name="w3"))
        watching.wait_said("SuccessfulCreate")
        watching.send(signal.SIGINT)
        assert watching.end() == 130


def test_delete_says_what_it_needs(cluster: Cluster) -> None:
    assert "name the JobSets" in cluster.refused("delete", code=2)
    assert "there is no JobSet x" in cluster.refused("delete", "x")
    assert cluster.told("delete", "x", "--ignore-not-found") == ""
    cluster.apply(jobset(STAYS, name="a"))
    assert "would be deleted (dry run)" in cluster.told("delete", "a", "--dry-run")
    assert cluster.json("delete", "jobset/a")["metadata"]["name"] == "a"


def test_a_name_that_is_nearly_right(cluster: Cluster) -> None:
    cluster.apply(jobset(STAYS, name="train"))
    assert '(did you mean "train"?)' in cluster.refused("get", "trian")
    assert "there is one in namespace default" in cluster.refused("get", "train", "-n", "kube-system")


def test_completion_of_names(cluster: Cluster) -> None:
    cluster.apply(jobset(STAYS, name="train"))
    ready(cluster, "train")

    def completed(*words: str) -> set[str]:
        environment = {
            **cluster.environment(), "_JOBSET_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(("jobset", *words)), "COMP_CWORD": str(len(words)),
        }  # fmt: skip
        done = subprocess.run(
            [*cluster.command()], env=environment, capture_output=True, text=True, timeout=30, check=False
        )
        assert done.stderr == ""
        return {line.removeprefix("plain,") for line in done.stdout.splitlines() if line}

    assert completed("get", "tr") == {"train"}
    assert completed("logs", "train/") == {"train/w/0/0"}
    assert completed("get", "--context", "j") == {"jobset-local"}
    assert "kube-system" in completed("get", "-n", "kube")
    assert completed("get", "--kubeconfig", "/nowhere", "tr") == set()


def test_errors_name_cluster_and_cause(cluster: Cluster, tmp_path: Path) -> None:
    text = cluster.kubeconfig.read_text()
    broken = tmp_path / "config"

    def refused(content: str) -> str:
        broken.write_text(content)
        return cluster.refused("get", "--kubeconfig", str(broken))

    port = text.partition("https://127.0.0.1:")[2].split()[0]
    unreachable = refused(text.replace(f"127.0.0.1:{port}", "127.0.0.1:1"))
    assert "cannot reach https://127.0.0.1:1: connection refused (context jobset-local)" in unreachable
    lines = [line for line in text.splitlines() if "client-certificate-data" not in line]
    stranger = "\n".join("    token: unknown" if "client-key-data" in line else line for line in lines)
    assert "does not accept your credentials (context jobset-local)" in refused(stranger)
    no_authority = "\n".join(line for line in text.splitlines() if "certificate-authority-data" not in line)
    assert "its certificate is not trusted" in refused(no_authority)
    assert "there are jobset-local" in cluster.refused("get", "--context", "x")
    assert "/nowhere does not exist" in cluster.refused("get", "--kubeconfig", "/nowhere")


def test_who_may_not_is_told_so(cluster: Cluster, tmp_path: Path) -> None:
    cluster.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "guest"}})
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "guest"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "guest", "namespace": "default"}],
    }  # fmt: skip
    rules = [{"apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"], "verbs": ["get", "list"]}]
    role = {"apiVersion": binding["apiVersion"], "kind": "Role", "metadata": {"name": "reader"}, "rules": rules}
    cluster.told("apply", "-f", cluster.write(role, binding))
    token = subprocess.run(
        ["kubectl", "create", "token", "guest"], env=cluster.environment(), capture_output=True, text=True, check=True
    ).stdout.strip()
    text = cluster.kubeconfig.read_text().splitlines()
    lines = [line for line in text if "client-certificate-data" not in line]
    guest = tmp_path / "guest"
    guest.write_text("\n".join(f"    token: {token}" if "client-key-data" in line else line for line in lines))
    cluster.apply(jobset(STAYS, name="js"))
    ready(cluster, "js")
    asked = ("--kubeconfig", str(guest))
    assert "js" in cluster.told("get", *asked)
    assert "not allowed (context jobset-local)" in cluster.refused("delete", "js", *asked)
    assert "a restart needs permission to patch jobsets/status" in cluster.refused("restart", "js", *asked)


def test_the_command_is_a_plugin_of_kubectl(cluster: Cluster) -> None:
    cluster.apply(jobset(STAYS, name="js"))
    scripts = str(Path(sys.executable).parent)
    environment = {**cluster.environment(), "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    command = ["kubectl", "jobset", "get", "js", "-o", "name"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "jobset.jobset.x-k8s.io/js\n"


def test_a_query_is_quick(cluster: Cluster) -> None:
    """The real command, from its start to its end, without loading the client for programs that stay."""
    cluster.apply(jobset(STAYS, name="q"))
    code = "import sys; from jobset.cli.main import main\ntry: main()\nfinally: assert 'aiohttp' not in sys.modules"
    command = [cluster.command()[0], "-c", code, "get", "q"]
    spent = []
    for _ in range(3):
        began = os.times()
        subprocess.run(command, env=cluster.environment(), check=True, capture_output=True)
        ended = os.times()
        spent.append(ended.children_user + ended.children_system - began.children_user - began.children_system)
    assert min(spent) < 0.4, "processor seconds, twice what it takes"
