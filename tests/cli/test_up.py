"""`jobset up`, `down`, `status` and `kubeconfig` as a user runs them: real processes, real kubectl, nothing left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import LIMIT_S, Place, new_mark, pod, processes_with, wait_until

pytestmark = pytest.mark.timeout(120)
KUBECTL = shutil.which("kubectl")
DOWN, BETWEEN = 3, 4


class Kept(Place):
    """The clusters of one test, in a state directory of their own."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.state = directory / "state"
        self.kubeconfig = self.of() / "kubeconfig"
        self.names = {"local"}

    def environment(self) -> dict[str, str]:
        own = {"XDG_STATE_HOME": str(self.state), "KUBECONFIG": str(self.kubeconfig)}
        return {**super().environment(), **own}

    def of(self, name: str = "local") -> Path:
        return self.state / "jobset" / name

    def up(self, *arguments: str) -> str:
        if "--name" in arguments:
            self.names.add(arguments[arguments.index("--name") + 1])
        done = self.run("up", "--detach", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def status(self, *arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("status", "-o", "json", *arguments).stdout)
        return found

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        assert KUBECTL is not None
        done = subprocess.run(
            [KUBECTL, *arguments], input=stdin, capture_output=True, text=True, timeout=LIMIT_S, check=False,
            env=self.environment(),
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def apply(self, obj: Any) -> None:
        self.kubectl("apply", "-f", "-", stdin=json.dumps(obj))

    def wait_pod(self, name: str, *phases: str) -> dict[str, Any]:
        def look() -> dict[str, Any]:
            found: dict[str, Any] = json.loads(self.kubectl("get", "pod", name, "-o", "json"))
            return found

        wait_until(lambda: look()["status"]["phase"] in phases, lambda: json.dumps(look()["status"]))
        return look()

    def left_behind(self, *marks: str) -> list[str]:
        mounts = Path("/proc/self/mounts").read_text().splitlines()
        sockets = Path("/proc/net/unix").read_text().splitlines()
        listed = [line for line in (*mounts, *sockets) if str(self.state) in line]
        return [*listed, *(line for mark in (str(self.state), *marks) for line in processes_with(mark))]


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    kept = Kept(tmp_path)
    yield kept
    for name in kept.names:
        kept.run("down", "--name", name)


needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl")


@needs_kubectl
@pytest.mark.parametrize("network", ["host", "pod"])
def test_up_and_down(kept: Kept, network: str) -> None:
    said = kept.up("--network", network)
    assert "cluster local is up: https://127.0.0.1:" in said
    assert str(kept.of() / "kubeconfig") in said
    again = kept.run("up", "--detach")
    assert again.returncode == 0 and again.stdout.startswith("cluster local runs already: https://127.0.0.1:")
    assert "Ready" in kept.kubectl("get", "nodes")
    mark = new_mark()
    kept.apply(pod(f"sleep {mark}"))
    kept.wait_pod("lone", "Running")
    found = kept.status()
    assert found["running"] and found["pods"] == {"Running": 1} and found["nodes"][0]["ready"]
    assert found["jobSets"] == [] and found["uptimeSeconds"] >= 0
    assert processes_with(mark)
    down = kept.run("down")
    assert (down.returncode, down.stdout) == (0, "cluster local is down\n")
    assert kept.left_behind(mark) == []
    assert kept.run("status").returncode == DOWN
    assert kept.run("down").stdout == "cluster local is not up\n"


def _asker(python: str) -> str:
    return f"""
d=/var/run/secrets/kubernetes.io/serviceaccount
cat > ask.py <<'END'
import os, ssl, urllib.error, urllib.request
d = "{python}"
context = ssl.create_default_context(cafile=d + "/ca.crt")
for host in (os.environ["KUBERNETES_SERVICE_HOST"], "kubernetes.default.svc"):
    for path in ("api/v1/namespaces/default/pods/lone", "api/v1/namespaces/default/secrets"):
        url = f"https://{{host}}:{{os.environ['KUBERNETES_SERVICE_PORT']}}/{{path}}"
        request = urllib.request.Request(url, headers={{"Authorization": "Bearer " + open(d + "/token").read()}})
        try:
            print(urllib.request.urlopen(request, context=context).status)
        except urllib.error.HTTPError as error:
            print(error.code)
END
python ask.py; cat $d/namespace
"""


@needs_kubectl
@pytest.mark.parametrize("network", ["host", "pod"])
def test_a_pod_reaches_the_api_with_the_rights_of_its_account(kept: Kept, network: str) -> None:
    kept.up("--network", network)
    rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["lone"]}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    subject = {"kind": "ServiceAccount", "name": "robot", "namespace": "default"}
    version = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "reader"}}
    kept.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})
    kept.apply({**version, "kind": "Role", "rules": [rule]})
    kept.apply({**version, "kind": "RoleBinding", "roleRef": reference, "subjects": [subject]})
    kept.apply(pod(_asker("/var/run/secrets/kubernetes.io/serviceaccount"), serviceAccountName="robot"))
    kept.wait_pod("lone", "Succeeded", "Failed")
    assert kept.kubectl("logs", "lone").split() == ["200", "403", "200", "403", "default"]


