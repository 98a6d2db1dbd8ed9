"""From Services and EndpointSlices to names, and how a runtime is told."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from jobset.api.meta import Object
from jobset.api.resources import ENDPOINT_SLICES, SERVICES
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.client import InProcessClient
from jobset.cluster.dns.names import names_of
from jobset.cluster.dns.publisher import NamePublisher
from jobset.cluster.store.memory import MemoryStore
from jobset.reconcile.informer import SharedInformers
from jobset.sim.loop import wall_clock


def service(name: str, namespace: str = "team") -> Object:
    spec = {"clusterIP": "None", "selector": {"app": name}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def endpoint(address: str, hostname: str = "", **conditions: bool) -> Object:
    return {"addresses": [address], **({"hostname": hostname} if hostname else {}), "conditions": conditions}


def slice_of(name: str, *endpoints: Object, number: int = 0, namespace: str = "team", **more: Any) -> Object:
    metadata = {"name": f"{name}-{number}", "namespace": namespace, "labels": {"kubernetes.io/service-name": name}}
    head = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "ports": []}
    return {**head, "metadata": metadata, "endpoints": list(endpoints), **more}


def test_a_service_stands_for_its_endpoints_and_each_hostname_for_itself() -> None:
    slices = [
        slice_of("js", endpoint("10.0.0.3", "w-2"), number=1),
        slice_of("js", endpoint("10.0.0.1", "w-0", ready=True), endpoint("10.0.0.2", "w-1")),
    ]
    assert names_of([service("js")], slices) == {
        "js": ["10.0.0.1", "10.0.0.2", "10.0.0.3"],
        "w-0.js": ["10.0.0.1"],
        "w-1.js": ["10.0.0.2"],
        "w-2.js": ["10.0.0.3"],
    }


def test_what_is_not_ready_not_known_or_not_ipv4_has_no_name() -> None:
    slices = [
        slice_of("js", endpoint("10.0.0.1", "w-0", ready=False)),
        slice_of("gone", endpoint("10.0.0.2", "x")),
        slice_of("js", endpoint("fd00::1", "w-1"), number=1, addressType="IPv6"),
        {"metadata": {"name": "foreign"}, "addressType": "IPv4", "endpoints": [endpoint("10.0.0.4")]},
    ]
    assert names_of([service("js")], slices) == {}


class Recorder:
    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, list[str]]]] = []

    async def set_names(self, namespace: str, names: Mapping[str, Sequence[str]]) -> None:
        self.told.append((namespace, {name: list(addresses) for name, addresses in names.items()}))


async def test_changes_of_a_moment_are_told_once_and_each_namespace_for_itself() -> None:
    client = InProcessClient(ApiService(MemoryStore(), now=wall_clock()))
    for namespace in ("team", "other"):
        await client.create(
            *_namespace(namespace),
        )
    recorder, informers = Recorder(), SharedInformers(client)
    publisher = NamePublisher(informers, recorder)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part.run()) for part in (informers, publisher)]
        await client.create(SERVICES, service("js"))
        for number in range(5):
            one = slice_of("js", endpoint(f"10.0.0.{number}", f"w-{number}"), number=number)
            await client.create(ENDPOINT_SLICES, one)
        await asyncio.sleep(1)
        assert [namespace for namespace, _ in recorder.told] == ["team"]
        assert len(recorder.told[0][1]) == 6
        await client.create(SERVICES, service("db", "other"))
        await client.create(ENDPOINT_SLICES, slice_of("db", endpoint("10.0.1.1"), namespace="other"))
        await client.delete(SERVICES, "team", "js")
        await asyncio.sleep(1)
        assert sorted(recorder.told[1:]) == [("other", {"db": ["10.0.1.1"]}), ("team", {})]
        for task in tasks:
            task.cancel()


def _namespace(name: str) -> tuple[Any, Object]:
    from jobset.api.resources import NAMESPACES

    return NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
