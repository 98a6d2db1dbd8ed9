"""Carries out what the state machine asks of the runtime and the file system, and turns the outcome into its events.

Stands between kubelet.py, which runs the machines, and the runtime port. It decides nothing about a pod's life.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from jobset.api.errors import NotFound
from jobset.api.meta import Object
from jobset.api.resources import SERVICE_ACCOUNTS
from jobset.client.port import Client
from jobset.cluster.kubelet import env, probes, volumes
from jobset.cluster.kubelet.api_access import (
    AUTHORITY_CONFIG_MAP,
    VOLUME,
    AccessSource,
    ApiAccess,
    TokenKey,
    access_mount,
    access_volume,
    account_name,
    asked_tokens,
    fetch_tokens,
    wants_access,
)
from jobset.cluster.kubelet.argv import CANNOT_START, build_argv
from jobset.cluster.kubelet.cri_log import tail_text
from jobset.cluster.kubelet.devices import Devices
from jobset.cluster.kubelet.pods import LOGS, PodRun
from jobset.cluster.kubelet.resource_field import cpu_limit_cores, memory_limit_bytes, pod_limits
from jobset.cluster.kubelet.sources import ConfigError, fetch
from jobset.cluster.kubelet.token_renewal import TokenRenewal, token_files
from jobset.cluster.model.pod_lifecycle.state import (
    Event,
    Exited,
    HookDone,
    Probed,
    RunHook,
    RunProbe,
    SandboxFailed,
    SandboxReady,
    StartContainer,
    Started,
    StartFailed,
)
from jobset.cluster.runtime.port import CannotStart, ContainerConfig, Exit, Runtime, SandboxConfig
from jobset.reconcile.informer import Cache

CLUSTER_DOMAIN = "cluster.local"
DEFAULT_HOST_IP = "127.0.0.1"
CANNOT_START_CODE = 128
NAMESPACE_INDEX = "namespace"


class Machine(Struct, frozen=True):
    """This machine, as containers see it. `working_dir` is where a container without workingDir starts."""

    env: Mapping[str, str]
    working_dir: str
    keep_files: bool = False
    """Leave volumes on disk when a pod is over (logs always stay)."""


class Executor:
    def __init__(
        self,
        client: Client,
        runtime: Runtime,
        nodes: Cache[Object],
        services: Cache[Object],
        devices: Devices,
        machine: Machine,
        access: AccessSource,
        renewal: TokenRenewal,
        warn: Callable[[PodRun, str, str], None],
    ) -> None:
        self._client = client
        self._access = access
        self._renewal = renewal
        self._runtime = runtime
        self._nodes = nodes
        self._services = services
        self._devices = devices
        self._machine = machine
        self._warn = warn

    def host_ip(self, node: str) -> str:
        found = self._nodes.get("", node) or {}
        for address in (found.get("status") or {}).get("addresses") or ():
            if address.get("type") == "InternalIP":
                return str(address["address"])
        return DEFAULT_HOST_IP

    async def create_sandbox(self, run: PodRun) -> Event:
        try:
            self._devices.allocate(run.pod)
            await self._make_volumes(run)
            self._devices.keep(run.uid, run.directory)
            sandbox = await self._runtime.create_sandbox(sandbox_config(run))
        except ConfigError as error:
            return SandboxFailed(error.reason, str(error))
        except (CannotStart, OSError) as error:
            return SandboxFailed("FailedCreatePodSandBox", f"Failed to create pod sandbox: {error}")
        return SandboxReady(sandbox.ip)

    async def _make_volumes(self, run: PodRun) -> None:
        (run.directory / LOGS).mkdir(parents=True, exist_ok=True)
        access = await self._access()
        wanted = list(run.pod["spec"].get("volumes") or ())
        if access is not None and access.files and wants_access(run.pod, await self._account_of(run.pod)):
            wanted.append(access_volume())
        if not wanted:
            run.volumes = {}
            return
        sources = await fetch(self._client, run.pod["metadata"]["namespace"], volumes.references(wanted))
        if access is not None:
            sources = sources.completed(("configmap", AUTHORITY_CONFIG_MAP), access.authority_config_map())
        tokens = await self._tokens(run, wanted, access)
        facts = volumes.PodFacts(run.pod, run.state.ip, self.host_ip(run.node), self._allocatable(run.node), tokens)
        of_before = token_files(wanted, run.directory)
        run.volumes = await volumes.prepare(facts, wanted, run.directory, sources, self._client)
        self._renewal.keep(run.pod, token_files(wanted, run.directory), fresh=not of_before)

    async def _account_of(self, pod: Object) -> Object:
        try:
            return await self._client.get(SERVICE_ACCOUNTS, pod["metadata"]["namespace"], account_name(pod), dict)
        except NotFound as error:
            raise ConfigError(error.message, volumes.FAILED_MOUNT) from error

    async def _tokens(self, run: PodRun, wanted: Sequence[Object], access: ApiAccess | None) -> dict[TokenKey, bytes]:
        keys = asked_tokens(wanted)
        if not keys or access is not None:
            return await fetch_tokens(self._client, run.pod, keys)
        self._warn(run, "NoServiceAccountToken", "volumes are without service account token: this cluster issues none")
        return {}

    async def remove_sandbox(self, run: PodRun) -> None:
        self._renewal.drop(run.uid)
        await self._runtime.remove_sandbox(run.uid)
        if run.volumes != {} and not self._machine.keep_files:
            _remove_volumes(run.directory)

    async def remove_strays(self) -> None:
        """End what an earlier kubelet left of pods that nobody has taken over."""
        for uid in self._runtime.found():
            stray = self._runtime.adopt(uid)
            await self._runtime.remove_sandbox(uid)
            if stray is not None and not self._machine.keep_files:
                _remove_volumes(stray.directory)

    def take_over(self, run: PodRun) -> None:
        """The pod has its devices already, and perhaps volumes, which are looked for when they are wanted."""
        self._devices.take_over(run.pod, run.directory)
        run.volumes = None
        maybe_made = [*(run.pod["spec"].get("volumes") or ()), access_volume()]
        self._renewal.keep(run.pod, token_files(maybe_made, run.directory), fresh=False)

    def release_devices(self, run: PodRun) -> None:
        self._devices.release(run.uid)

    async def start_container(self, run: PodRun, order: StartContainer) -> Event:
        container = run.container(order.container)
        try:
            if run.volumes is None:
                await self._make_volumes(run)
            config = await self._container_config(run, container, order.attempt)
            config.log_path.parent.mkdir(exist_ok=True)
            await self._runtime.start_container(run.uid, config)
        except ConfigError as error:
            final = CANNOT_START_CODE if error.reason == CANNOT_START else None
            return StartFailed(order.container, order.attempt, error.reason, str(error), final)
        except CannotStart as error:
            return StartFailed(order.container, order.attempt, error.reason, str(error), error.exit_code)
        except OSError as error:
            return StartFailed(order.container, order.attempt, CANNOT_START, str(error), CANNOT_START_CODE)
        return Started(order.container, order.attempt)

    async def _container_config(self, run: PodRun, container: Object, attempt: int) -> ContainerConfig:
        if problem := probes.refusal(container):
            raise ConfigError(problem, CANNOT_START)
        sources = await fetch(self._client, run.pod["metadata"]["namespace"], env.references(container))
        access = await self._access()
        inherited = {**self._machine.env, **access.env()} if access is not None else self._machine.env
        variables = env.build_env(container, sources, self._surroundings(run, container["name"], inherited))
        return ContainerConfig(
            name=container["name"],
            attempt=attempt,
            argv=build_argv(container, variables),
            env=variables,
            working_dir=container.get("workingDir") or self._machine.working_dir,
            log_path=run.log_path(container["name"], attempt),
            mounts=volumes.mounts(_with_access(container, run), run.volumes or {}, variables),
            termination_message_path=container.get("terminationMessagePath") or "/dev/termination-log",
            memory_limit_bytes=memory_limit_bytes(container),
            cpu_limit_cores=cpu_limit_cores(container),
            stdin=bool(container.get("stdin")),
            tty=bool(container.get("tty")),
        )

    def _surroundings(self, run: PodRun, container: str, inherited: Mapping[str, str]) -> env.Surroundings:
        return env.Surroundings(
            pod=run.pod,
            pod_ip=run.state.ip,
            host_ip=self.host_ip(run.node),
            hostname=hostname_of(run.pod),
            allocatable=self._allocatable(run.node),
            services=self._services_of(run.pod),
            inherited=inherited,
            devices=self._devices.of(run.uid, container),
        )

    def _allocatable(self, node: str) -> Object:
        return ((self._nodes.get("", node) or {}).get("status") or {}).get("allocatable") or {}

    def _services_of(self, pod: Object) -> Sequence[Object]:
        if not pod["spec"].get("enableServiceLinks", True):
            return ()
        found = self._services.by_index(NAMESPACE_INDEX, pod["metadata"]["namespace"])
        return [service for service in found if service["spec"].get("clusterIP") not in (None, "", "None")]

    async def run_hook(self, run: PodRun, order: RunHook) -> Event:
        ok, seen = await self._carry_out(run, order)
        return HookDone(order.container, order.attempt, order.hook, ok, seen)

    async def run_probe(self, run: PodRun, order: RunProbe) -> Event:
        ok, seen = await self._carry_out(run, order)
        return Probed(order.container, order.attempt, order.kind, ok, seen)

    async def _carry_out(self, run: PodRun, order: RunHook | RunProbe) -> tuple[bool, str]:
        container_id = (run.uid, order.container, order.attempt)
        container = run.container(order.container)
        try:
            return await probes.carry_out(self._runtime, container_id, container, order.handler, order.timeout_s)
        except (CannotStart, OSError) as error:
            return False, str(error)


def _with_access(container: Object, run: PodRun) -> Object:
    """The container with the mount of the files that lead to the API server, if the pod has them."""
    if VOLUME not in (run.volumes or {}):
        return container
    return {**container, "volumeMounts": [*(container.get("volumeMounts") or ()), *access_mount(container)]}


def _remove_volumes(pod_directory: Path) -> None:
    shutil.rmtree(pod_directory / "volumes", ignore_errors=True)


def exited(run: PodRun, end: Exit) -> Exited:
    """The machine's event for a container's end; its message may have to come from its log."""
    _, name, attempt = end.container
    message = end.message
    policy = run.container(name).get("terminationMessagePolicy")
    if not message and end.exit_code != 0 and policy == "FallbackToLogsOnError":
        message = tail_text(run.log_path(name, attempt))
    return Exited(name, attempt, end.exit_code, end.reason, end.started_at, end.finished_at, end.signal, message)


def hostname_of(pod: Object) -> str:
    spec = pod["spec"]
    if spec.get("setHostnameAsFQDN"):
        return fqdn_of(pod) or short_hostname_of(pod)
    return short_hostname_of(pod)


def short_hostname_of(pod: Object) -> str:
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])[:63].rstrip("-.")


def fqdn_of(pod: Object) -> str:
    subdomain = pod["spec"].get("subdomain")
    if not subdomain:
        return ""
    return f"{short_hostname_of(pod)}.{subdomain}.{pod['metadata']['namespace']}.svc.{CLUSTER_DOMAIN}"


def sandbox_config(run: PodRun) -> SandboxConfig:
    metadata, spec = run.pod["metadata"], run.pod["spec"]
    namespace = metadata["namespace"]
    memory, cpu = pod_limits(run.pod)
    search = (f"{namespace}.svc.{CLUSTER_DOMAIN}", f"svc.{CLUSTER_DOMAIN}", CLUSTER_DOMAIN)
    return SandboxConfig(
        uid=metadata["uid"],
        namespace=namespace,
        name=metadata["name"],
        node=spec["nodeName"],
        hostname=hostname_of(run.pod),
        fqdn=fqdn_of(run.pod),
        host_network=bool(spec.get("hostNetwork")),
        directory=Path(run.directory),
        host_aliases=tuple((a["ip"], tuple(a.get("hostnames") or ())) for a in spec.get("hostAliases") or ()),
        dns_search=(*search, *((spec.get("dnsConfig") or {}).get("searches") or ())),
        memory_limit_bytes=memory,
        cpu_limit_cores=cpu,
        ip_hint=run.state.ip,
    )