@needs_kubectl
def test_kubectl_asks_who_it_is_and_what_it_may(kept: Kept) -> None:
    kept.up()
    assert "system:masters" in kept.kubectl("auth", "whoami")
    assert kept.kubectl("auth", "can-i", "delete", "nodes").strip() == "yes"
    kept.kubectl("create", "serviceaccount", "robot")
    kept.kubectl("create", "rolebinding", "viewers", "--clusterrole=view", "--serviceaccount=default:robot")
    robot = "--as=system:serviceaccount:default:robot"
    assert kept.kubectl("auth", "can-i", "list", "pods", robot).strip() == "yes"
    assert "jobsets.jobset.x-k8s.io" in kept.kubectl("auth", "can-i", "--list", robot)
    with pytest.raises(AssertionError, match="no"):
        kept.kubectl("auth", "can-i", "list", "secrets", robot)
    with pytest.raises(AssertionError, match='cannot list resource "secrets"'):
        kept.kubectl("get", "secrets", robot)
    token = kept.kubectl("create", "token", "robot", "--duration=20m").strip()
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    answer = json.loads(kept.kubectl("create", "-f", "-", "-o", "json", stdin=json.dumps(review)))
    assert answer["status"]["user"]["username"] == "system:serviceaccount:default:robot"


@needs_kubectl
def test_a_pod_that_wants_no_token_gets_none(kept: Kept) -> None:
    kept.up()
    kept.apply(pod("ls /var/run/secrets/kubernetes.io/serviceaccount || true", automountServiceAccountToken=False))
    kept.wait_pod("lone", "Succeeded")
    assert "token" not in kept.kubectl("logs", "lone")


@needs_kubectl
def test_a_killed_server_leaves_its_pods_and_down_ends_them(kept: Kept) -> None:
    kept.up()
    mark = new_mark()
    kept.apply(pod(f"sleep {mark}"))
    kept.wait_pod("lone", "Running")
    os.kill(kept.status()["pid"], signal.SIGKILL)
    wait_until(lambda: kept.run("status").returncode == DOWN)
    assert processes_with(mark)
    down = kept.run("down")
    assert down.stdout == "cluster local was not up; what its server had left behind is gone\n"
    assert kept.left_behind(mark) == []


@needs_kubectl
def test_objects_keys_and_port_outlive_down(kept: Kept) -> None:
    kept.up()
    url, kubeconfig = kept.status()["url"], (kept.of() / "kubeconfig").read_text()
    kept.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}, "data": {"a": "b"}})
    kept.run("down")
    kept.up()
    assert kept.status()["url"] == url
    assert (kept.of() / "kubeconfig").read_text() == kubeconfig
    assert kept.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.a}") == "b"
    kept.run("down", "--delete")
    assert not kept.of().exists()


@needs_kubectl
def test_in_memory_nothing_outlives_the_server(kept: Kept) -> None:
    kept.up("--store", "memory")
    mark = new_mark()
    kept.apply(pod(f"sleep {mark}"))
    kept.wait_pod("lone", "Running")
    os.kill(kept.status()["pid"], signal.SIGKILL)
    wait_until(lambda: kept.left_behind(mark) == [], lambda: str(kept.left_behind(mark)))
    kept.up("--store", "memory")
    assert kept.kubectl("get", "pods", "-o", "name") == ""


def _ask(kept: Kept, url: str, **headers: str) -> tuple[int, dict[str, Any]]:
    context = ssl.create_default_context(cafile=str(kept.of() / "ca.crt"))
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, context=context) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_who_is_let_in(kept: Kept) -> None:
    kept.up()
    url, token = kept.status()["url"], (kept.of() / "admin.token").read_text()
    good = {"Authorization": f"Bearer {token}"}
    assert _ask(kept, f"{url}/api/v1/nodes", **good)[0] == 200
    refused = {
        401: [{}, {"Authorization": "Bearer wrong"}],
        403: [{**good, "Origin": "https://evil.example"}, {**good, "Host": "evil.example"}, {"Host": "evil.example"}],
    }
    for code, many in refused.items():
        for headers in many:
            for path in ("/api/v1/nodes", "/healthz", "/version", "/openapi/v2", "/"):
                status, body = _ask(kept, url + path, **headers)
                assert (status, body["kind"], body["code"]) == (code, "Status", code), (path, headers)


