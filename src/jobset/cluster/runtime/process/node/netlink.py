"""The few rtnetlink requests a pod network needs: links, addresses, routes. Standard library, no ip(8).

Messages are those of rtnetlink(7). A socket stays in the network namespace it was made in, wherever the process goes.
"""

from __future__ import annotations

import os
import socket
import struct

_NLM_F_REQUEST, _NLM_F_ACK = 0x1, 0x4
_NLM_F_CREATE_EXCLUSIVE = 0x400 | 0x200
_NLMSG_ERROR = 2
_RTM_NEWLINK, _RTM_NEWADDR, _RTM_NEWROUTE = 16, 20, 24
_IFLA_IFNAME, _IFLA_MASTER, _IFLA_LINKINFO, _IFLA_NET_NS_FD = 3, 10, 18, 28
_INFO_KIND, _INFO_DATA, _VETH_INFO_PEER = 1, 2, 1
_IFA_ADDRESS, _IFA_LOCAL, _RTA_GATEWAY = 1, 2, 5
_IFF_UP = 1
_MAIN_TABLE, _PROTOCOL_BOOT, _UNICAST = 254, 3, 1
_HEADER = struct.Struct("=IHHII")
_LINK = struct.Struct("=BxHiII")
LOOPBACK_INDEX = 1


def _attribute(kind: int, data: bytes) -> bytes:
    length = 4 + len(data)
    return struct.pack("=HH", length, kind) + data + b"\0" * (-length % 4)


def _text(kind: int, value: str) -> bytes:
    return _attribute(kind, value.encode() + b"\0")


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack("=I", value))


class Netlink:
    """A connection to the kernel's network configuration of the current network namespace. Errors are OSError."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        self._socket.bind((0, 0))
        self._sequence = 0

    def close(self) -> None:
        self._socket.close()

    def add_bridge(self, name: str) -> None:
        info = _attribute(_IFLA_LINKINFO, _text(_INFO_KIND, "bridge"))
        self._request(
            _RTM_NEWLINK, _NLM_F_CREATE_EXCLUSIVE, _LINK.pack(0, 0, 0, 0, 0) + _text(_IFLA_IFNAME, name) + info
        )

    def add_veth(self, name: str, peer: str, peer_namespace_fd: int, bridge_index: int) -> None:
        """A cable: `name` here, up and plugged into the bridge; `peer` in the other namespace."""
        other = _LINK.pack(0, 0, 0, 0, 0) + _text(_IFLA_IFNAME, peer) + _number(_IFLA_NET_NS_FD, peer_namespace_fd)
        data = _attribute(_INFO_DATA, _attribute(_VETH_INFO_PEER, other))
        info = _attribute(_IFLA_LINKINFO, _text(_INFO_KIND, "veth") + data)
        body = _LINK.pack(0, 0, 0, _IFF_UP, _IFF_UP) + _text(_IFLA_IFNAME, name) + info
        if bridge_index:
            body += _number(_IFLA_MASTER, bridge_index)
        self._request(_RTM_NEWLINK, _NLM_F_CREATE_EXCLUSIVE, body)

    def plug(self, index: int, bridge_index: int) -> None:
        self._request(_RTM_NEWLINK, 0, _LINK.pack(0, 0, index, _IFF_UP, _IFF_UP) + _number(_IFLA_MASTER, bridge_index))

    def up(self, index: int) -> None:
        self._request(_RTM_NEWLINK, 0, _LINK.pack(0, 0, index, _IFF_UP, _IFF_UP))

    def add_address(self, index: int, address: str, prefix_length: int) -> None:
        packed = socket.inet_aton(address)
        head = struct.pack("=BBBBi", socket.AF_INET, prefix_length, 0, 0, index)
        body = head + _attribute(_IFA_LOCAL, packed) + _attribute(_IFA_ADDRESS, packed)
        self._request(_RTM_NEWADDR, _NLM_F_CREATE_EXCLUSIVE, body)

    def add_default_route(self, gateway: str) -> None:
        head = struct.pack("=BBBBBBBBI", socket.AF_INET, 0, 0, 0, _MAIN_TABLE, _PROTOCOL_BOOT, 0, _UNICAST, 0)
        body = head + _attribute(_RTA_GATEWAY, socket.inet_aton(gateway))
        self._request(_RTM_NEWROUTE, _NLM_F_CREATE_EXCLUSIVE, body)

    def _request(self, kind: int, flags: int, body: bytes) -> None:
        self._sequence += 1
        length = _HEADER.size + len(body)
        self._socket.send(_HEADER.pack(length, kind, flags | _NLM_F_REQUEST | _NLM_F_ACK, self._sequence, 0) + body)
        answer = self._socket.recv(65536)
        (answer_kind,) = struct.unpack_from("=H", answer, 4)
        if answer_kind == _NLMSG_ERROR:
            (error,) = struct.unpack_from("=i", answer, _HEADER.size)
            if error:
                raise OSError(-error, f"network configuration: {os.strerror(-error)}")
