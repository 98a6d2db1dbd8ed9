"""Cluster IPs of Services: each Service that is not headless gets an address of its own."""

from __future__ import annotations

from ipaddress import IPv4Network

from jobset.api.errors import Invalid
from jobset.api.field_errors import invalid as invalid_cause
from jobset.api.meta import Object
from jobset.api.resources import SERVICES
from jobset.cluster.apiserver.metadata import invalid
from jobset.cluster.store.port import Store

SERVICE_NETWORK = IPv4Network("10.96.0.0/12")


class ServiceAddresses:
    """Addresses are handed out in order; those that a Service asked for by itself are stepped over."""

    def __init__(self, store: Store, network: IPv4Network = SERVICE_NETWORK) -> None:
        self._store = store
        self._network = network
        self._next = 1
        self._taken = {address for service in store.list("services") if (address := _address(service))}

    def complete(self, service: Object, trial: bool) -> Object:
        """The service with its address; Invalid when it asks for one that is not to be had."""
        spec = service["spec"]
        if spec.get("type") == "ExternalName" or spec.get("clusterIP") == "None":
            return service
        wanted = spec.get("clusterIP")
        if wanted:
            self._check(service, wanted)
        address = wanted or self._free()
        if not trial:
            self._taken.add(address)
        if spec.get("clusterIPs") == [address]:
            return service
        return {**service, "spec": {**spec, "clusterIP": address, "clusterIPs": [address]}}

    def _check(self, service: Object, wanted: str) -> None:
        metadata = service["metadata"]
        for other in self._store.list("services"):
            if _address(other) == wanted and other["metadata"]["uid"] != metadata.get("uid"):
                raise self._refused(service, wanted, "provided IP is already allocated")

    def _refused(self, service: Object, wanted: str, why: str) -> Invalid:
        cause = invalid_cause("spec.clusterIPs", [wanted], f"failed to allocate IP {wanted}: {why}")
        return invalid(SERVICES, service["metadata"]["name"], [cause])

    def _free(self) -> str:
        while True:
            address = str(self._network[self._next])
            self._next = self._next % (self._network.num_addresses - 2) + 1
            if address not in self._taken:
                return address


def _address(service: Object) -> str:
    address = service.get("spec", {}).get("clusterIP", "")
    return "" if address == "None" else address
