"""How soon eight commands run: `jobset run` against honcho, and what the process runtime alone takes a pod.

The same eight commands, each printing one line, are started by both; measured is the time from starting the program to
the first line of the last command, median of several rounds in turns. Prints its figures as one JSON line last.

    python bench/local_start.py [--rounds N] [--network auto|pod|host]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import get_args

from jobset.cluster.runtime.port import ContainerConfig, SandboxConfig
from jobset.cluster.runtime.process.runtime import Network, ProcessRuntime

COMMANDS = 8
MARK = "line-of"
LIMIT_S = 60.0
BIN = Path(sys.executable).parent

MANIFEST = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: start}
spec:
  replicatedJobs:
  - name: worker
    replicas: 1
    template:
      spec:
        parallelism: 8
        completions: 8
        completionMode: Indexed
        backoffLimit: 0
        template:
          spec:
            restartPolicy: Never
            terminationGracePeriodSeconds: 0
            containers:
            - name: main
              image: none
              command: [sh, -c, "echo line-of-$JOB_COMPLETION_INDEX; sleep 1"]
"""


def until_last_line(command: list[str], directory: Path) -> float:
    """Seconds from starting a program until each of its commands has printed its first line."""
    begun = time.perf_counter()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen(
        command, cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as program:
        assert program.stdout is not None
        missing = {f"{MARK}-{number}" for number in range(COMMANDS)}
        said = []
        for line in program.stdout:
            said.append(line)
            missing -= {word for word in line.split() if word in missing}
            if not missing:
                taken = time.perf_counter() - begun
                program.communicate(timeout=LIMIT_S)
                return taken
    raise SystemExit(f"{command[0]} never printed {sorted(missing)}:\n{''.join(said)}")


def write_inputs(directory: Path) -> None:
    directory.joinpath("jobset.yaml").write_text(MANIFEST)
    lines = (f'worker{number}: sh -c "echo {MARK}-{number}; sleep 1"\n' for number in range(COMMANDS))
    directory.joinpath("Procfile").write_text("".join(lines))


async def start_pods(network: Network, count: int) -> tuple[str, float, float]:
    """(network chosen, seconds to start the runtime, seconds to start so many pods, all at once)"""
    with tempfile.TemporaryDirectory(prefix="jobset-bench-") as place:
        directory = Path(place)
        runtime = ProcessRuntime(directory, network=network)
        begun = time.perf_counter()
        await runtime.start()
        ready = time.perf_counter()
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(count):
                    group.create_task(start_pod(runtime, directory, f"pod-{number}"))
            started = time.perf_counter()
        finally:
            await runtime.close()
        assert runtime.network is not None
        return runtime.network.kind, ready - begun, started - ready


async def start_pod(runtime: ProcessRuntime, directory: Path, name: str) -> None:
    fqdn = f"{name}.js.default.svc.cluster.local"
    config = SandboxConfig(name, "default", name, "node", name, fqdn, host_network=False, directory=directory / name)
    config.directory.mkdir()
    await runtime.create_sandbox(config)
    log_path = config.directory / "0.log"
    container = ContainerConfig("main", 0, ("sleep", "60"), {"PATH": "/usr/bin:/bin"}, "/", log_path)
    await runtime.start_container(name, container)


def measure_runtime(rounds: int) -> dict[str, object]:
    figures: dict[str, object] = {}
    for network in ("pod", "host"):
        for count in (8, 100):
            taken = [asyncio.run(start_pods(network, count)) for _ in range(rounds)]
            figures[f"runtime_{network}_{count}_pods_ms_per_pod"] = round(
                statistics.median(pods for _, _, pods in taken) / count * 1e3, 2
            )
        figures[f"runtime_{network}_own_start_ms"] = round(statistics.median(own for _, own, _ in taken) * 1e3, 1)
    return figures


def measure_programs(rounds: int, network: str) -> dict[str, object]:
    jobset = [str(BIN / "jobset"), "run", "jobset.yaml", "--network", network]
    honcho = [str(BIN / "honcho"), "start"]
    if shutil.which(honcho[0]) is None:
        raise SystemExit("honcho is not installed: pip install honcho")
    with tempfile.TemporaryDirectory(prefix="jobset-bench-") as place:
        write_inputs(Path(place))
        until_last_line(jobset, Path(place))  # compiles what pip, at installation, has compiled of honcho
        pairs = [(until_last_line(jobset, Path(place)), until_last_line(honcho, Path(place))) for _ in range(rounds)]
    ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
    return {"jobset_run_s": round(ours, 3), "honcho_s": round(theirs, 3), "ratio": round(ours / theirs, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--network", choices=get_args(Network), default="auto")
    options = parser.parse_args()
    figures = {**measure_programs(options.rounds, options.network), **measure_runtime(options.rounds)}
    for name, value in figures.items():
        print(f"{name:40} {value}")
    print(json.dumps({"benchmark": "local_start", "commands": COMMANDS, "network": options.network, **figures}))


if __name__ == "__main__":
    main()
