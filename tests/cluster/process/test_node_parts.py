"""The pure parts of the node process."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from jobset.cluster.runtime.process.node.addresses import AddressPool, free_pod_subnet, has_default_route
from jobset.cluster.runtime.process.node.cgroups import Limits, find
from jobset.cluster.runtime.process.node.choice import WayOut, choose
from jobset.cluster.runtime.process.node.isolation import Isolation
from jobset.cluster.runtime.process.node.logs import LogStream, rfc3339_nano
from jobset.cluster.runtime.process.node.name_files import NamespaceHosts, nsswitch_conf, rewrite
from jobset.cluster.runtime.process.node.wire import FrameReader, encode

ALL = Isolation(mounts=True, processes=True, network=True)
ROUTES = [
    "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT",
    "eth0 00000000 010200C0 0003 0 0 0 00000000 0 0 0",
    "eth0 0000F40A 00000000 0001 0 0 0 0000FFFF 0 0 0",
]


@pytest.mark.parametrize(
    ("requested", "isolation", "way_out", "kind", "says"),
    [
        ("auto", ALL, WayOut("/usr/bin/slirp4netns"), "pod", "slirp4netns leads out"),
        ("auto", ALL, WayOut(needed=False), "pod", "no way out"),
        ("auto", ALL, WayOut(), "host", "install slirp4netns"),
        (
            "auto",
            Isolation(mounts=True, problem="EPERM"),
            WayOut(),
            "host",
            "network namespaces do not work here (EPERM)",
        ),
        ("auto", Isolation(problem="AppArmor"), WayOut(), "host", "mount namespaces do not work here (AppArmor)"),
        ("pod", ALL, WayOut(), "pod", "own network, address and DNS name"),
        ("host", ALL, WayOut("slirp4netns"), "host", "127.x.y.z"),
    ],
)
def test_choice_of_network(requested: str, isolation: Isolation, way_out: WayOut, kind: str, says: str) -> None:
    choice = choose(requested, isolation, way_out)
    assert (choice.kind, choice.problem) == (kind, "")
    assert says in choice.sentence and "\n" not in choice.sentence


def test_a_network_that_was_asked_for_and_cannot_be_had_is_a_problem() -> None:
    problem = choose("pod", Isolation(mounts=True, problem="EPERM"), WayOut()).problem
    assert "EPERM" in problem and "use host network" in problem


def test_addresses_are_not_used_again_at_once() -> None:
    pool = AddressPool("10.244.0.0")
    first = pool.take()
    pool.give_back(first)
    taken = [pool.take() for _ in range(600)]
    assert first not in taken and len(set(taken)) == 600
    assert not [address for address in taken if address.endswith((".0", ".255"))]
    assert pool.take(first) == first
    assert pool.take(first) != first
    assert pool.take("192.0.2.1").startswith("10.244.")
    assert pool.reserved(1) == "10.244.0.1"


def test_pods_get_a_subnet_that_the_machine_does_not_use() -> None:
    assert free_pod_subnet(ROUTES) == "10.88.0.0"
    assert free_pod_subnet(ROUTES[:2]) == "10.244.0.0"
    assert has_default_route(ROUTES)
    assert not has_default_route(ROUTES[::2])


def test_messages_arrive_whole_however_they_are_cut() -> None:
    data = encode({"op": "a", "text": "ü" * 10}) + encode({}) + encode({"n": [1, 2]})
    for step in (1, 3, 7, len(data)):
        frames = FrameReader()
        got = [message for at in range(0, len(data), step) for message in frames.feed(data[at : at + step])]
        assert got == [{"op": "a", "text": "ü" * 10}, {}, {"n": [1, 2]}]


def test_times_have_nanoseconds() -> None:
    assert rfc3339_nano(1_700_000_000_000_000_042) == "2023-11-14T22:13:20.000000042Z"


def test_the_log_pump_is_quick_and_keeps_every_byte(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    stream = LogStream(fd, "stdout")
    data = b"".join(b"line %d\n" % number for number in range(10_000))
    before = time.process_time()
    for at in range(0, len(data), 4000):
        stream.write(data[at : at + 4000])
    stream.finish()
    assert time.process_time() - before < 1.0
    os.close(fd)
    lines = (tmp_path / "log").read_bytes().splitlines()
    assert all(re.fullmatch(rb"\S{30} stdout F line \d+", line) for line in lines)
    assert b"".join(line.split(b" ", 3)[3] + b"\n" for line in lines) == data


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("hosts: files dns\n", None),
        ("passwd: files\nhosts:\tfiles myhostname dns # ok", "passwd: files\nhosts: files dns"),
        ("a: b\nhosts: files mymachines resolve [!UNAVAIL=return] dns\nc: d\n", "a: b\nhosts: files dns\nc: d\n"),
        ("passwd: files\n", "passwd: files\nhosts: files dns\n"),
        ("", None),
    ],
)
def test_name_services_that_know_no_pods_are_left_out(host: str, expected: str | None) -> None:
    assert nsswitch_conf(host) == expected


def test_hosts_files_keep_their_inode_and_lose_what_is_gone(tmp_path: Path) -> None:
    hosts = NamespaceHosts(str(tmp_path), "team")
    path = hosts.add_pod("uid", "127.64.1.1", "w-0.js.team.svc.cluster.local", "w-0", [])
    own = hosts.add_pod("uid2", "127.64.1.2", "", "w-1", [("192.0.2.1", ["old"])])
    inode = Path(path).stat().st_ino
    hosts.set_names({"db": ["127.64.1.9", "127.64.1.8"]})
    assert Path(path).stat().st_ino == inode
    for file in (path, own):
        assert "127.64.1.9\tdb.team.svc.cluster.local db db.team db.team.svc\n" in Path(file).read_text()
    assert "192.0.2.1\told\n" in Path(own).read_text()
    hosts.remove_pod("uid")
    hosts.remove_pod("uid2")
    hosts.set_names({})
    assert Path(path).read_text().splitlines()[-1].startswith("127.64.1.2") is False
    assert not Path(own).exists()


def test_rewriting_with_less_cuts_the_rest(tmp_path: Path) -> None:
    rewrite(str(tmp_path / "f"), "long text\n")
    rewrite(str(tmp_path / "f"), "short\n")
    assert (tmp_path / "f").read_text() == "short\n"


@pytest.mark.root
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="control groups need root here")
def test_control_groups_are_made_and_removed() -> None:
    groups = find(f"jobset-test-{os.getpid()}", (os.getpid(),))
    if groups is None:
        pytest.skip("no control group is writable here")
    try:
        pod = groups.create("pod", Limits(memory_bytes=256 << 20))
        assert groups.create("nothing", Limits()) is None
        container = groups.create("main-0", Limits(memory_bytes=64 << 20, cpu_cores=0.5), pod)
        assert container is not None and pod is not None
        assert any(directory.startswith(f"{pod.directories[0]}/") for directory in container.directories)
        assert container.out_of_memory_kills() == 0
        written = {Path(path, "memory.limit_in_bytes") for path in container.directories}
        written |= {Path(path, "memory.max") for path in container.directories}
        assert [file.read_text().strip() for file in written if file.exists()] == [str(64 << 20)]
    finally:
        groups.close()
    assert not any(Path(directory).exists() for directory in pod.directories)
