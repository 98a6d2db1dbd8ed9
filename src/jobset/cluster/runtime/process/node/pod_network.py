"""Pod networks: what a pod's address is, and which namespaces its containers enter.

`BridgedNetwork` (kind `pod`): a network namespace a pod, cabled to a bridge in the node's own. A pod with hostNetwork
shares the network of its *node*: one namespace a node name, so that pods of one virtual node share ports as on a real
one, and pods of two do not. `SharedNetwork` (kind `host`): everybody in the host's network, told apart by 127.x.y.z.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from typing import NamedTuple, Protocol

from jobset.cluster.runtime.process.node import linux
from jobset.cluster.runtime.process.node.addresses import AddressPool
from jobset.cluster.runtime.process.node.netlink import LOOPBACK_INDEX, Netlink

BRIDGE = "pods0"
PREFIX_LENGTH = 16
_BACKLOG = 512


class Attachment(NamedTuple):
    """A pod's place in the network. `namespaces` are descriptors that its containers enter; `node` owns the address
    of a pod with hostNetwork."""

    address: str
    namespaces: list[int]
    network_fd: int = -1
    node: str = ""


class PodNetwork(Protocol):
    def attach(self, hostname: str, wanted_address: str, node: str) -> Attachment:
        """`node` is empty but for pods with hostNetwork. Raises OSError."""
        ...

    def detach(self, attachment: Attachment) -> None: ...

    def open_socket(self, attachment: Attachment) -> socket.socket:
        """A TCP socket in the pod's network, not connected."""
        ...

    def listen(self, port: int) -> socket.socket | None:
        """A listening socket that all pods reach; None where they share the machine's network."""
        ...


class _OwnNamespaces:
    """The node process's own, to return to after a moment in others."""

    def __init__(self, kinds: list[str]) -> None:
        self._fds = [(os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)) for kind in kinds]

    def come_back(self) -> None:
        for fd in self._fds:
            linux.setns(fd)


def _open_namespace(kind: str) -> int:
    return os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)


class SharedNetwork:
    """Addresses of 127/8; a host name of its own where namespaces are allowed."""

    def __init__(self, addresses: AddressPool, own_host_names: bool) -> None:
        self._addresses = addresses
        self._own = _OwnNamespaces(["uts"]) if own_host_names else None

    def attach(self, hostname: str, wanted_address: str, node: str) -> Attachment:
        address = self._addresses.take(wanted_address) if sys.platform == "linux" else "127.0.0.1"
        if self._own is None:
            return Attachment(address, [])
        linux.unshare(linux.CLONE_NEWUTS)
        try:
            socket.sethostname(hostname)
            return Attachment(address, [_open_namespace("uts")])
        finally:
            self._own.come_back()

    def detach(self, attachment: Attachment) -> None:
        self._addresses.give_back(attachment.address)
        for fd in attachment.namespaces:
            os.close(fd)

    def open_socket(self, attachment: Attachment) -> socket.socket:
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM)

    def listen(self, port: int) -> socket.socket | None:
        return None


class _NodeNetwork:
    """The network namespace of one (virtual) node, shared by its pods with hostNetwork."""

    def __init__(self, address: str, network_fd: int) -> None:
        self.address = address
        self.network_fd = network_fd
        self.pods = 0