def test_plain_http_is_not_answered(kept: Kept) -> None:
    kept.up()
    port = int(kept.status()["url"].rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(b"GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try:
            answer = connection.recv(4096)
        except ConnectionError:
            answer = b""
    assert b"200" not in answer


def test_everything_on_disk_is_the_owners_alone(kept: Kept) -> None:
    kept.up()
    directory = kept.of()
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert [path.name for path in directory.iterdir() if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


def test_it_listens_on_loopback_only(kept: Kept) -> None:
    kept.up()
    port = int(kept.status()["url"].rpartition(":")[2])
    lines = [line.split() for file in ("tcp", "tcp6") for line in Path(f"/proc/net/{file}").read_text().splitlines()]
    listening = [line[1] for line in lines if line[3] == "0A" and line[1].endswith(f":{port:04X}")]
    assert listening == [f"0100007F:{port:04X}"]


def test_on_all_addresses_it_warns_and_still_asks_who_comes(kept: Kept) -> None:
    said = kept.up("--listen", "0.0.0.0")
    assert said.startswith("warning: other machines can reach 0.0.0.0")
    url = kept.status()["url"]
    assert url.startswith("https://127.0.0.1:")
    assert _ask(kept, f"{url}/api")[0] == 401
    name = socket.gethostname().lower()
    context = ssl.create_default_context(cafile=str(kept.of() / "ca.crt"))
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as plain:
        with context.wrap_socket(plain, server_hostname=name) as tls:
            assert tls.version() in ("TLSv1.2", "TLSv1.3")


def test_an_address_that_is_not_ours_is_a_clear_error(kept: Kept) -> None:
    done = kept.run("up", "--detach", "--listen", "192.0.2.1")
    assert done.returncode == 1
    assert done.stderr.startswith("error: cannot listen on 192.0.2.1: ")
    assert done.stderr.endswith("; choose another --listen\n")


def test_a_port_in_use_is_a_clear_error_and_nothing_is_left(kept: Kept) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for arguments in (("--detach",), ()):
            done = kept.run("up", "--port", str(port), *arguments)
            assert done.returncode == 1
            assert done.stderr == (
                f"error: cannot listen on port {port} of 127.0.0.1: Address already in use; choose another --port\n"
            )
    assert kept.left_behind() == []
    assert kept.run("status").returncode == DOWN


def test_a_broken_database_is_a_clear_error(kept: Kept) -> None:
    kept.up()
    kept.run("down")
    (kept.of() / "cluster.db").write_bytes(b"this is no database, but it is long enough to be one" * 100)
    done = kept.run("up", "--detach")
    assert done.returncode == 1
    assert done.stderr.startswith("error: ") and "cluster.db" in done.stderr and "Traceback" not in done.stderr


def test_a_key_that_others_could_read_is_a_clear_error(kept: Kept) -> None:
    kept.up()
    kept.run("down")
    (kept.of() / "ca.key").chmod(0o644)
    done = kept.run("up", "--detach")
    assert done.returncode == 1 and "ca.key can be read by others" in done.stderr


def test_two_clusters_at_once(kept: Kept) -> None:
    kept.up("--name", "one")
    kept.up("--name", "two")
    urls = {kept.status("--name", name)["url"] for name in ("one", "two")}
    assert len(urls) == 2
    kept.run("down", "--name", "one")
    assert not kept.status("--name", "one")["running"] and kept.status("--name", "two")["running"]


def test_in_the_foreground_a_signal_ends_it(kept: Kept) -> None:
    with kept.start("up", "--store", "memory") as server:
        server.wait_said("Ctrl-C ends the server")
        assert kept.status()["running"]
        server.send(signal.SIGINT)
        assert server.end() == 0
        assert server.errors == ""
    assert kept.left_behind() == []


def test_kubeconfig_prints_and_merges(kept: Kept) -> None:
    done = kept.run("kubeconfig")
    assert (
        done.returncode == 1 and done.stderr == "error: there is no cluster local: jobset up --name local makes one\n"
    )
    kept.up()
    printed = kept.run("kubeconfig").stdout
    assert printed == (kept.of() / "kubeconfig").read_text()
    theirs = kept.kubeconfig = kept.directory / "theirs"
    theirs.write_text("apiVersion: v1\nkind: Config\ncurrent-context: work\nclusters: []\ncontexts: []\nusers: []\n")
    assert kept.run("kubeconfig", "--merge").stdout == f"added context jobset-local to {theirs}\n"
    assert stat.S_IMODE(theirs.stat().st_mode) == 0o600
    if KUBECTL is not None:
        assert kept.kubectl("config", "current-context").strip() == "jobset-local"
        assert kept.kubectl("get", "namespace", "default", "-o", "name").strip() == "namespace/default"
    assert kept.run("kubeconfig", "--remove").returncode == 0
    assert "jobset-local" not in theirs.read_text()
