"""The node process: sets up what the machine allows, then carries out requests until its channel closes.

Requests carry an `id` and are answered by one message with that `id` and a `result` or an `error`; exits of containers
are events of their own. When the channel closes, in order or because the program was killed, everything ends: that is
why this process exists apart.

With a door (door.py) it is the other way round: the pods go on without the program, until one that comes in says `end`.
A program that comes back is told at first what there is; answers to what the last one asked are not for it, and their
numbers tell it so.
"""

from __future__ import annotations

import gc
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

from jobset.cluster.runtime.process.node import isolation as isolating
from jobset.cluster.runtime.process.node import linux, memory, outside
from jobset.cluster.runtime.process.node.addresses import AddressPool, free_pod_subnet, lease_loopback_subnet
from jobset.cluster.runtime.process.node.cgroups import GROUP_PREFIX, Cgroups, find
from jobset.cluster.runtime.process.node.choice import Choice, WayOut, choose, find_way_out
from jobset.cluster.runtime.process.node.door import Door
from jobset.cluster.runtime.process.node.isolation import Isolation
from jobset.cluster.runtime.process.node.name_files import nsswitch_conf
from jobset.cluster.runtime.process.node.nameserver import listen
from jobset.cluster.runtime.process.node.pod_network import BridgedNetwork, PodNetwork, SharedNetwork
from jobset.cluster.runtime.process.node.pods import Key, Pod, Pods, Refused, Running, remove_tree
from jobset.cluster.runtime.process.node.wire import Channel, Message

KILL_GRACE_S = 5.0
IN_USE = "another program uses this cluster's directory: end that one first"
_OPEN_FILES = 65_536


