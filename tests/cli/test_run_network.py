"""Eight pods that listen on one port and reach each other by name, in both networks, as root and as nobody."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from command import Place, jobset

PODS = 8
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
SCRIPT = """
import os, socket, sys
rank, pods = int(os.environ["JOB_COMPLETION_INDEX"]), 8
listening = socket.create_server((socket.gethostbyname(socket.gethostname()), 29500))
print("up as", listening.getsockname()[0], flush=True)
reached = set()
for other in range(pods):
    name = f"js-w-0-{other}.js"
    while True:
        try:
            with socket.create_connection((name, 29500), timeout=5) as connection:
                reached.add(connection.getpeername()[0])
                break
        except (ConnectionRefusedError, socket.gaierror):
            pass
print("reached", len(reached), flush=True)
open(f"{os.environ['MEETING']}/{rank}", "w").close()
while len(os.listdir(os.environ["MEETING"])) < pods:
    pass
"""


def run_all(place: Place, network: str, python: str = sys.executable) -> None:
    meeting = {"name": "MEETING", "value": "/meeting"}
    container = {
        "command": [python, "-c", SCRIPT],
        "env": [meeting],
        "volumeMounts": [{"name": "meeting", "mountPath": "/meeting"}],
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "meeting"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Mi"}}},
    }
    volumes = [{"name": "meeting", "persistentVolumeClaim": {"claimName": "meeting"}}]
    manifest = place.write(jobset("", pods=PODS, container=container, volumes=volumes), claim)
    done = place.run("run", manifest, "--network", network, "--timeout", "40s")
    if network == "pod" and done.returncode == 1 and not done.stdout:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    addresses = {line.split()[-1] for line in done.stdout.splitlines() if "up as" in line}
    assert len(addresses) == PODS
    assert done.stdout.count(f"reached {PODS}") == PODS
    assert list(place.temporary.iterdir()) == []


def python_for_everybody() -> str:
    """One that another user can run: ours may lie in a home directory."""
    start_yourself = "import os, sys; os.execv(sys.executable, [sys.executable, '-c', ''])"
    for path in (sys.executable, f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}"):
        command = [*NOBODY, path, "-c", start_yourself]
        if Path(path).exists() and subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return path
    pytest.skip("no Python here that another user can run")


@pytest.mark.parametrize("network", ["pod", "host"])
def test_as_the_user_of_the_tests(place: Place, network: str) -> None:
    run_all(place, network)


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root to become another user")
@pytest.mark.parametrize("network", ["pod", "host"])
def test_as_nobody(network: str) -> None:
    python = python_for_everybody()
    with tempfile.TemporaryDirectory() as directory:
        place = Place(Path(directory), python, NOBODY)
        for path in (place.directory, place.temporary):
            os.chown(path, 65534, 65534)
        run_all(place, network, python)
