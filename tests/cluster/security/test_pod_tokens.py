"""What pods get to reach the API server with: files, environment, and a token that stays good as long as they live."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from jobset.api.resources import PODS, SERVICE_ACCOUNTS
from jobset.cluster.apiserver.http.certificates import new_signing_key
from jobset.cluster.apiserver.http.tokens import BadToken, Signer, Tokens
from jobset.cluster.embedded import EmbeddedOptions, embedded_cluster
from jobset.cluster.kubelet.api_access import MOUNT_PATH, ApiAccess
from jobset.cluster.kubelet.execution import Machine
from jobset.cluster.model.nodes import node_object
from jobset.cluster.runtime.scripted import ScriptedRuntime
from jobset.sim.loop import wall_clock

ACCESS = ApiAccess("10.244.0.1", 443, "-----AUTHORITY-----")


class Recording(ScriptedRuntime):
    """The scripted runtime, which remembers the containers it was asked to start."""

    def __init__(self, now):
        super().__init__(now)
        self.configs = {}

    async def start_container(self, uid, config):
        self.configs[config.name] = config
        await super().start_container(uid, config)


@asynccontextmanager
async def cluster(root, access=ACCESS):
    now = wall_clock()
    runtime = Recording(now)

    async def source():
        return access

    node = node_object("n", {"cpu": "8", "memory": "8Gi", "pods": 10}, {})
    options = EmbeddedOptions(root, runtime, [node], now, Machine({}, "/"), api_access=source)
    key = new_signing_key()

    def prepare(service):
        service.add_subresource(SERVICE_ACCOUNTS, "token", Tokens(Signer(key), service.store, now).request)

    async with embedded_cluster(options, prepare) as running:
        yield running, runtime, Tokens(Signer(key), running.service.store, now)


def pod(**spec):
    container = {"name": "main", "image": "i", "command": ["true"]}
    return {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [container], **spec}}


async def start(running, runtime, body):
    await running.client.create(PODS, body)
    async with asyncio.timeout(60):
        while "main" not in runtime.configs:
            await asyncio.sleep(0.1)
    return runtime.configs["main"]


def files_of(config):
    mount = next((mount for mount in config.mounts if mount.container_path == MOUNT_PATH), None)
    return None if mount is None else mount.host_path


async def test_a_pod_gets_token_authority_namespace_and_address(tmp_path):
    async with cluster(tmp_path) as (running, runtime, tokens):
        config = await start(running, runtime, pod())
        files = files_of(config)
        assert sorted(path.name for path in files.iterdir()) == ["ca.crt", "namespace", "token"]
        assert (files / "ca.crt").read_text() == ACCESS.authority
        assert (files / "namespace").read_text() == "default"
        account = tokens.account((files / "token").read_text())
        stored = running.service.get(PODS, "default", "p")
        assert (account.name, account.pod) == ("default", ("p", stored["metadata"]["uid"]))
        assert config.env["KUBERNETES_SERVICE_HOST"] == "10.244.0.1"
        assert config.env["KUBERNETES_SERVICE_PORT"] == "443"
        assert "volumes" not in stored["spec"], "the pod stays as its user wrote it"


@pytest.mark.parametrize(
    ("by_pod", "by_account", "gets"),
    [(None, None, True), (False, None, False), (None, False, False), (True, False, True)],
)
async def test_who_gets_a_token_unasked(tmp_path, by_pod, by_account, gets):
    async with cluster(tmp_path) as (running, runtime, _):
        account = {"metadata": {"name": "robot", "namespace": "default"}}
        said = {} if by_account is None else {"automountServiceAccountToken": by_account}
        await running.client.create(SERVICE_ACCOUNTS, account | said)
        said = {} if by_pod is None else {"automountServiceAccountToken": by_pod}
        config = await start(running, runtime, pod(serviceAccountName="robot", **said))
        assert (files_of(config) is not None) is gets
        assert config.env["KUBERNETES_SERVICE_HOST"] == "10.244.0.1"


async def test_without_an_api_server_pods_get_nothing(tmp_path):
    async with cluster(tmp_path, access=None) as (running, runtime, _):
        config = await start(running, runtime, pod())
        assert files_of(config) is None
        assert "KUBERNETES_SERVICE_HOST" not in config.env


async def test_a_pod_waits_for_its_account(tmp_path):
    async with cluster(tmp_path) as (running, runtime, _):
        await running.client.create(PODS, pod(serviceAccountName="late"))
        await asyncio.sleep(5)
        assert runtime.configs == {}
        await running.client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "late", "namespace": "default"}})
        async with asyncio.timeout(120):
            while not runtime.configs:
                await asyncio.sleep(1)


def volume_of_a_real_cluster(seconds):
    token = {"serviceAccountToken": {"path": "token", "expirationSeconds": seconds, "audience": "vault"}}
    authority = {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
    return {"name": "kube-api-access-x7f2p", "projected": {"sources": [token, authority]}}


async def test_a_spec_that_has_the_volume_already_is_served_and_its_token_kept_fresh(tmp_path):
    async with cluster(tmp_path) as (running, runtime, tokens):
        body = pod(volumes=[volume_of_a_real_cluster(600)])
        body["spec"]["containers"][0]["volumeMounts"] = [{"name": "kube-api-access-x7f2p", "mountPath": MOUNT_PATH}]
        config = await start(running, runtime, body)
        assert [mount.container_path for mount in config.mounts] == [MOUNT_PATH]
        files = files_of(config)
        assert (files / "ca.crt").read_text() == ACCESS.authority
        first = (files / "token").read_text()
        for _ in range(30):
            await asyncio.sleep(60)
            assert tokens.account((files / "token").read_text(), ("vault",)).pod[0] == "p"
        with pytest.raises(BadToken, match="expired"):
            tokens.account(first, ("vault",))
        assert sorted(path.name for path in files.iterdir()) == ["ca.crt", "token"]


async def test_when_the_pod_is_gone_so_is_its_token(tmp_path):
    async with cluster(tmp_path) as (running, runtime, tokens):
        config = await start(running, runtime, pod(terminationGracePeriodSeconds=0))
        token = (files_of(config) / "token").read_text()
        await running.client.delete(PODS, "default", "p", grace_period_s=0)
        with pytest.raises(BadToken, match="Pod is gone"):
            tokens.account(token)
        await asyncio.sleep(5)
        assert not files_of(config).exists()