class Node:
    """Carries out requests. One thread; what takes long happens in the supervisors."""

    def __init__(self, channel: Channel, pods: Pods, names: Channel | None, door: Door | None, ready: Message) -> None:
        self._channel: Channel | None = None
        self._pods = pods
        self._names = names
        self._door = door
        self._ready = ready
        self._last_request = 0
        self._first_request = 0  # of the program that is connected: earlier ones are nobody's any more
        self._selector = selectors.DefaultSelector()
        self._running: dict[Key, Running] = {}
        self._execs: dict[int, Key] = {}
        self._removing: dict[str, tuple[int, float]] = {}  # pod UID -> request to answer, when to use force
        self._requests: dict[str, Callable[[Message], None]] = {
            "create_sandbox": self._create_sandbox,
            "remove_sandbox": self._remove_sandbox,
            "start_container": self._start_container,
            "signal": self._signal,
            "exec": self._exec,
            "session": self._session,
            "socket": self._socket,
            "listen": self._listen,
            "set_names": self._set_names,
        }
        self._open = True
        self._welcome(channel)

    def serve(self) -> None:
        """Until it is told to end, or has no door and its channel closes. Leaves the pods as they are."""
        if self._door is not None:
            self._selector.register(self._door.fileno(), selectors.EVENT_READ, self._admit)
        while self._open:
            for key, _ in self._selector.select(1.0 if self._removing else None):
                key.data()
            self._use_force()

    def _welcome(self, channel: Channel) -> None:
        self._channel = channel
        self._selector.register(channel.fileno(), selectors.EVENT_READ, self._receive)
        self._first_request = self._last_request + 1
        pods = [pod.describe() for uid, pod in self._pods.pods.items() if uid not in self._removing]
        self._send({**self._ready, "first_request": self._first_request, "pods": pods})

    def _admit(self) -> None:
        assert self._door is not None
        visitor = self._door.admit()
        if visitor is not None:
            self._selector.register(visitor.fileno(), selectors.EVENT_READ, lambda: self._greet(visitor))

    def _greet(self, visitor: Channel) -> None:
        """Its first message says what it wants: to be the program, or that everything ends."""
        messages = visitor.receive()
        if messages == []:
            return  # not all of it yet
        self._selector.unregister(visitor.fileno())
        if messages is None:
            visitor.close()
        elif messages[0]["op"] == "end":
            self._open = False
        elif self._channel is not None:
            visitor.send({**self._ready, "problem": IN_USE})
            visitor.close()
        else:
            self._welcome(visitor)

    def _send(self, message: Message) -> None:
        if self._channel is not None:
            self._channel.send(message)

    def _receive(self) -> None:
        assert self._channel is not None
        messages = self._channel.receive()
        if messages is None:
            self._selector.unregister(self._channel.fileno())
            self._channel.close()
            self._channel = None
            self._open = self._door is not None
            return
        for message in messages:
            self._last_request = message["id"]
            try:
                self._requests[message["op"]](message)
            except Refused as error:
                self._refuse(message["id"], str(error))

    def _answer(self, request_id: int, result: Any) -> None:
        self._send({"id": request_id, "result": result})

    def _refuse(self, request_id: int, message: str, exit_code: int = 128) -> None:
        self._send({"id": request_id, "error": message, "exit_code": exit_code})

    def _pod(self, uid: str) -> Pod:
        pod = self._pods.pods.get(uid)
        if pod is None or uid in self._removing:
            raise Refused(f"pod {uid} has no sandbox")
        return pod

    def _create_sandbox(self, message: Message) -> None:
        if message["config"]["uid"] in self._pods.pods:
            raise Refused("the pod has a sandbox already")
        self._answer(message["id"], self._pods.add(message["config"]).attachment.address)

    def _remove_sandbox(self, message: Message) -> None:
        uid = message["uid"]
        pod = self._pods.pods.get(uid)
        if pod is None or uid in self._removing:
            self._answer(message["id"], None)
            return
        self._removing[uid] = (message["id"], time.monotonic() + KILL_GRACE_S)
        for running in pod.containers.values():
            running.channel.send({"op": "signal", "signal": int(signal.SIGKILL)})
        self._finish_removal(uid)

    def _finish_removal(self, uid: str) -> None:
        if uid in self._removing and not self._pods.pods[uid].containers:
            request_id, _ = self._removing.pop(uid)
            self._pods.remove(uid)
            self._answer(request_id, None)

    def _use_force(self) -> None:
        now = time.monotonic()
        for uid in [uid for uid, (_, deadline) in self._removing.items() if deadline <= now]:
            for running in list(self._pods.pods[uid].containers.values()):
                self._selector.unregister(running.channel.fileno())
                self._pods.kill(running)
                self._ended(running)

    def _start_container(self, message: Message) -> None:
        running = self._pods.start(self._pod(message["uid"]), message["id"], message["config"])
        self._running[running.key] = running
        self._selector.register(running.channel.fileno(), selectors.EVENT_READ, lambda: self._hear(running))

    def _hear(self, running: Running) -> None:
        messages = running.channel.receive()
        if messages is None:
            self._selector.unregister(running.channel.fileno())
            self._ended(running)
            return
        for message in messages:
            match message["event"]:
                case "started":
                    running.started, running.started_ns = True, message["started_ns"]
                    self._answer(running.request_id, message["started_ns"])
                case "failed" | "exit":
                    running.report = message
                case "exec-result":
                    self._execs.pop(message["id"], None)
                    self._answer(message["id"], [message["exit_code"], message["output"]])

    def _ended(self, running: Running) -> None:
        """The supervisor is gone: in order after its report, or killed with everything it had."""
        status = self._pods.ended(running)
        self._running.pop(running.key, None)
        report = running.report or _killed_report()
        if running.started or running.request_id < self._first_request:
            self._report_end(running, report)
        elif report["event"] == "failed":
            self._refuse(running.request_id, report["message"], report["exit_code"])
        else:
            self._refuse(running.request_id, f"the container's supervisor ended (wait status {status})")
        for request_id in [number for number, key in self._execs.items() if key == running.key]:
            del self._execs[request_id]
            self._refuse(request_id, "the container has ended")
        self._finish_removal(running.key[0])

    def _report_end(self, running: Running, report: Message) -> None:
        if report["event"] == "failed":  # nobody waits for its start any more: it shows as an end
            moment = {"started_ns": running.started_ns, "finished_ns": running.started_ns}
            report = {**report, **moment, "event": "exit", "reason": "StartError", "signal": 0}
        end = {**report, "container": running.key, "signalled": running.signal}
        self._pods.pods[running.key[0]].remember(end)
        self._send(end)

    def _signal(self, message: Message) -> None:
        running = self._running.get(_key(message))
        if running:
            running.signal = message["signal"]
            running.channel.send({"op": "signal", "signal": message["signal"]})
        self._answer(message["id"], None)

    def _exec(self, message: Message) -> None:
        running = self._run_of(message)
        self._execs[message["id"]] = running.key
        running.channel.send(message)

    def _session(self, message: Message) -> None:
        """Streams between a user and a container: each end of a socket to one of those concerned."""
        running = self._run_of(message)
        assert self._channel is not None
        ours, theirs = socket.socketpair()
        with ours, theirs:
            running.channel.send_with_fds(message, [ours.fileno()])
            self._channel.send_with_fds({"id": message["id"], "result": None, "fds": 1}, [theirs.fileno()])

    def _run_of(self, message: Message) -> Running:
        running = self._running.get(_key(message))
        if running is None or running.report:
            raise Refused("the container has ended")
        return running

    def _socket(self, message: Message) -> None:
        """A socket in the pod's network, for a probe."""
        opened = self._pods.network.open_socket(self._pod(message["uid"]).attachment)
        address = self._pod(message["uid"]).attachment.address
        assert self._channel is not None
        self._channel.send_with_fds({"id": message["id"], "result": address, "fds": 1}, [opened.fileno()])
        opened.close()

    def _listen(self, message: Message) -> None:
        """A listening socket in the network of the pods, for the program."""
        assert self._channel is not None
        try:
            listening = self._pods.network.listen(message["port"])
        except OSError as error:
            raise Refused(f"cannot listen where pods are: {error}") from error
        if listening is None:
            self._answer(message["id"], None)
            return
        self._channel.send_with_fds({"id": message["id"], "result": None, "fds": 1}, [listening.fileno()])
        listening.close()

    def _set_names(self, message: Message) -> None:
        if self._names is not None:
            self._names.send({"namespace": message["namespace"], "names": message["names"]})
        else:
            self._pods.set_names(message["namespace"], message["names"])
        self._answer(message["id"], None)


