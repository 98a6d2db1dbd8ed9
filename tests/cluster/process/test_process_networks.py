"""Pods reach each other by name, and probes reach pods, in both networks."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest
from process_rig import PYTHON, Rig, rig

from jobset.cluster.runtime.port import ProbeTarget
from jobset.cluster.runtime.process.runtime import Network

pytestmark = [
    pytest.mark.real_loop,
    pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's"),
]

SERVER = """
import socket, sys
server = socket.create_server((sys.argv[1], 29500))
print("listening", flush=True)
for _ in range(int(sys.argv[2])):
    connection, peer = server.accept()
    connection.sendall((socket.gethostname() + " " + peer[0]).encode())
    connection.close()
"""


CLIENT = """
import socket, sys
for name in sys.argv[1:]:
    connection = socket.create_connection((name, 29500), timeout=10)
    print(connection.makefile().read(), flush=True)
"""


async def test_eight_pods_listen_on_one_port_and_reach_each_other_by_name(
    place: Path, network: Network, namespaces: None
) -> None:
    async with rig(place, network) as r:
        pods = [f"js-w-0-{number}" for number in range(8)]
        addresses = {pod: await r.sandbox(pod) for pod in pods}
        assert len(set(addresses.values())) == 8
        await r.runtime.set_names("default", {f"{pod}.js": [address] for pod, address in addresses.items()})
        for pod in pods:
            own = "0.0.0.0" if network == "pod" else addresses[pod]
            await r.start(pod, PYTHON, "-S", "-c", SERVER, own, "8", name="server")
        for pod in pods:
            await _wait_listening(r, pod)
        for pod in pods:
            await r.start(pod, PYTHON, "-S", "-c", CLIENT, *(f"{other}.js" for other in pods), name="client")
        for pod in pods:
            assert (await r.wait_exit((pod, "client", 0))).exit_code == 0, r.output(pod, "client")
            answers = [line.split() for line in r.output(pod, "client").splitlines()]
            assert [who for who, _ in answers] == pods
            if network == "pod":
                assert {seen for _, seen in answers} == {addresses[pod]}


async def _wait_listening(r: Rig, pod: str) -> None:
    async with asyncio.timeout(20):
        while "listening" not in r.output(pod, "server"):
            await asyncio.sleep(0.005)


async def test_names_are_known_in_full_and_short_and_follow_changes(
    place: Path, network: Network, namespaces: None
) -> None:
    async with rig(place, network) as r:
        await r.sandbox("a")
        await r.runtime.set_names("default", {"db-0.db": ["127.9.9.9"]})
        script = """
        for name in db-0.db db-0.db.default db-0.db.default.svc.cluster.local; do getent ahostsv4 $name | head -1; done
        echo first; until getent ahostsv4 db-1.db; do sleep 0.02; done; getent ahostsv4 db-0.db || echo gone
        """
        await r.start("a", "sh", "-c", script)
        await r.wait_output("a", "first")
        assert r.output("a").count("127.9.9.9") == 3
        await r.runtime.set_names("default", {"db-1.db": ["127.8.8.8"]})
        await r.wait_output("a", "gone")
        assert "127.8.8.8" in r.output("a")


async def test_a_pod_knows_its_own_names_and_aliases(place: Path, network: Network, namespaces: None) -> None:
    async with rig(place, network) as r:
        address = await r.sandbox("own-0", host_aliases=(("10.1.2.3", ("legacy", "legacy.example")),))
        names = "own-0 own-0.js.default.svc.cluster.local legacy"
        script = f"hostname; echo $HOSTNAME; for name in {names}; do getent hosts $name; done"
        await r.wait_exit(await r.start("own-0", "sh", "-c", script))
        lines = r.output("own-0").splitlines()
        assert lines[:2] == ["own-0", "own-0"]
        assert [line.split()[0] for line in lines[2:]] == [address, address, "10.1.2.3"]


async def test_namespaces_do_not_see_each_others_short_names(place: Path, network: Network, namespaces: None) -> None:
    async with rig(place, network) as r:
        await r.runtime.set_names("blue", {"x.js": ["127.1.1.1"]})
        await r.sandbox("p", namespace="green")
        end = await r.wait_exit(await r.start("p", "getent", "hosts", "x.js"))
        assert end.exit_code == 2


async def test_pods_of_two_virtual_nodes_with_host_network_share_no_ports(
    place: Path, network: Network, namespaces: None
) -> None:
    async with rig(place, network) as r:
        one = await r.sandbox("one", node="node-a", host_network=True)
        two = await r.sandbox("two", node="node-b", host_network=True)
        also = await r.sandbox("also", node="node-a", host_network=True)
        assert one != two
        assert (one == also) == (network == "pod")
        for pod, address in (("one", one), ("two", two)):
            await r.start(pod, PYTHON, "-S", "-c", SERVER, address, "1", name="server")
            await _wait_listening(r, pod)
        await r.runtime.set_names("default", {"one.js": [one], "two.js": [two]})
        await r.wait_exit(await r.start("also", PYTHON, "-S", "-c", CLIENT, "one.js", "two.js"))
        assert [line.split()[0] for line in r.output("also").splitlines()] == ["one", "two"]


async def test_a_freed_address_can_be_asked_for_again(place: Path, network: Network) -> None:
    async with rig(place, network) as r:
        address = await r.sandbox("a")
        await r.runtime.remove_sandbox("a")
        other = await r.sandbox("b")
        assert other != address
        assert await r.sandbox("a", ip_hint=address) == address
        assert await r.sandbox("c", ip_hint=address) != address


async def test_what_has_no_way_out_is_refused_at_once(place: Path, namespaces: None) -> None:
    async with rig(place, "pod") as r:
        if "no way out" not in r.runtime.network.sentence:
            pytest.skip("pods have a way out here")
        before = time.monotonic()
        connect = "import socket; socket.create_connection(('203.0.113.1', 80), timeout=15)"
        await r.run("a", PYTHON, "-S", "-c", connect)
        assert "unreachable" in r.output("a")
        end = await r.run("b", "getent", "hosts", "example.org")
        assert end.exit_code == 2
        assert time.monotonic() - before < 5


HTTP = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        good = self.path == "/ok" and self.headers["X-Key"] == "v"
        self.send_response(200 if good else 302 if self.path == "/moved" else 503)
        self.end_headers()
    def log_message(self, *args): pass
import sys
server = http.server.ThreadingHTTPServer((sys.argv[1], 8080), Handler)
print("listening", flush=True)
server.serve_forever()
"""


