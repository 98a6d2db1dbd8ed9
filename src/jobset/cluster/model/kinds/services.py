"""Service, Endpoints and EndpointSlice as the API server handles them. Pure.

Which cluster IP a Service gets is not decided here: the API service allocates one if `needs_cluster_ip` and writes it
with `with_cluster_ip`.
"""

from __future__ import annotations

from jobset.api.meta import Object
from jobset.api.resources import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from jobset.cluster.model.kinds.copy_on_write import change_each, change_in, drop_zero, fill, fill_zero, put
from jobset.cluster.model.kinds.kind import Kind, Subresource
from jobset.cluster.model.kinds.service_validation import (
    validate_endpoint_slice,
    validate_endpoint_slice_update,
    validate_endpoints,
    validate_service,
    validate_service_update,
)

_CLIENT_IP_TIMEOUT_S = 10800
_SPEC_ZERO = frozenset(
    (
        "ports", "selector", "externalIPs", "loadBalancerSourceRanges", "publishNotReadyAddresses", "clusterIP",
        "clusterIPs", "externalName", "loadBalancerIP", "healthCheckNodePort",
    )
)  # fmt: skip
_PORT_ZERO = frozenset(("name", "nodePort"))
_NO_STATUS: Object = {"loadBalancer": {}}


def default_service(service: Object) -> Object:
    spec = drop_zero(service.get("spec") or {}, _SPEC_ZERO)
    spec = fill_zero(spec, {"type": "ClusterIP", "sessionAffinity": "None"})
    if spec["sessionAffinity"] == "ClientIP":
        timeout = {"clientIP": {"timeoutSeconds": _CLIENT_IP_TIMEOUT_S}}
        spec = fill(spec, {"sessionAffinityConfig": timeout})
    if spec["type"] in ("ClusterIP", "NodePort", "LoadBalancer"):
        spec = fill(spec, {"internalTrafficPolicy": "Cluster"})
    if spec["type"] in ("NodePort", "LoadBalancer"):
        spec = fill_zero(spec, {"externalTrafficPolicy": "Cluster"})
    if spec["type"] == "LoadBalancer":
        spec = fill(spec, {"allocateLoadBalancerNodePorts": True})
    spec = change_in(spec, "ports", lambda ports: change_each(ports, _default_port))
    return fill(put(service, "spec", _default_families(spec)), {"status": _NO_STATUS})


def _default_port(port: Object) -> Object:
    port = fill_zero(drop_zero(port, _PORT_ZERO), {"protocol": "TCP"})
    return port if port.get("targetPort") or not port.get("port") else put(port, "targetPort", port["port"])


def _default_families(spec: Object) -> Object:
    """One IP family: the cluster speaks IPv4. A name in another DNS has no address at all."""
    if spec["type"] == "ExternalName":
        return spec
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec = put(spec, "clusterIPs", [spec["clusterIP"]])
    elif spec.get("clusterIPs") and not spec.get("clusterIP"):
        spec = put(spec, "clusterIP", spec["clusterIPs"][0])
    return fill(spec, {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"})


def needs_cluster_ip(service: Object) -> bool:
    spec = service["spec"]
    return spec["type"] != "ExternalName" and not spec.get("clusterIP")


def with_cluster_ip(service: Object, address: str) -> Object:
    return put(service, "spec", {**service["spec"], "clusterIP": address, "clusterIPs": [address]})


def prepare_service(service: Object) -> Object:
    return put(service, "status", _NO_STATUS)


def prepare_service_update(new: Object, old: Object) -> Object:
    """Status stays; addresses and families left out of an update stay too; a patched clusterIP carries its list."""
    spec, before = new["spec"], old["spec"]
    if spec["type"] != "ExternalName":
        if not spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec = fill(spec, {key: before[key] for key in ("clusterIP", "clusterIPs") if key in before})
        elif spec.get("clusterIP") != before.get("clusterIP") and spec.get("clusterIPs") == before.get("clusterIPs"):
            spec = put(spec, "clusterIPs", [spec["clusterIP"]] if spec.get("clusterIP") else None)
    return put(put(new, "spec", spec), "status", old.get("status", _NO_STATUS))


def merge_service_status(new: Object, old: Object) -> Object:
    return put(put(new, "spec", old["spec"]), "status", new.get("status") or _NO_STATUS)


SERVICE = Kind(
    resource=SERVICES,
    definition="io.k8s.api.core.v1.Service",
    default=default_service,
    prepare_create=prepare_service,
    prepare_update=prepare_service_update,
    validate=validate_service,
    validate_update=validate_service_update,
    subresources={"status": Subresource(merge_service_status)},
    generation=False,
    creates_on_update=True,
    name_rule="dns-label",
    field_selectors=("spec.clusterIP", "spec.type"),
    short_names=("svc",),
    categories=("all",),
)


def default_endpoints(endpoints: Object) -> Object:
    def subset(one: Object) -> Object:
        return change_in(one, "ports", lambda ports: change_each(ports, lambda p: fill_zero(p, {"protocol": "TCP"})))

    return change_in(endpoints, "subsets", lambda subsets: change_each(subsets, subset))


ENDPOINTS_KIND = Kind(
    resource=ENDPOINTS,
    definition="io.k8s.api.core.v1.Endpoints",
    default=default_endpoints,
    validate=validate_endpoints,
    validate_update=lambda new, _: validate_endpoints(new),
    generation=False,
    creates_on_update=True,
    short_names=("ep",),
)


def default_endpoint_slice(endpoint_slice: Object) -> Object:
    def port(one: Object) -> Object:
        return fill(one, {"name": "", "protocol": "TCP"})

    return change_in(endpoint_slice, "ports", lambda ports: change_each(ports, port))


ENDPOINT_SLICE = Kind(
    resource=ENDPOINT_SLICES,
    definition="io.k8s.api.discovery.v1.EndpointSlice",
    default=default_endpoint_slice,
    validate=validate_endpoint_slice,
    validate_update=validate_endpoint_slice_update,
)
