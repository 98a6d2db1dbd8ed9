"""Which DNS names a namespace has: from its Services and their EndpointSlices to names and addresses. Pure.

A Service's name stands for all its ready endpoints; an endpoint with a hostname has `<hostname>.<service>` besides:
that is how the pods of a JobSet find each other. Names are short: without namespace and cluster domain.
"""

from __future__ import annotations

from collections.abc import Iterable

from jobset.api.meta import Object

SERVICE_LABEL = "kubernetes.io/service-name"


def service_of(endpoint_slice: Object) -> str:
    """The name of the Service that a slice belongs to, or nothing."""
    return str((endpoint_slice["metadata"].get("labels") or {}).get(SERVICE_LABEL, ""))


def names_of(services: Iterable[Object], slices: Iterable[Object]) -> dict[str, list[str]]:
    """Name -> IPv4 addresses, in the order of the slices' names, each address once."""
    known = {service["metadata"]["name"] for service in services}
    found: dict[str, dict[str, None]] = {}
    for one in sorted(slices, key=lambda one: str(one["metadata"]["name"])):
        service = service_of(one)
        if service not in known or one.get("addressType", "IPv4") != "IPv4":
            continue
        whole = found.setdefault(service, {})
        for endpoint in one.get("endpoints") or ():
            if (endpoint.get("conditions") or {}).get("ready") is False:
                continue
            addresses = dict.fromkeys(endpoint["addresses"])
            whole.update(addresses)
            if endpoint.get("hostname"):
                found.setdefault(f"{endpoint['hostname']}.{service}", {}).update(addresses)
    return {name: list(addresses) for name, addresses in found.items() if addresses}