def _killed_report() -> Message:
    now = time.time_ns()
    message = "the container's supervisor was killed"
    ended = {"started_ns": now, "finished_ns": now, "message": message}
    return {"event": "exit", "exit_code": 137, "signal": int(signal.SIGKILL), "reason": "Error", **ended}


def _key(message: Message) -> Key:
    uid, name, attempt = message["container"]
    return uid, name, attempt


def main(channel_fd: int) -> None:
    """The first message says what is wanted; `only_choose` wants nothing but the choice of network."""
    isolating.ignore_signals()
    channel = Channel(socket.socket(fileno=channel_fd))
    first = channel.receive()
    if first:
        _start(first[0], channel, None)


def main_behind_door(listener_fd: int, lock_fd: int) -> None:
    """As `main`, for pods that outlive the program: whoever comes in first says what is wanted."""
    if os.fork():
        os._exit(0)  # what goes on is nobody's child
    isolating.ignore_signals()
    door = Door(listener_fd, lock_fd)
    while True:
        visitor = door.admit()
        messages = visitor.receive() if visitor else None
        if visitor and messages:  # else it was killed before it said anything
            break
    if messages[0]["op"] != "end":
        _start(messages[0], visitor, door)


def _start(wanted: Message, channel: Channel, door: Door | None) -> None:
    scratch = os.path.join(wanted["directory"], "node")
    os.makedirs(scratch, exist_ok=True)  # with a door: one that was killed outright may have left it
    isolation = isolating.try_out(scratch)
    way_out = find_way_out()
    choice = choose(wanted["network"], isolation, way_out)
    if choice.problem or wanted["only_choose"]:
        channel.send({"event": "ready", "network": choice.kind, "sentence": choice.sentence, "problem": choice.problem})
        channel.receive()
        _clean_up(wanted, scratch)
        return
    _raise_open_files()
    cgroups = find(f"{GROUP_PREFIX}{os.getpid()}", (os.getpid(), os.getppid()))
    _serve(channel, wanted, scratch, isolation, choice, way_out, cgroups, door)


