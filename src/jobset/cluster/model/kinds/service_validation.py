"""Rules of Services and of the endpoints behind them. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from jobset.api.errors import Cause
from jobset.api.field_errors import duplicate, forbidden, invalid, not_supported, required, too_many
from jobset.api.meta import Object
from jobset.api.name_rules import dns_label_problems, dns_subdomain_problems, qualified_name_problems
from jobset.cluster.model.kinds.problems import immutable, invalid_each, labels, one_of, optional_one_of
from jobset.cluster.model.names import address, port_number, port_number_or_name

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITIES = ("ClientIP", "None")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_TRAFFIC_POLICIES = ("Cluster", "Local")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_DISTRIBUTIONS = ("PreferClose", "PreferSameNode", "PreferSameZone")
_FAMILIES = ("IPv4", "IPv6")
_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_AFFINITY_MAX_S = 86400
_ENDPOINTS_MAX = 1000
_ADDRESSES_MAX = 100
_SLICE_PORTS_MAX = 20000


def validate_service(service: Object) -> list[Cause]:
    return list(_service_problems(service["spec"]))


def _service_problems(spec: Object) -> Iterator[Cause]:
    kind, headless = spec.get("type"), spec.get("clusterIP") == "None"
    ports = spec.get("ports") or []
    if not ports and not headless and kind != "ExternalName":
        yield required("spec.ports")
    yield from one_of("spec.type", kind, _TYPES)
    if kind == "ExternalName":
        yield from _validate_external_name(spec)
    elif kind in ("LoadBalancer", "NodePort") and headless:
        yield invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    yield from _validate_ports(ports)
    yield from _validate_node_ports(ports, kind or "")
    yield from labels("spec.selector", spec.get("selector"))
    yield from _validate_affinity(spec)
    yield from _validate_addresses(spec)
    yield from optional_one_of("spec.internalTrafficPolicy", spec.get("internalTrafficPolicy"), _TRAFFIC_POLICIES)
    yield from optional_one_of("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), _FAMILY_POLICIES)
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        yield from optional_one_of(f"spec.ipFamilies[{index}]", family, _FAMILIES)
    yield from _validate_external(spec, kind or "")
    distribution = spec.get("trafficDistribution")
    yield from optional_one_of("spec.trafficDistribution", distribution, _DISTRIBUTIONS)


def _validate_external(spec: Object, kind: str) -> Iterator[Cause]:
    """What only services that are reached from outside may say."""
    policy = spec.get("externalTrafficPolicy")
    if policy and kind not in ("LoadBalancer", "NodePort") and not spec.get("externalIPs"):
        detail = "may only be set for externally-accessible services"
        yield invalid("spec.externalTrafficPolicy", policy, detail)
    elif policy:
        yield from one_of("spec.externalTrafficPolicy", policy, _TRAFFIC_POLICIES)
    if spec.get("allocateLoadBalancerNodePorts") is not None and kind != "LoadBalancer":
        yield forbidden("spec.allocateLoadBalancerNodePorts", "may only be used when `type` is 'LoadBalancer'")
    if spec.get("loadBalancerSourceRanges") and kind != "LoadBalancer":
        yield forbidden("spec.LoadBalancerSourceRanges", "may only be used when `type` is 'LoadBalancer'")


def _validate_node_ports(ports: list[Object], kind: str) -> Iterator[Cause]:
    seen: set[tuple[object, object]] = set()
    for index, port in enumerate(ports):
        path, number = f"spec.ports[{index}].nodePort", port.get("nodePort")
        if not number:
            continue
        if kind == "ClusterIP":
            yield forbidden(path, "may not be used when `type` is 'ClusterIP'")
        if (port.get("protocol"), number) in seen:
            yield duplicate(path, number)
        seen.add((port.get("protocol"), number))


def _validate_external_name(spec: Object) -> Iterator[Cause]:
    name = (spec.get("externalName") or "").removesuffix(".")
    if spec.get("clusterIP") or spec.get("clusterIPs"):
        yield forbidden("spec.clusterIPs", "may not be set for ExternalName services")
    for field in ("ipFamilies", "ipFamilyPolicy"):
        if spec.get(field):
            yield forbidden(f"spec.{field}", "may not be set for ExternalName services")
    if not name:
        yield required("spec.externalName")
    else:
        yield from invalid_each("spec.externalName", name, dns_subdomain_problems(name))


def _validate_ports(ports: list[Object]) -> Iterator[Cause]:
    names: set[str] = set()
    seen: set[tuple[object, object]] = set()
    for index, port in enumerate(ports):
        path, name = f"spec.ports[{index}]", port.get("name") or ""
        if not name and len(ports) > 1:
            yield required(f"{path}.name")
        elif name:
            yield from invalid_each(f"{path}.name", name, dns_label_problems(name))
            if name in names:
                yield duplicate(f"{path}.name", name)
            names.add(name)
        yield from invalid_each(f"{path}.port", port.get("port") or 0, port_number(port.get("port") or 0))
        yield from one_of(f"{path}.protocol", port.get("protocol"), _PROTOCOLS)
        target = port.get("targetPort") or 0
        yield from invalid_each(f"{path}.targetPort", target, port_number_or_name(target))
        if port.get("appProtocol"):
            problems = qualified_name_problems(port["appProtocol"])
            yield from invalid_each(f"{path}.appProtocol", port["appProtocol"], problems)
        key = (port.get("protocol"), port.get("port"))
        if key in seen:
            yield duplicate(path, {"protocol": key[0], "port": key[1]})
        seen.add(key)


def _validate_affinity(spec: Object) -> Iterator[Cause]:
    yield from one_of("spec.sessionAffinity", spec.get("sessionAffinity"), _AFFINITIES)
    config = spec.get("sessionAffinityConfig")
    if config is None:
        return
    if spec.get("sessionAffinity") == "None":
        detail = "must not be set when session affinity is None"
        yield forbidden("spec.sessionAffinityConfig", detail)
        return
    timeout = (config.get("clientIP") or {}).get("timeoutSeconds")
    path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
    if timeout is not None and not 0 < timeout <= _AFFINITY_MAX_S:
        yield invalid(path, timeout, f"must be greater than 0 and less than {_AFFINITY_MAX_S}")


def _validate_addresses(spec: Object) -> Iterator[Cause]:
    if spec.get("type") == "ExternalName":
        return
    for index, ip in enumerate(spec.get("clusterIPs") or ()):
        if ip != "None":
            yield from invalid_each(f"spec.clusterIPs[{index}]", ip, address(ip))
    for index, ip in enumerate(spec.get("externalIPs") or ()):
        yield from invalid_each(f"spec.externalIPs[{index}]", ip, address(ip))


def validate_service_update(new: Object, old: Object) -> list[Cause]:
    if new["spec"] == old["spec"]:
        return []
    return [*_cluster_ip_problems(new["spec"], old["spec"]), *validate_service(new)]


def _cluster_ip_problems(spec: Object, before: Object) -> Iterator[Cause]:
    if "ExternalName" in (spec.get("type"), before.get("type")):
        return
    addresses, kept = spec.get("clusterIPs") or [], before.get("clusterIPs") or []
    if kept and addresses[:1] != kept[:1]:
        yield invalid("spec.clusterIPs[0]", addresses, "may not change once set")
    families, earlier = spec.get("ipFamilies") or [], before.get("ipFamilies") or []
    if earlier and families[:1] != earlier[:1]:
        yield invalid("spec.ipFamilies[0]", families, "may not change once set")


def validate_endpoints(endpoints: Object) -> list[Cause]:
    return list(_endpoints_problems(endpoints))


def _endpoints_problems(endpoints: Object) -> Iterator[Cause]:
    for index, subset in enumerate(endpoints.get("subsets") or ()):
        path = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            yield required(path, "must specify `addresses` or `notReadyAddresses`")
        for field in ("addresses", "notReadyAddresses"):
            for number, one in enumerate(subset.get(field) or ()):
                here = f"{path}.{field}[{number}]"
                yield from invalid_each(f"{here}.ip", one.get("ip", ""), address(one.get("ip", "")))
                if one.get("hostname"):
                    yield from invalid_each(f"{here}.hostname", one["hostname"], dns_label_problems(one["hostname"]))
        ports = subset.get("ports") or []
        for number, port in enumerate(ports):
            here = f"{path}.ports[{number}]"
            if not port.get("name") and len(ports) > 1:
                yield required(f"{here}.name")
            yield from invalid_each(f"{here}.port", port.get("port") or 0, port_number(port.get("port") or 0))
            yield from one_of(f"{here}.protocol", port.get("protocol"), _PROTOCOLS)


def validate_endpoint_slice(endpoint_slice: Object) -> list[Cause]:
    return list(_slice_problems(endpoint_slice))


def validate_endpoint_slice_update(new: Object, old: Object) -> list[Cause]:
    changed = immutable("addressType", new.get("addressType"), old.get("addressType"))
    return [*validate_endpoint_slice(new), *changed]


def _slice_problems(endpoint_slice: Object) -> Iterator[Cause]:
    kind = endpoint_slice.get("addressType")
    yield from one_of("addressType", kind, _ADDRESS_TYPES)
    endpoints, ports = endpoint_slice.get("endpoints") or [], endpoint_slice.get("ports") or []
    if len(endpoints) > _ENDPOINTS_MAX:
        yield too_many("endpoints", len(endpoints), _ENDPOINTS_MAX)
    for index, endpoint in enumerate(endpoints):
        yield from _validate_endpoint(endpoint, f"endpoints[{index}]", kind or "")
    if len(ports) > _SLICE_PORTS_MAX:
        yield too_many("ports", len(ports), _SLICE_PORTS_MAX)
    names: set[str] = set()
    for index, port in enumerate(ports):
        name = port.get("name") or ""
        if name in names:
            yield duplicate(f"ports[{index}].name", name)
        names.add(name)
        if name:
            yield from invalid_each(f"ports[{index}].name", name, dns_label_problems(name))
        if port.get("protocol") not in (*_PROTOCOLS, None):
            yield not_supported(f"ports[{index}].protocol", port["protocol"], _PROTOCOLS)


def _validate_endpoint(endpoint: Object, path: str, kind: str) -> Iterator[Cause]:
    addresses = endpoint.get("addresses") or []
    if not addresses:
        yield required(f"{path}.addresses", "must contain at least 1 address")
    elif len(addresses) > _ADDRESSES_MAX:
        yield too_many(f"{path}.addresses", len(addresses), _ADDRESSES_MAX)
    check = dns_subdomain_problems if kind == "FQDN" else address
    for index, one in enumerate(addresses):
        yield from invalid_each(f"{path}.addresses[{index}]", one, check(one))
    if endpoint.get("hostname"):
        yield from invalid_each(f"{path}.hostname", endpoint["hostname"], dns_label_problems(endpoint["hostname"]))
