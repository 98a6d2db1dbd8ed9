"""The real kubectl on the served API: users see discovery, schemas, tables and patches through what it prints."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import yaml

from cluster.http.serving import TOKEN, Served, served_cluster
from jobset.core.admission.crd import custom_resource_definition

KUBECTL = shutil.which("kubectl") or ""
pytestmark = [pytest.mark.real_loop, pytest.mark.skipif(not KUBECTL, reason="needs kubectl")]
Kubectl = Callable[..., Awaitable[str]]
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: web}}
spec:
  schedulerName: nobody
  containers: [{name: c, image: "busybox:1"}]
"""


def kubeconfig(served: Served, path: Path) -> Path:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": served.url, "certificate-authority": str(served.authority)}}],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(content))
    return path


def kubectl_for(served: Served, home: Path) -> Kubectl:
    config = kubeconfig(served, home / "kubeconfig")
    env = {**os.environ, "KUBECONFIG": str(config), "HOME": str(home), "EDITOR": "sed -i s/web/shop/"}

    async def run(*args: str, stdin: str = "", code: int = 0) -> str:
        process = await asyncio.create_subprocess_exec(
            KUBECTL,
            *args,
            env=env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate(stdin.encode())
        assert process.returncode == code, output.decode()
        return output.decode()

    return run


async def test_a_session(tmp_path: Path) -> None:
    async with served_cluster(tmp_path) as served:
        kubectl = kubectl_for(served, tmp_path)
        assert await kubectl("create", "configmap", "c", "--from-literal=a=1") == "configmap/c created\n"
        assert await kubectl("apply", "-f", "-", stdin=POD) == "pod/p created\n"
        assert await kubectl("apply", "-f", "-", stdin=POD) == "pod/p unchanged\n"
        changed = POD.replace("web", "web2")
        assert "+    app: web2" in await kubectl("diff", "-f", "-", stdin=changed, code=1)
        assert await kubectl("apply", "-f", "-", stdin=changed) == "pod/p configured\n"
        await kubectl("label", "pod", "p", "a=b")
        await kubectl("annotate", "pod", "p", "a=b")
        for type_, patch in (
            ("strategic", '{"metadata": {"labels": {"s": "1"}}}'),
            ("merge", '{"metadata": {"labels": {"m": "1"}}}'),
            ("json", '[{"op": "add", "path": "/metadata/labels/j", "value": "1"}]'),
        ):
            await kubectl("patch", "pod", "p", "--type", type_, "-p", patch)
        assert await kubectl("edit", "pod", "p") == "pod/p edited\n"
        heads, row, _ = (await kubectl("get", "pods", "-o", "wide", "--show-labels")).split("\n")
        assert heads.split()[:5] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
        assert row.split()[-1] == "a=b,app=shop2,j=1,m=1,s=1"
        assert await kubectl("get", "pod", "p", "-o", "jsonpath={.status.phase}") == "Pending"
        assert "BestEffort" in await kubectl("describe", "pod", "p")
        assert await kubectl("auth", "can-i", "create", "pods") == "yes\n"
        assert await kubectl("delete", "pod", "p") == 'pod "p" deleted\n'


async def test_what_there_is_and_what_it_looks_like(tmp_path: Path) -> None:
    async with served_cluster(tmp_path) as served:
        kubectl = kubectl_for(served, tmp_path)
        await kubectl("create", "-f", "-", stdin=yaml.safe_dump(custom_resource_definition()))
        names = (await kubectl("api-resources", "-o", "name")).split()
        assert {"pods", "jobs.batch", "jobsets.jobset.x-k8s.io"} <= set(names)
        assert "FIELD: image <string>" in await kubectl("explain", "pod.spec.containers.image")
        assert "replicatedJobs" in await kubectl("explain", "jobset.spec")
        wrong = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\nnope: 1\n"
        assert 'unknown field "nope"' in await kubectl("apply", "-f", "-", stdin=wrong, code=1)