def _serve(
    channel: Channel,
    wanted: Message,
    scratch: str,
    isolation: Isolation,
    choice: Choice,
    way_out: WayOut,
    cgroups: Cgroups | None,
    door: Door | None,
) -> None:
    gc.freeze()  # what is there now stays: forked children need not copy it
    names: Channel | None = None
    lease: socket.socket | None = None
    network: PodNetwork
    kept_open = [door.lock_fd] if door else []
    if choice.kind == "pod":
        network, names, leads_out = _enter_pod_network(scratch, isolation, way_out, kept_open)
        if way_out.tool and not leads_out:
            choice = choice._replace(sentence=f"{choice.sentence}, but it did not start: see node.log")
    else:
        if isolation.mounts:
            _enter(scratch, isolation, kept_open, network=False)
        subnet, lease = lease_loopback_subnet()
        network = SharedNetwork(AddressPool(subnet), own_host_names=isolation.mounts)
    pods = Pods(scratch, isolation, network, cgroups)
    said = {"network": choice.kind, "sentence": choice.sentence, "limits": _limits_sentence(cgroups)}
    ready = {"event": "ready", **said, "mounts": isolation.mounts, "problem": ""}
    try:
        Node(channel, pods, names, door, ready).serve()
    finally:
        pods.kill_all()
        if names is not None:
            names.finish()
        if lease is not None:
            lease.close()
        if cgroups is not None:
            cgroups.close()
        if isolation.mounts:
            linux.unmount(scratch)
        _clean_up(wanted, scratch)


def _enter_pod_network(
    scratch: str, isolation: Isolation, way_out: WayOut, kept_open: list[int]
) -> tuple[BridgedNetwork, Channel, bool]:
    """(the network, where to tell names, whether there is a way out)"""
    with open("/proc/net/route") as routes:
        subnet = free_pod_subnet(routes)
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        isolating.close_all_but([theirs.fileno()])
        outside.run(Channel(theirs), way_out.tool)
    theirs.close()
    names = Channel(ours)
    _enter(scratch, isolation, kept_open, network=True)
    addresses = AddressPool(subnet)
    leads_out = False
    if way_out.tool:
        names.send({"pid": int(os.readlink("/proc/self")), "subnet": subnet})  # as those outside count
        leads_out = names.receive() == [{"ready": True}]
    network = BridgedNetwork(addresses, gateway=addresses.reserved(2 if leads_out else 1))
    if leads_out:
        network.plug(outside.TAP)
    udp, tcp = listen(network.bridge_address)
    names.send_with_fds({"sockets": 2}, [udp.fileno(), tcp.fileno()])
    udp.close()
    tcp.close()
    _write_nsswitch(scratch)
    return network, names, leads_out


def _enter(scratch: str, isolation: Isolation, kept_open: list[int], network: bool) -> None:
    isolating.enter(
        scratch,
        user_namespace=isolation.user_namespace,
        network=network,
        processes=isolation.processes,
        kept_open=kept_open,
    )


def _write_nsswitch(scratch: str) -> None:
    try:
        with open("/etc/nsswitch.conf") as file:
            text = nsswitch_conf(file.read())
    except OSError:
        return
    if text is not None:
        with open(os.path.join(scratch, "nsswitch.conf"), "w") as file:
            file.write(text)


def _limits_sentence(cgroups: Cgroups | None) -> str:
    enforced = cgroups.enforced if cgroups else ()
    by_group = f"{' and '.join(enforced)} by control groups" if enforced else ""
    watched = "" if "memory" in enforced else f"memory by looking every {memory.LOOK_EVERY_S:g} s"
    ignored = "" if "cpu" in enforced else "CPU limits are not enforced here"
    said = "; ".join(part for part in (by_group, watched, ignored) if part)
    return f"limits: {said}"


def _raise_open_files() -> None:
    """Every pod holds a few descriptors."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(_OPEN_FILES, hard) if hard != resource.RLIM_INFINITY else _OPEN_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _clean_up(wanted: Message, scratch: str) -> None:
    remove_tree(wanted["directory"] if wanted["owns_directory"] else scratch)
