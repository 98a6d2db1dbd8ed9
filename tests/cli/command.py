"""Runs the real command in a process of its own, and looks for what it left behind."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

COMMAND = ("-m", "jobset.cli.main")
LIMIT_S = 50.0
ENDLESS = "trap 'exit 0' TERM; echo up; sleep {mark} & wait"


def new_mark() -> str:
    """A number of seconds to sleep that no other process of this machine sleeps."""
    return str(random.SystemRandom().randrange(10**8, 10**9))


def pod_template(script: str, **fields: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "none", "command": ["sh", "-c", script], **fields.pop("container", {})}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [container], **fields}
    return {"spec": spec}


def job_template(script: str, *, pods: int = 1, **fields: Any) -> dict[str, Any]:
    counts = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "backoffLimit": 0}
    return {"spec": {**counts, "template": pod_template(script, **fields)}}


def jobset(script: str, *, name: str = "js", pods: int = 1, replicas: int = 1, spec: Any = None, **fields: Any) -> Any:
    """A JobSet of one replicated job `w` whose pods run a shell script."""
    replicated = {"name": "w", "replicas": replicas, "template": job_template(script, pods=pods, **fields)}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {"replicatedJobs": [replicated], **(spec or {})},
    }


def pod(script: str, *, name: str = "lone", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, **pod_template(script, **fields)}


class Place:
    """A directory with manifests and with the command's temporary files."""

    def __init__(self, directory: Path, python: str = sys.executable, before: Sequence[str] = ()) -> None:
        self.directory = directory
        self.temporary = directory / "tmp"
        self.temporary.mkdir()
        self._command = (*before, python, *COMMAND)

    def write(self, *objects: Any, name: str = "manifest.yaml") -> str:
        path = self.directory / name
        path.write_text("---\n".join(json.dumps(each) + "\n" for each in objects))
        return str(path)

    def environment(self) -> dict[str, str]:
        packages = os.pathsep.join(path for path in sys.path if path and not path.endswith(".zip"))
        own = {"TMPDIR": str(self.temporary), "HOME": str(self.directory), "NO_COLOR": "1", "PYTHONPATH": packages}
        return {**os.environ, **own}

    def command(self, *arguments: str) -> list[str]:
        return [*self._command, *arguments]

    def run(self, *arguments: str, stdin: str = "", before: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*before, *self.command(*arguments)],
            input=stdin, capture_output=True, text=True, timeout=LIMIT_S, check=False,
            cwd=self.directory, env=self.environment(),
        )  # fmt: skip

    def start(self, *arguments: str) -> Started:
        return Started(self.command(*arguments), self)

    def left_behind(self, mark: str) -> list[str]:
        """Processes, mounts and files of a run that are still there."""
        mounts = Path("/proc/self/mounts").read_text().splitlines()
        return [
            *processes_with(mark),
            *processes_with(str(self.temporary)),
            *(line for line in mounts if str(self.temporary) in line),
            *map(str, self.temporary.iterdir()),
        ]


class Started:
    """A command that runs; its output goes to files."""

    def __init__(self, command: list[str], place: Place) -> None:
        self._out, self._err = place.directory / "out", place.directory / "err"
        with self._out.open("w") as out, self._err.open("w") as err:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=place.directory, env=place.environment()
            )

    @property
    def output(self) -> str:
        return self._out.read_text()

    @property
    def errors(self) -> str:
        return self._err.read_text()

    def wait_said(self, text: str, count: int = 1) -> None:
        wait_until(
            lambda: self.output.count(text) >= count, lambda: f"never said {text!r}:\n{self.output}{self.errors}"
        )

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        """The exit code, when it has ended."""
        return self.process.wait(timeout=LIMIT_S)

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()


def wait_until(holds: Callable[[], bool], complaint: Callable[[], str] = lambda: "never came") -> None:
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline, complaint()
        time.sleep(0.02)


def processes_with(mark: str) -> list[str]:
    """Command lines of the processes of this machine that have a word in them."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if mark in line and (entry / "exe").exists():
                found.append(f"{entry.name} {line}")
    return found
