"""The pods of this node: their place in the network, what their resolvers read, the supervisors of their containers."""

from __future__ import annotations

import os
import signal
import socket
import time
from typing import TypeAlias

from jobset.cluster.runtime.process.node import name_files
from jobset.cluster.runtime.process.node.cgroups import Cgroups, Group, Limits
from jobset.cluster.runtime.process.node.container import ContainerSpec, supervise
from jobset.cluster.runtime.process.node.isolation import Isolation, close_all_but, fork_with_namespace
from jobset.cluster.runtime.process.node.name_files import NamespaceHosts
from jobset.cluster.runtime.process.node.pod_network import Attachment, BridgedNetwork, PodNetwork
from jobset.cluster.runtime.process.node.rootfs import Bind
from jobset.cluster.runtime.process.node.wire import Channel, Message

Key: TypeAlias = tuple[str, str, int]
"""(pod UID, container name, attempt)"""


class Refused(Exception):
    """A request cannot be carried out. The message goes to the user."""


class Running:
    """A supervisor that has not ended. `report` is its last word, passed on when it has ended and left nothing."""

    def __init__(self, key: Key, pid: int, channel: Channel, request_id: int) -> None:
        self.key = key
        self.pid = pid
        self.channel = channel
        self.request_id = request_id
        self.group: Group | None = None
        self.termination_log = ""
        self.started = False
        self.started_ns = time.time_ns()
        self.signal = 0
        """The last one it was sent."""
        self.report: Message | None = None


class Pod:
    """One sandbox: `directory` is a private one for what the node makes for it."""

    def __init__(self, config: Message, attachment: Attachment, directory: str) -> None:
        self.config = config
        self.uid: str = config["uid"]
        self.namespace: str = config["namespace"]
        self.hostname: str = config["hostname"]
        self.attachment = attachment
        self.directory = directory
        self.binds: list[Bind] = []
        self.group: Group | None = None
        self.containers: dict[Key, Running] = {}
        self._ends: dict[str, list[Message]] = {}

    def remember(self, end: Message) -> None:
        """How a run ended, for whoever asks later: of each container the last two, for as long as the pod is there."""
        name = end["container"][1]
        self._ends[name] = [*self._ends.get(name, ())[-1:], end]

    def describe(self) -> Message:
        """All that somebody has to know who did not see it come to this."""
        running = [[r.key, r.started_ns, r.signal] for r in self.containers.values()]
        ended = [end for ends in self._ends.values() for end in ends]
        facts = {"uid": self.uid, "ip": self.attachment.address, "directory": self.config["directory"]}
        return {**facts, "running": running, "ended": ended}


