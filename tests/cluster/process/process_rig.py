"""A process runtime under test, and short ways to start pods in it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from jobset.cluster.runtime.port import ContainerConfig, ContainerId, Exit, Mount, SandboxConfig
from jobset.cluster.runtime.process.runtime import Network, ProcessRuntime

PATH = os.environ.get("PATH", "/usr/bin:/bin")
PYTHON = sys.executable
LIMIT_S = 20.0


class Rig:
    def __init__(self, directory: Path, runtime: ProcessRuntime) -> None:
        self.directory = directory
        self.runtime = runtime
        self.exits: list[Exit] = []
        self._changed = asyncio.Event()
        runtime.on_exit = self._on_exit

    def _on_exit(self, end: Exit) -> None:
        self.exits.append(end)
        self._changed.set()

    async def sandbox(self, name: str, *, subdomain: str = "js", namespace: str = "default", **more: Any) -> str:
        """Create one; returns its address. Its uid is its name."""
        fqdn = f"{name}.{subdomain}.{namespace}.svc.cluster.local" if subdomain else ""
        directory = self.pod_directory(name)
        directory.mkdir(parents=True, exist_ok=True)
        fields = {"node": "node-a", "hostname": name, "host_network": False, **more}
        config = SandboxConfig(uid=name, namespace=namespace, name=name, fqdn=fqdn, directory=directory, **fields)
        return (await self.runtime.create_sandbox(config)).ip

    async def start(self, pod: str, *argv: str, name: str = "main", attempt: int = 0, **more: Any) -> ContainerId:
        fields = {"working_dir": "/", "termination_message_path": "/dev/termination-log", **more}
        env = {"PATH": PATH, **fields.pop("env", {})}
        log = self.log_path(pod, name, attempt)
        await self.runtime.start_container(pod, ContainerConfig(name, attempt, argv, env, log_path=log, **fields))
        return pod, name, attempt

    async def run(self, pod: str, *argv: str, **more: Any) -> Exit:
        """A sandbox, one container, its end."""
        await self.sandbox(pod)
        return await self.wait_exit(await self.start(pod, *argv, **more))

    async def shell(self, pod: str, script: str, **more: Any) -> str:
        """What a script printed; it must succeed."""
        end = await self.run(pod, "sh", "-c", script, **more)
        text = self.output(pod)
        assert end.exit_code == 0, (end, text)
        return text

    async def wait_exit(self, container: ContainerId) -> Exit:
        async with asyncio.timeout(LIMIT_S):
            while True:
                for end in self.exits:
                    if end.container == container:
                        return end
                self._changed.clear()
                await self._changed.wait()

    async def wait_output(self, pod: str, text: str, name: str = "main") -> None:
        """Until a container has printed something."""
        async with asyncio.timeout(LIMIT_S):
            while text not in self.output(pod, name):
                await asyncio.sleep(0.005)

    def pod_directory(self, pod: str) -> Path:
        return self.directory / "pods" / pod

    def log_path(self, pod: str, name: str = "main", attempt: int = 0) -> Path:
        return self.pod_directory(pod) / "logs" / name / f"{attempt}.log"

    def output(self, pod: str, name: str = "main", attempt: int = 0) -> str:
        """The log without times and flags."""
        with contextlib.suppress(FileNotFoundError):
            lines = self.log_path(pod, name, attempt).read_text().splitlines()
            return "".join(f"{line.split(' ', 3)[3]}\n" for line in lines)
        return ""

    def volume(self, name: str, **files: str) -> Path:
        directory = self.directory / "volumes" / name
        directory.mkdir(parents=True)
        for file, text in files.items():
            (directory / file).write_text(text)
        return directory


def mount(host_path: Path, container_path: str, read_only: bool = False) -> tuple[Mount, ...]:
    return (Mount(host_path, container_path, read_only),)


@contextlib.asynccontextmanager
async def rig(directory: Path, network: Network = "host") -> AsyncIterator[Rig]:
    directory.mkdir(exist_ok=True)
    runtime = ProcessRuntime(directory, network=network)
    await runtime.start()
    try:
        yield Rig(directory, runtime)
    finally:
        await runtime.close()
        assert not (directory / "node").exists()


def processes_with(marker: str) -> list[int]:
    """Processes of the whole machine whose environment holds this text."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if marker.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return found


async def wait_none(marker: str) -> None:
    async with asyncio.timeout(LIMIT_S):
        while processes_with(marker):
            await asyncio.sleep(0.01)


async def wait_some(marker: str, count: int) -> None:
    async with asyncio.timeout(LIMIT_S):
        while len(processes_with(marker)) < count:
            await asyncio.sleep(0.01)