async def test_probes_reach_into_the_pods_network(place: Path, network: Network) -> None:
    async with rig(place, network) as r:
        address = await r.sandbox("a")
        await r.start("a", PYTHON, "-S", "-c", HTTP, address, name="server")
        await _wait_listening(r, "a")
        probe = r.runtime.probe
        assert await probe("a", ProbeTarget("tcp", 8080), 2) == (True, f"connected to {address}:8080")
        assert not (await probe("a", ProbeTarget("tcp", 8081), 2))[0]
        http = ProbeTarget("http", 8080, path="/ok", headers=(("X-Key", "v"),))
        assert await probe("a", http, 2) == (True, "HTTP probe: status 200")
        assert (await probe("a", ProbeTarget("http", 8080, path="/moved"), 2))[0]
        assert await probe("a", ProbeTarget("http", 8080), 2) == (False, "HTTP probe: status 503")
        assert not (await probe("a", ProbeTarget("http", 8080, scheme="https"), 2))[0]


SILENT = """
import socket, sys
server = socket.create_server((sys.argv[1], 8080))
print("listening", flush=True)
kept = [server.accept() for _ in range(2)]
"""


async def test_a_probe_that_gets_no_answer_runs_out_of_time(place: Path) -> None:
    async with rig(place) as r:
        address = await r.sandbox("a")
        await r.start("a", PYTHON, "-S", "-c", SILENT, address, name="server")
        await _wait_listening(r, "a")
        assert await r.runtime.probe("a", ProbeTarget("http", 8080), 0.2) == (False, "no answer within 0.2 s")