class Pods:
    """`scratch` is the node's private directory."""

    def __init__(self, scratch: str, isolation: Isolation, network: PodNetwork, cgroups: Cgroups | None) -> None:
        self.scratch = scratch
        self.isolation = isolation
        self.network = network
        self.cgroups = cgroups
        self.pods: dict[str, Pod] = {}
        self._hosts: dict[str, NamespaceHosts] = {}
        self._names: dict[str, dict[str, list[str]]] = {}
        self._logs_made = 0

    @property
    def name_server(self) -> str:
        return self.network.bridge_address if isinstance(self.network, BridgedNetwork) else ""

    def add(self, config: Message) -> Pod:
        """Raises Refused."""
        uid = config["uid"]
        node = config["node"] or "node" if config["host_network"] else ""
        try:
            attachment = self.network.attach(config["hostname"][:64], config["ip_hint"], node)
        except OSError as error:
            raise Refused(f"cannot set up the network of pod {config['name']}: {error}") from error
        directory = os.path.join(self.scratch, "pods", uid)
        os.makedirs(directory)
        pod = Pod(config, attachment, directory)
        self._make_files(pod, config)
        limits = Limits(config["memory_limit_bytes"], config["cpu_limit_cores"])
        if self.cgroups:
            pod.group = self.cgroups.create(uid, limits)
        self.pods[uid] = pod
        return pod

    def _make_files(self, pod: Pod, config: Message) -> None:
        address, fqdn = pod.attachment.address, config["fqdn"]
        aliases = [(alias, names) for alias, names in config["host_aliases"]]
        if self.name_server:
            self._write(pod, "/etc/hosts", name_files.own_hosts(address, fqdn, pod.hostname, aliases))
            search = name_files.search_domains(pod.namespace, config["dns_search"])
            self._write(pod, "/etc/resolv.conf", name_files.resolv_conf(self.name_server, search))
            if os.path.exists(switch := os.path.join(self.scratch, "nsswitch.conf")):
                pod.binds.append(Bind(switch, "/etc/nsswitch.conf"))
        else:
            hosts = self._hosts_of(pod.namespace)
            pod.binds.append(Bind(hosts.add_pod(pod.uid, address, fqdn, pod.hostname, aliases), "/etc/hosts"))
        if self.isolation.mounts:
            shared_memory = os.path.join(pod.directory, "shm")
            os.mkdir(shared_memory)
            os.chmod(shared_memory, 0o1777)
            pod.binds.append(Bind(shared_memory, "/dev/shm"))

    def _write(self, pod: Pod, target: str, text: str) -> None:
        path = os.path.join(pod.directory, os.path.basename(target))
        name_files.rewrite(path, text)
        pod.binds.append(Bind(path, target))

    def _hosts_of(self, namespace: str) -> NamespaceHosts:
        hosts = self._hosts.get(namespace)
        if hosts is None:
            hosts = self._hosts[namespace] = NamespaceHosts(self.scratch, namespace)
            hosts.set_names(self._names.get(namespace, {}))
        return hosts

    def set_names(self, namespace: str, names: dict[str, list[str]]) -> None:
        """For networks without a name server."""
        self._names[namespace] = names
        if namespace in self._hosts:
            self._hosts[namespace].set_names(names)

    def remove(self, uid: str) -> None:
        """All its containers must have ended."""
        pod = self.pods.pop(uid)
        self.network.detach(pod.attachment)
        if pod.namespace in self._hosts:
            self._hosts[pod.namespace].remove_pod(uid)
        if pod.group:
            pod.group.remove()
        remove_tree(pod.directory)

    def start(self, pod: Pod, request_id: int, config: Message) -> Running:
        """Fork a supervisor. Raises Refused."""
        key = (pod.uid, config["name"], config["attempt"])
        if key in pod.containers:
            raise Refused(f"container {config['name']} is running already")
        limits = Limits(config["memory_limit_bytes"], config["cpu_limit_cores"])
        name = f"{pod.uid}.{config['name']}-{config['attempt']}"
        group = self.cgroups.create(name, limits, pod.group) if self.cgroups else None
        spec = self._spec(pod, config, group)
        ours, theirs = socket.socketpair()
        keep = [theirs.fileno(), *pod.attachment.namespaces]
        own_processes = self.isolation.processes
        pid = fork_with_namespace() if own_processes else os.fork()
        if pid == 0:
            close_all_but(keep)
            supervise(spec, Channel(theirs))
        theirs.close()
        running = Running(key, pid, Channel(ours), request_id)
        running.group, running.termination_log = group, spec.termination_log
        pod.containers[key] = running
        return running

    def _spec(self, pod: Pod, config: Message, group: Group | None) -> ContainerSpec:
        mounts = [Bind(*mount) for mount in config["mounts"]]
        if not self.isolation.mounts:
            self._refuse_elsewhere(mounts)
        binds = {bind.target: bind for bind in pod.binds}
        termination_log = ""
        if config["termination_message_path"] and self.isolation.mounts:
            self._logs_made += 1
            termination_log = os.path.join(pod.directory, f"termination-{self._logs_made}")
            os.close(os.open(termination_log, os.O_CREAT | os.O_WRONLY, 0o666))
            os.chmod(termination_log, 0o666)
            path = config["termination_message_path"]
            binds[path] = Bind(termination_log, path)
        binds.update({bind.target.rstrip("/") or "/": bind for bind in mounts})
        memory_limit = config["memory_limit_bytes"]
        watched = memory_limit if memory_limit and not (self.cgroups and "memory" in self.cgroups.enforced) else None
        env = {"HOSTNAME": pod.hostname, **config["env"]}
        if not self.isolation.mounts:
            env["JOBSET_HOSTS_FILE"] = pod.binds[0].source
        return ContainerSpec(
            argv=config["argv"],
            env=env,
            working_dir=config["working_dir"],
            log_path=config["log_path"],
            termination_log=termination_log,
            binds=list(binds.values()),
            namespaces=pod.attachment.namespaces,
            own_mounts=self.isolation.mounts,
            own_processes=self.isolation.processes,
            scratch=self.scratch,
            group=group,
            watched_memory_bytes=watched,
            stdin=config["stdin"],
            tty=config["tty"],
        )

    def _refuse_elsewhere(self, mounts: list[Bind]) -> None:
        for mount in mounts:
            if os.path.realpath(mount.target) != os.path.realpath(mount.source):
                raise Refused(
                    f"cannot mount {mount.source} at {mount.target}: mount namespaces do not work here "
                    f"({self.isolation.problem or 'no permission'}); allow unprivileged user namespaces, or use a "
                    "hostPath volume whose path is the mountPath"
                )

    def ended(self, running: Running) -> int:
        """The supervisor has closed its channel: reap it, with everything it had. Returns its wait status."""
        running.channel.close()
        _, status = os.waitpid(running.pid, 0)
        self.pods[running.key[0]].containers.pop(running.key, None)
        if running.group:
            running.group.remove()
        if running.termination_log:
            os.unlink(running.termination_log)
        return status

    def kill(self, running: Running) -> None:
        """At once and without a report."""
        if self.isolation.processes:
            os.kill(running.pid, signal.SIGKILL)
        else:
            running.channel.close()  # it kills its tree then, and ends

    def kill_all(self) -> None:
        """Everything ends, unheard; returns when it has."""
        everybody = [running for pod in self.pods.values() for running in pod.containers.values()]
        for running in everybody:
            self.kill(running)
        for running in everybody:
            self.ended(running)
        for uid in list(self.pods):
            self.remove(uid)


def remove_tree(directory: str) -> None:
    """Whatever of it can be removed."""
    import shutil  # here, for it takes longer to import than all the rest

    shutil.rmtree(directory, ignore_errors=True)
