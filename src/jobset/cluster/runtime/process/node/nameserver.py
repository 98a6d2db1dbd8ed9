"""The pods' name server: A records of pods and services, PTR for their addresses, everything else from the host's own.

Runs in a process of its own that stays in the host's network: its listening sockets were made on the pods' bridge and
handed over, its questions to the host's resolvers go out as any program's. Names arrive as whole namespaces and replace
what was known. Wire format: RFC 1035.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from jobset.cluster.runtime.process.node.name_files import CLUSTER_DOMAIN
from jobset.cluster.runtime.process.node.wire import Channel, Message

TTL_S = 5
UDP_LIMIT_BYTES = 512
UPSTREAM_TIMEOUT_S = 5.0
_SERVICES = f".svc.{CLUSTER_DOMAIN}"
_A, _PTR, _IN = 1, 12, 1
_NOERROR, _SERVFAIL, _NXDOMAIN = 0, 2, 3
_QR, _AA, _TC, _RD, _RA = 0x8000, 0x0400, 0x0200, 0x0100, 0x0080


class Question(NamedTuple):
    id: int
    flags: int
    name: str
    type: int
    wire: bytes
    """The question section as it came, to be repeated in the answer."""


def parse_question(packet: bytes) -> Question | None:
    """The first question of a query, or None for anything else."""
    if len(packet) < 17:
        return None
    number, flags, questions = struct.unpack_from("!HHH", packet)
    if flags & _QR or questions < 1:
        return None
    labels: list[str] = []
    at = 12
    while at < len(packet) and packet[at]:
        length = packet[at]
        if length > 63:
            return None
        labels.append(packet[at + 1 : at + 1 + length].decode("ascii", "replace").lower())
        at += length + 1
    if at + 5 > len(packet):
        return None
    (kind,) = struct.unpack_from("!H", packet, at + 1)
    return Question(number, flags, ".".join(labels), kind, packet[12 : at + 5])


def answer(question: Question, code: int, records: Sequence[bytes] = (), limit: int = 65_535) -> bytes:
    """A response; records that do not fit are left out and the response says it is cut."""
    room = (limit - 12 - len(question.wire)) // max((12 + len(record) for record in records), default=1)
    kept = records[:room]
    flags = _QR | _AA | _RA | question.flags & _RD | code | (_TC if len(kept) < len(records) else 0)
    head = struct.pack("!HHHHHH", question.id, flags, 1, len(kept), 0, 0)
    type_ = question.type
    body = b"".join(struct.pack("!HHHIH", 0xC00C, type_, _IN, TTL_S, len(data)) + data for data in kept)
    return head + question.wire + body


def wire_name(name: str) -> bytes:
    return b"".join(bytes((len(label),)) + label.encode() for label in name.split(".")) + b"\0"


class Zone:
    """What is known of the cluster's names."""

    def __init__(self) -> None:
        self._names: dict[str, dict[str, tuple[str, ...]]] = {}  # namespace -> short name -> addresses
        self._reverse: dict[str, dict[str, str]] = {}  # namespace -> address -> full name

    def set_names(self, namespace: str, names: Mapping[str, Sequence[str]]) -> None:
        self._names[namespace] = {name.lower(): tuple(addresses) for name, addresses in names.items()}
        pods = {name: addresses for name, addresses in names.items() if "." in name}
        self._reverse[namespace] = {a: f"{name}.{namespace}{_SERVICES}" for name in sorted(pods) for a in pods[name]}

    def resolve(self, question: Question) -> tuple[int, list[bytes]] | None:
        """(response code, record data), or None when the name is not the cluster's."""
        name = question.name
        if name.endswith(".in-addr.arpa"):
            return self._resolve_address(name, question.type)
        if name != CLUSTER_DOMAIN and not name.endswith(f".{CLUSTER_DOMAIN}"):
            return None
        short, _, namespace = name.removesuffix(_SERVICES).rpartition(".")
        addresses = self._names.get(namespace, {}).get(short) if name.endswith(_SERVICES) else None
        if addresses is None:
            return _NXDOMAIN, []
        return _NOERROR, [socket.inet_aton(address) for address in addresses] if question.type == _A else []

    def _resolve_address(self, name: str, kind: int) -> tuple[int, list[bytes]] | None:
        address = ".".join(reversed(name.removesuffix(".in-addr.arpa").split(".")))
        for names in self._reverse.values():
            if address in names:
                return _NOERROR, [wire_name(names[address])] if kind == _PTR else []
        return None


class _Forwarded(NamedTuple):
    question: Question
    client: tuple[str, int]
    deadline: float