class BridgedNetwork:
    """To be made in the node's own network namespace. The bridge's address is where names are answered."""

    def __init__(self, addresses: AddressPool, gateway: str) -> None:
        self._addresses = addresses
        self._gateway = gateway
        self._own = _OwnNamespaces(["net", "uts", "ipc"])
        self._nodes: dict[str, _NodeNetwork] = {}
        self._cables = 0
        self.bridge_address = addresses.reserved(1)
        self._netlink = Netlink()
        self._netlink.up(LOOPBACK_INDEX)
        self._netlink.add_bridge(BRIDGE)
        self._bridge = socket.if_nametoindex(BRIDGE)
        self._netlink.up(self._bridge)
        self._netlink.add_address(self._bridge, self.bridge_address, PREFIX_LENGTH)
        # forwarding without a route refuses what has no way out; without forwarding it would be waited for in vain
        _set("ipv4/ip_forward", 1)
        _ipv4_only()

    def plug(self, interface: str) -> None:
        """Make an interface that appeared in our namespace a port of the bridge."""
        self._netlink.plug(socket.if_nametoindex(interface), self._bridge)

    def attach(self, hostname: str, wanted_address: str, node: str) -> Attachment:
        linux.unshare(linux.CLONE_NEWUTS | linux.CLONE_NEWIPC)
        namespaces: list[int] = []
        try:
            socket.sethostname(hostname)
            namespaces += [_open_namespace("uts"), _open_namespace("ipc")]
            if node:
                shared = self._network_of_node(node, wanted_address)
                return Attachment(shared.address, [*namespaces, os.dup(shared.network_fd)], shared.network_fd, node)
            address, network_fd = self._new_network(wanted_address)
            return Attachment(address, [*namespaces, network_fd], network_fd)
        except OSError:
            for fd in namespaces:
                os.close(fd)
            raise
        finally:
            self._own.come_back()

    def detach(self, attachment: Attachment) -> None:
        for fd in attachment.namespaces:
            os.close(fd)
        if not attachment.node:
            self._addresses.give_back(attachment.address)
            return
        shared = self._nodes[attachment.node]
        shared.pods -= 1
        if shared.pods == 0:
            self._addresses.give_back(shared.address)
            os.close(shared.network_fd)
            del self._nodes[attachment.node]

    def open_socket(self, attachment: Attachment) -> socket.socket:
        linux.setns(attachment.network_fd, linux.CLONE_NEWNET)
        try:
            return socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        finally:
            self._own.come_back()

    def listen(self, port: int) -> socket.socket | None:
        return socket.create_server((self.bridge_address, port), backlog=_BACKLOG)

    def _network_of_node(self, node: str, wanted_address: str) -> _NodeNetwork:
        shared = self._nodes.get(node)
        if shared is None:
            shared = self._nodes[node] = _NodeNetwork(*self._new_network(wanted_address))
        shared.pods += 1
        return shared

    def _new_network(self, wanted_address: str) -> tuple[str, int]:
        """(address, descriptor of the namespace); leaves us in the new namespace."""
        address = self._addresses.take(wanted_address)
        network_fd = -1
        try:
            linux.unshare(linux.CLONE_NEWNET)
            network_fd = _open_namespace("net")
            _ipv4_only()
            self._cables += 1
            self._netlink.add_veth(f"pod{self._cables}", "eth0", network_fd, self._bridge)
            self._configure(address)
        except OSError:
            self._addresses.give_back(address)
            if network_fd >= 0:
                os.close(network_fd)
            raise
        return address, network_fd

    def _configure(self, address: str) -> None:
        """In the pod's namespace, which holds nothing yet but its end of the cable."""
        netlink = Netlink()
        try:
            index = socket.if_nametoindex("eth0")
            netlink.up(LOOPBACK_INDEX)
            netlink.add_address(index, address, PREFIX_LENGTH)
            netlink.up(index)
            netlink.add_default_route(self._gateway)
        finally:
            netlink.close()
        # a container may listen on port 80, as it may with any container engine
        _set("ipv4/ip_unprivileged_port_start", 0)


def _set(name: str, value: int) -> None:
    """In the current network namespace."""
    with open(f"/proc/sys/net/{name}", "w") as file:
        file.write(str(value))


def _ipv4_only() -> None:
    """For interfaces yet to come (the loopback keeps ::1): nobody uses their IPv6, and its chatter costs every port."""
    with contextlib.suppress(OSError):  # a kernel without IPv6
        _set("ipv6/conf/default/disable_ipv6", 1)
