"""What nodes there are: this machine as a node, or the nodes that a file describes. The part that looks at the machine.

How nodes are written and made to fit a manifest is pure and lies in model/nodes.py and model/node_fitting.py.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml
from msgspec import Struct

from jobset.api.meta import Object
from jobset.cluster.model.nodes import DEFAULT_PODS, node_object, nodes_of_documents

GPU = "nvidia.com/gpu"
GPU_MODEL = "nvidia.com/gpu.product"
GPU_QUERY_TIMEOUT_S = 5.0
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}
_UNLIMITED_BYTES = 1 << 60


class MachineFacts(Struct, frozen=True):
    """What this machine has to offer. `gpus` are the ids by which CUDA_VISIBLE_DEVICES names them."""

    hostname: str
    operating_system: str
    architecture: str
    cpus: float
    memory_bytes: int
    gpus: tuple[str, ...] = ()
    gpu_model: str = ""


def machine_node(facts: MachineFacts, *, name: str = "", pods: int = DEFAULT_PODS) -> Object:
    """This machine as a Node."""
    name = name or node_name(facts.hostname)
    milli = int(facts.cpus * 1000)
    resources: dict[str, str | int] = {
        "cpu": f"{milli}m" if milli % 1000 else str(milli // 1000),
        "memory": f"{facts.memory_bytes // 1024}Ki",
        "pods": pods,
    }
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": facts.operating_system,
        "kubernetes.io/arch": facts.architecture,
    }
    if facts.gpus:
        resources[GPU] = len(facts.gpus)
        labels[GPU_MODEL] = facts.gpu_model.replace(" ", "-")
    node = node_object(name, resources, labels)
    info = {"operatingSystem": facts.operating_system, "architecture": facts.architecture}
    return {**node, "status": {**node["status"], "nodeInfo": _node_info(info)}}


def _node_info(known: Mapping[str, str]) -> Object:
    fields = (
        "architecture", "bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion", "kubeletVersion",
        "machineID", "operatingSystem", "osImage", "systemUUID",
    )  # fmt: skip
    return {field: known.get(field, "") for field in fields}


def node_name(hostname: str) -> str:
    """A hostname as a node name: lower case, and only what names may hold."""
    kept = "".join(char if char.isascii() and (char.isalnum() or char in "-.") else "-" for char in hostname.lower())
    return kept.strip("-.")[:63].strip("-.") or "machine"


def nodes_from_file(path: Path) -> list[Object]:
    """The nodes that a YAML file describes (see model/nodes.py for its forms). Raises ValueError naming the file."""
    try:
        documents = [document for document in yaml.safe_load_all(path.read_text()) if document is not None]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: {error}") from None
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: not YAML: {error}") from None
    try:
        return nodes_of_documents(documents)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


# ---------------------------------------------------------------- looking at the machine


def machine_facts() -> MachineFacts:
    """Look at this machine: processors and memory that this process may use, and NVIDIA GPUs if there are any."""
    gpus, model = _gpus()
    return MachineFacts(
        hostname=socket.gethostname(),
        operating_system="darwin" if sys.platform == "darwin" else "linux",
        architecture=_ARCHITECTURES.get(platform.machine(), platform.machine().lower()),
        cpus=_cpus(),
        memory_bytes=_memory_bytes(),
        gpus=gpus,
        gpu_model=model,
    )


def _cpus() -> float:
    available = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    limits = [_cpu_max(_read("/sys/fs/cgroup/cpu.max"))]
    quota, period = _read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), _read("/sys/fs/cgroup/cpu/cpu.cfs_period_us")
    limits.append(_cpu_max(f"{quota} {period}" if quota and period else ""))
    return min([available, *(limit for limit in limits if limit is not None)])


def _cpu_max(text: str) -> float | None:
    """`quota period` in microseconds, as cgroups write it; None for no limit."""
    parts = text.split()
    if len(parts) != 2 or not parts[0].isdecimal() or not int(parts[1]):
        return None
    return int(parts[0]) / int(parts[1])


def _memory_bytes() -> int:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        text = _read(path)
        if text.isdecimal() and int(text) < _UNLIMITED_BYTES:
            total = min(total, int(text))
    return total


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _gpus() -> tuple[tuple[str, ...], str]:
    """The ids and the model of the NVIDIA GPUs that this process may use."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return (), ""
    command = [tool, "--query-gpu=index,uuid,name", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=GPU_QUERY_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return (), ""
    return usable_gpus(answer.stdout, os.environ.get("CUDA_VISIBLE_DEVICES"))


def usable_gpus(listing: str, visible: str | None) -> tuple[tuple[str, ...], str]:
    """GPU indexes and model out of nvidia-smi's lines `index, uuid, name`, narrowed as CUDA_VISIBLE_DEVICES asks."""
    found = [[part.strip() for part in line.split(",", 2)] for line in listing.splitlines() if line.count(",") >= 2]
    if visible is not None:
        wanted = [one.strip() for one in visible.split(",") if one.strip()]
        found = [gpu for one in wanted for gpu in found if one == gpu[0] or gpu[1].startswith(one)]
    return tuple(gpu[0] for gpu in found), found[0][2] if found else ""