class NameServer:
    def __init__(self, udp: socket.socket, tcp: socket.socket, upstreams: Sequence[str]) -> None:
        self.zone = Zone()
        self._udp = udp
        self._tcp = tcp
        self._upstreams = list(upstreams)
        self._upstream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._forwarded: dict[int, _Forwarded] = {}
        self._last_id = 0

    def serve(self, channel: Channel) -> None:
        """Until the channel closes."""
        threading.Thread(target=self._serve_tcp, daemon=True).start()
        poll = select.poll()
        for source in (channel, self._udp, self._upstream):
            poll.register(source.fileno(), select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll(1000)}
            if channel.fileno() in ready:
                messages = channel.receive()
                if messages is None:
                    return
                self.learn(messages)
            if self._udp.fileno() in ready:
                self._answer_udp()
            if self._upstream.fileno() in ready:
                self._pass_back()
            self._give_up()

    def learn(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.zone.set_names(message["namespace"], message["names"])

    def _answer_udp(self) -> None:
        packet, client = self._udp.recvfrom(4096)
        question = parse_question(packet)
        if question is None:
            return
        known = self.zone.resolve(question)
        if known is not None:
            self._udp.sendto(answer(question, *known, limit=UDP_LIMIT_BYTES), client)
        elif not self._upstreams:
            self._udp.sendto(answer(question, _NXDOMAIN), client)
        else:
            self._forward(question, packet, client)

    def _forward(self, question: Question, packet: bytes, client: tuple[str, int]) -> None:
        self._last_id = (self._last_id + 1) & 0xFFFF
        self._forwarded[self._last_id] = _Forwarded(question, client, time.monotonic() + UPSTREAM_TIMEOUT_S)
        try:
            self._upstream.sendto(struct.pack("!H", self._last_id) + packet[2:], (self._upstreams[0], 53))
        except OSError:
            self._forwarded[self._last_id] = _Forwarded(question, client, 0.0)

    def _pass_back(self) -> None:
        try:
            packet, _ = self._upstream.recvfrom(65_535)
        except OSError:
            return  # the resolver's port is closed; its questions run out of time
        waiting = self._forwarded.pop(int.from_bytes(packet[:2]), None)
        if waiting is not None:
            self._udp.sendto(struct.pack("!H", waiting.question.id) + packet[2:], waiting.client)

    def _give_up(self) -> None:
        now = time.monotonic()
        for number in [number for number, waiting in self._forwarded.items() if waiting.deadline <= now]:
            waiting = self._forwarded.pop(number)
            self._udp.sendto(answer(waiting.question, _SERVFAIL), waiting.client)

    def _serve_tcp(self) -> None:
        while True:
            try:
                connection, _ = self._tcp.accept()
            except OSError:
                return
            threading.Thread(target=self._answer_tcp, args=(connection,), daemon=True).start()

    def _answer_tcp(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(UPSTREAM_TIMEOUT_S)
            try:
                while packet := _read_framed(connection):
                    response = self._tcp_response(packet)
                    connection.sendall(struct.pack("!H", len(response)) + response)
            except OSError:
                pass  # the client went away, or takes too long

    def _tcp_response(self, packet: bytes) -> bytes:
        question = parse_question(packet)
        if question is None:
            return b""
        known = self.zone.resolve(question)
        if known is not None:
            return answer(question, *known)
        if not self._upstreams:
            return answer(question, _NXDOMAIN)
        try:
            with socket.create_connection((self._upstreams[0], 53), timeout=UPSTREAM_TIMEOUT_S) as upstream:
                upstream.sendall(struct.pack("!H", len(packet)) + packet)
                return _read_framed(upstream)
        except OSError:
            return answer(question, _SERVFAIL)


def _read_framed(connection: socket.socket) -> bytes:
    head = _read_exactly(connection, 2)
    return _read_exactly(connection, int.from_bytes(head)) if head else b""


def _read_exactly(connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        more = connection.recv(length - len(data))
        if not more:
            return b""
        data += more
    return data


def host_resolvers(resolv_conf: Iterable[str]) -> list[str]:
    """The IPv4 name servers that lines of resolv.conf(5) name."""
    servers = [line.split()[1] for line in resolv_conf if line.startswith("nameserver") and len(line.split()) > 1]
    return [server for server in servers if ":" not in server]


def listen(address: str) -> tuple[socket.socket, socket.socket]:
    """(UDP, TCP) sockets on port 53 of an address of the current network namespace."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    udp.bind((address, 53))
    tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    tcp.bind((address, 53))
    tcp.listen(128)
    return udp, tcp


def serve_until_closed(channel: Channel, forward: bool) -> None:
    """The name server process: waits for its sockets, then serves. `forward`: ask the host's resolvers for the rest."""
    received = channel.receive_with_fds(2)
    if received is None or len(received[1]) != 2:
        return
    upstreams: list[str] = []
    if forward and os.path.exists("/etc/resolv.conf"):
        with open("/etc/resolv.conf") as file:
            upstreams = host_resolvers(file)
    udp, tcp = (socket.socket(fileno=fd) for fd in received[1])
    server = NameServer(udp, tcp, upstreams)
    server.learn(received[0][1:])  # what arrived in one piece with the sockets
    server.serve(channel)
