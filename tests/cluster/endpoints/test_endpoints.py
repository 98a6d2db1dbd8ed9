"""Endpoints and EndpointSlices: what one pod looks like, how slices fill, and the controller at work."""

from __future__ import annotations

from typing import Any

import pytest
from scheduling.builders import pod
from scheduling.world import World, world

from jobset.api.meta import Object
from jobset.api.resources import ENDPOINT_SLICES, ENDPOINTS, PODS, SERVICES
from jobset.cluster.controllers.endpoints import EndpointsController
from jobset.cluster.model.endpoints import Endpoint, SliceBook, endpoint_of, endpoints_object


def service(name: str = "js", **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"clusterIP": "None", "selector": {"app": "x"}, **spec},
    }


def running(name: str, ip: str = "10.0.0.1", *, ready: bool = True, phase: str = "Running", **spec: Any) -> Object:
    status = {"phase": phase, "podIP": ip, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
    return {**pod(name, {"app": "x"}, nodeName="n", **spec), "status": status}


# ---------------------------------------------------------------- pure


@pytest.mark.parametrize(
    ("ready", "going", "any_state", "conditions"),
    [
        (True, False, False, {"ready": True, "serving": True, "terminating": False}),
        (False, False, False, {"ready": False, "serving": False, "terminating": False}),
        (False, False, True, {"ready": True, "serving": True, "terminating": False}),
        (True, True, False, {"ready": False, "serving": True, "terminating": True}),
    ],
)
def test_conditions(ready: bool, going: bool, any_state: bool, conditions: Object) -> None:
    one = running("p", ready=ready)
    if going:
        one["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = endpoint_of(one, service(publishNotReadyAddresses=any_state))
    assert found is not None
    assert found.body["conditions"] == conditions


def test_only_pods_with_an_address_that_have_not_ended() -> None:
    assert endpoint_of(running("p", ""), service()) is None
    assert endpoint_of(running("p", phase="Failed"), service()) is None
    assert endpoint_of(running("p", phase="Succeeded"), service()) is None


def test_the_hostname_is_shown_only_under_its_own_subdomain() -> None:
    def hostname(subdomain: str) -> Any:
        found = endpoint_of(running("p", hostname="h", subdomain=subdomain), service())
        assert found is not None
        return found.body.get("hostname")

    assert hostname("js") == "h"
    assert hostname("other") is None


def test_ports_by_number_and_by_name() -> None:
    containers = [{"name": "c", "ports": [{"name": "http", "containerPort": 8080}]}]
    ports = [{"name": "a", "port": 80, "targetPort": "http"}, {"name": "b", "port": 81, "targetPort": "none"}]
    found = endpoint_of(running("p", "fd00::1", containers=containers), service(clusterIP="10.0.0.9", ports=ports))
    assert found is not None
    assert found.group == ("IPv6", (("a", "TCP", 8080),))


def endpoint(number: int, ready: bool = True, family: str = "IPv4") -> Endpoint:
    conditions = {"ready": ready, "serving": ready, "terminating": False}
    return Endpoint(
        f"u{number}",
        (family, ()),
        {"addresses": [f"10.0.{number // 250}.{number % 250}"], "conditions": conditions, "targetRef": {}},
    )


def test_slices_fill_to_a_hundred_and_only_those_that_change_are_told() -> None:
    book = SliceBook()
    for number in range(250):
        assert book.set(f"u{number}", endpoint(number)) == {number // 100}
    assert book.set("u5", endpoint(5)) == set()
    assert book.set("u5", endpoint(5, ready=False)) == {0}
    assert book.set("u120", None) == {1}
    assert book.set("u300", endpoint(300)) == {1}, "a gap is filled before the end grows"
    assert book.set("u301", endpoint(301, family="IPv6")) == {3}
    for number in range(200, 250):
        assert book.set(f"u{number}", None) == {2}
    assert book.slice(2) is None
    assert len(book) == 201


def test_endpoints_are_cut_at_a_thousand_ready_ones_first() -> None:
    many = [endpoint(number, ready=number >= 10) for number in range(1005)]
    found = endpoints_object(service(), many)
    (subset,) = found["subsets"]
    assert len(subset["addresses"]) == 995
    assert len(subset["notReadyAddresses"]) == 5
    assert found["metadata"]["annotations"] == {"endpoints.kubernetes.io/over-capacity": "truncated"}


# ---------------------------------------------------------------- at work


def shown(cluster: World, name: str = "js") -> set[str]:
    slices = [s for s in cluster.all(ENDPOINT_SLICES) if s["metadata"]["labels"]["kubernetes.io/service-name"] == name]
    return {endpoint["targetRef"]["name"] for one in slices for endpoint in one["endpoints"] or ()}


async def start(
    cluster: World, name: str, ip: str, *, ready: bool = True, labels: Object | None = None, **spec: Any
) -> None:
    await cluster.create(PODS, pod(name, labels or {"app": "x"}, nodeName="n", **spec))
    await cluster.set_status(name, phase="Running", podIP=ip, podIPs=[{"ip": ip}], conditions=[_ready(ready)])


def _ready(ready: bool) -> Object:
    return {"type": "Ready", "status": "True" if ready else "False"}


async def test_pods_come_and_go() -> None:
    async with world(EndpointsController) as cluster:
        await cluster.create(SERVICES, service())
        await start(cluster, "a", "10.0.0.1", hostname="a", subdomain="js")
        await start(cluster, "b", "10.0.0.2", ready=False)
        await start(cluster, "other", "10.0.0.3", labels={"app": "y"})
        await cluster.until(lambda: shown(cluster) == {"a", "b"})
        (one,) = cluster.all(ENDPOINT_SLICES)
        assert one["metadata"]["ownerReferences"][0]["name"] == "js"
        assert one["addressType"] == "IPv4"
        assert [e.get("hostname") for e in one["endpoints"]] == ["a", None]
        (subset,) = cluster.get(ENDPOINTS, "js")["subsets"]
        assert [address["ip"] for address in subset["addresses"]] == ["10.0.0.1"]
        assert [address["ip"] for address in subset["notReadyAddresses"]] == ["10.0.0.2"]
        await cluster.set_status("a", phase="Succeeded")
        await cluster.until(lambda: shown(cluster) == {"b"})
        await cluster.client.patch(PODS, "default", "other", {"metadata": {"labels": {"app": "x"}}})
        await cluster.until(lambda: shown(cluster) == {"b", "other"})
        await cluster.client.patch(SERVICES, "default", "js", {"spec": {"selector": {"app": "z"}}})
        await cluster.until(lambda: shown(cluster) == set())
        await cluster.client.patch(
            SERVICES, "default", "js", {"spec": {"publishNotReadyAddresses": True, "selector": {"app": "x"}}}
        )
        await cluster.until(lambda: len(cluster.get(ENDPOINTS, "js").get("subsets") or ()) == 1)
        assert len(cluster.get(ENDPOINTS, "js")["subsets"][0]["addresses"]) == 2


async def test_a_service_takes_its_endpoints_with_it() -> None:
    async with world(EndpointsController) as cluster:
        await cluster.create(SERVICES, service())
        await start(cluster, "a", "10.0.0.1")
        await cluster.until(lambda: shown(cluster) == {"a"})
        await cluster.client.delete(SERVICES, "default", "js")
        await cluster.until(lambda: not cluster.all(ENDPOINT_SLICES) and not cluster.exists(ENDPOINTS, "js"))


async def test_what_others_delete_is_written_again() -> None:
    async with world(EndpointsController) as cluster:
        await cluster.create(SERVICES, service())
        await start(cluster, "a", "10.0.0.1")
        await cluster.until(lambda: shown(cluster) == {"a"} and cluster.exists(ENDPOINTS, "js"))
        await cluster.client.delete(ENDPOINT_SLICES, "default", cluster.all(ENDPOINT_SLICES)[0]["metadata"]["name"])
        await cluster.until(lambda: shown(cluster) == {"a"})
        await cluster.client.delete(ENDPOINTS, "default", "js")
        await cluster.until(lambda: cluster.exists(ENDPOINTS, "js"))


async def test_pods_that_were_there_first_are_found() -> None:
    async with world(EndpointsController) as cluster:
        await start(cluster, "a", "10.0.0.1")
        await cluster.create(SERVICES, service(), service("second"))
        await cluster.until(lambda: shown(cluster) == {"a"} and shown(cluster, "second") == {"a"})


async def test_many_pods_cost_few_writes() -> None:
    async with world(EndpointsController) as cluster:
        await cluster.create(SERVICES, service())
        for number in range(450):
            await start(cluster, f"p{number}", f"10.0.{number // 200}.{number % 200 + 1}")
        await cluster.until(lambda: len(shown(cluster)) == 450)
        slices = cluster.all(ENDPOINT_SLICES)
        assert [len(one["endpoints"]) for one in slices] == [100, 100, 100, 100, 50]
        assert sum(one["metadata"].get("generation", 1) for one in slices) < 25
        before = {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in slices}
        await cluster.set_status("p7", conditions=[_ready(False)])
        await cluster.until(
            lambda: any(not e["conditions"]["ready"] for e in cluster.all(ENDPOINT_SLICES)[0]["endpoints"])
        )
        after = {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in cluster.all(ENDPOINT_SLICES)}
        assert [name for name in before if before[name] != after[name]] == [slices[0]["metadata"]["name"]]
