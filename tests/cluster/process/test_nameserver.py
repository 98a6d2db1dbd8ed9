"""The pods' name server: what it answers, on the wire."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from jobset.cluster.runtime.process.node.nameserver import (
    NameServer,
    Question,
    Zone,
    answer,
    host_resolvers,
    parse_question,
    wire_name,
)
from jobset.cluster.runtime.process.node.wire import Channel

A, AAAA, PTR = 1, 28, 12


def query(name: str, kind: int = A, number: int = 7) -> bytes:
    return struct.pack("!HHHHHH", number, 0x0100, 1, 0, 0, 0) + wire_name(name) + struct.pack("!HH", kind, 1)


def question(name: str, kind: int = A) -> Question:
    parsed = parse_question(query(name, kind))
    assert parsed is not None
    return parsed


@pytest.fixture
def zone() -> Zone:
    zone = Zone()
    zone.set_names("team", {"js-w-0-0.js": ["10.244.1.1"], "js": ["10.244.1.1", "10.244.1.2"]})
    return zone


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("js-w-0-0.js.team.svc.cluster.local", A, (0, ["10.244.1.1"])),
        ("JS-W-0-0.js.TEAM.svc.cluster.local", A, (0, ["10.244.1.1"])),
        ("js.team.svc.cluster.local", A, (0, ["10.244.1.1", "10.244.1.2"])),
        ("js.team.svc.cluster.local", AAAA, (0, [])),
        ("js.other.svc.cluster.local", A, (3, [])),
        ("gone.js.team.svc.cluster.local", A, (3, [])),
        ("js-w-0-0.js.svc.cluster.local", A, (3, [])),
        ("js.cluster.local", A, (3, [])),
        ("example.org", A, None),
        ("js-w-0-0.js", A, None),
        ("notcluster.local", A, None),
    ],
)
def test_names(zone: Zone, name: str, kind: int, expected: tuple[int, list[str]] | None) -> None:
    found = zone.resolve(question(name, kind))
    assert (found and (found[0], [socket.inet_ntoa(data) for data in found[1]])) == expected


def test_addresses_lead_back_to_pods(zone: Zone) -> None:
    assert zone.resolve(question("1.1.244.10.in-addr.arpa", PTR)) == (
        0,
        [wire_name("js-w-0-0.js.team.svc.cluster.local")],
    )
    assert zone.resolve(question("9.9.9.9.in-addr.arpa", PTR)) is None


def test_names_of_a_namespace_are_replaced_whole(zone: Zone) -> None:
    zone.set_names("team", {"other": ["10.244.1.9"]})
    assert zone.resolve(question("js.team.svc.cluster.local")) == (3, [])
    assert zone.resolve(question("other.team.svc.cluster.local")) == (0, [socket.inet_aton("10.244.1.9")])


def test_an_answer_that_does_not_fit_says_that_it_is_cut() -> None:
    asked = question("js.team.svc.cluster.local")
    records = [socket.inet_aton(f"10.244.1.{number}") for number in range(1, 101)]
    short, whole = answer(asked, 0, records, limit=512), answer(asked, 0, records)
    assert len(short) <= 512
    flags, _, count = struct.unpack_from("!HHH", short, 2)
    assert flags & 0x0200 and 20 < count < 100
    flags, _, count = struct.unpack_from("!HHH", whole, 2)
    assert not flags & 0x0200 and count == 100


@pytest.mark.parametrize(
    "packet", [b"", b"x" * 11, query("a")[:14], b"\0\1\x80\0\0\1" + b"\0" * 20, b"\0" * 12 + b"\xc0" * 9]
)
def test_what_is_no_query_is_no_question(packet: bytes) -> None:
    assert parse_question(packet) is None


def test_resolvers_of_the_host() -> None:
    lines = [
        "# by hand",
        "nameserver 192.0.2.1",
        "search x",
        "nameserver fe80::1",
        "nameserver 192.0.2.2",
        "nameserver",
    ]
    assert host_resolvers(lines) == ["192.0.2.1", "192.0.2.2"]


@pytest.fixture
def served() -> Iterator[tuple[tuple[str, int], tuple[str, int]]]:
    """The addresses of a running name server, UDP and TCP, that forwards to a port nobody listens on."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    tcp = socket.create_server(("127.0.0.1", 0))
    ours, theirs = (Channel(end) for end in socket.socketpair())
    server = NameServer(udp, tcp, [])
    thread = threading.Thread(target=server.serve, args=(theirs,))
    thread.start()
    many = [f"10.244.2.{number}" for number in range(1, 101)]
    ours.send({"namespace": "team", "names": {"js": many}})
    yield udp.getsockname(), tcp.getsockname()
    ours.close()
    thread.join()
    tcp.shutdown(socket.SHUT_RDWR)
    for opened in (udp, tcp):
        opened.close()


def test_large_answers_come_over_tcp(served: tuple[tuple[str, int], tuple[str, int]]) -> None:
    udp, tcp = served
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(5)
        client.sendto(query("js.team.svc.cluster.local", number=0x1234), udp)
        short = client.recv(4096)
    assert short[:2] == b"\x12\x34" and len(short) <= 512
    with socket.create_connection(tcp, timeout=5) as connection, connection.makefile("rb") as stream:
        for _ in range(2):  # one connection serves several questions
            packet = query("js.team.svc.cluster.local")
            connection.sendall(struct.pack("!H", len(packet)) + packet)
            whole = stream.read(int.from_bytes(stream.read(2)))
            assert struct.unpack_from("!H", whole, 6) == (100,)


def test_without_a_way_out_foreign_names_are_refused_at_once(served: tuple[tuple[str, int], tuple[str, int]]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(5)
        client.sendto(query("example.org"), served[0])
        assert client.recv(512)[3] & 0xF == 3
