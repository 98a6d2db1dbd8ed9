"""Which pods stand behind a Service, and how they are written down: EndpointSlices and the older Endpoints. Pure.

`Endpoint` is one pod as a Service shows it. `SliceBook` spreads endpoints over slices of at most a hundred and says
which slices changed, so that one pod's change rewrites one slice whatever the size of the Service.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from msgspec import Struct, field

from jobset.api.meta import Object, condition_of

MAX_PER_SLICE = 100
MAX_ADDRESSES = 1000
"""How many addresses an Endpoints object names; it says so when there are more."""

SERVICE_NAME = "kubernetes.io/service-name"
SLICE_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
SLICE_CONTROLLER = "endpointslice-controller.k8s.io"
ENDPOINTS_MANAGED_BY = "endpoints.kubernetes.io/managed-by"
ENDPOINTS_CONTROLLER = "endpoint-controller"
HEADLESS = "service.kubernetes.io/headless"
OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"

Port: TypeAlias = tuple[str, str, int]
"""(name, protocol, number)"""
Group: TypeAlias = tuple[str, tuple[Port, ...]]
"""Endpoints of one slice share their address family (IPv4 or IPv6) and their ports."""


class Endpoint(Struct, frozen=True):
    """`body` is the endpoint as a slice holds it."""

    uid: str
    group: Group
    body: Object

    @property
    def ready(self) -> bool:
        return bool(self.body["conditions"]["ready"])

    @property
    def terminating(self) -> bool:
        return bool(self.body["conditions"]["terminating"])


def selects_pods(service: Object) -> bool:
    """Whether this Service's endpoints are made from pods."""
    spec = service.get("spec") or {}
    return bool(spec.get("selector")) and spec.get("type") != "ExternalName"


def is_headless(service: Object) -> bool:
    return bool((service.get("spec") or {}).get("clusterIP") == "None")


def endpoint_of(pod: Object, service: Object) -> Endpoint | None:
    """The pod as an endpoint of a Service that selects it; None while it has no address or once it has ended."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    ip = status.get("podIP")
    if not ip or status.get("phase") in ("Succeeded", "Failed"):
        return None
    serving = (condition_of(pod, "Ready") or {}).get("status") == "True"
    terminating = "deletionTimestamp" in metadata
    any_state = bool(service["spec"].get("publishNotReadyAddresses"))
    body: Object = {
        "addresses": [ip],
        "conditions": {
            "ready": any_state or (serving and not terminating),
            "serving": serving or any_state,
            "terminating": terminating,
        },
        "targetRef": {
            "kind": "Pod",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        },
    }
    if spec.get("hostname") and spec.get("subdomain") == service["metadata"]["name"]:
        body["hostname"] = spec["hostname"]
    if spec.get("nodeName"):
        body["nodeName"] = spec["nodeName"]
    family = "IPv6" if ":" in ip else "IPv4"
    return Endpoint(metadata["uid"], (family, _ports(service, pod)), body)


def _ports(service: Object, pod: Object) -> tuple[Port, ...]:
    """The Service's ports as numbers of this pod; a named port that the pod lacks is left out."""
    ports = []
    for port in service["spec"].get("ports") or ():
        protocol = port.get("protocol") or "TCP"
        target = port.get("targetPort") or port["port"]
        number = target if isinstance(target, int) else _named_port(pod, target, protocol)
        if is_headless(service) and not port.get("targetPort"):
            number = port["port"]
        if number is not None:
            ports.append((port.get("name") or "", protocol, number))
    return tuple(ports)


def _named_port(pod: Object, name: str, protocol: str) -> int | None:
    if name.isdecimal():
        return int(name)
    for container in (*(pod["spec"].get("containers") or ()), *(pod["spec"].get("initContainers") or ())):
        for port in container.get("ports") or ():
            if port.get("name") == name and (port.get("protocol") or "TCP") == protocol:
                return int(port["containerPort"])
    return None


class Slice(Struct):
    """One EndpointSlice: `number` gives it its name."""

    number: int
    group: Group
    endpoints: dict[str, Endpoint] = field(default_factory=dict)


class SliceBook:
    """The endpoints of one Service by slice. An endpoint stays in its slice; a newcomer fills the first with room."""

    def __init__(self) -> None:
        self._slices: dict[int, Slice] = {}
        self._where: dict[str, int] = {}
        self._open: dict[Group, set[int]] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._where)

    def set(self, uid: str, endpoint: Endpoint | None) -> set[int]:
        """The endpoint of this pod is now so (None: there is none). Returns the numbers of the slices that changed."""
        number = self._where.get(uid)
        if number is not None:
            slice_ = self._slices[number]
            if slice_.endpoints[uid] == endpoint:
                return set()
            if endpoint is not None and endpoint.group == slice_.group:
                slice_.endpoints[uid] = endpoint
                return {number}
            self._drop(slice_, uid)
        changed = set() if number is None else {number}
        return changed if endpoint is None else changed | {self._insert(endpoint)}

    def numbers(self) -> Iterable[int]:
        return self._slices.keys()

    def slice(self, number: int) -> Slice | None:
        """None when the slice has become empty and is to go."""
        return self._slices.get(number)

    def endpoints(self) -> Iterable[Endpoint]:
        return (endpoint for slice_ in self._slices.values() for endpoint in slice_.endpoints.values())

    def _drop(self, slice_: Slice, uid: str) -> None:
        del slice_.endpoints[uid], self._where[uid]
        if slice_.endpoints:
            self._open.setdefault(slice_.group, set()).add(slice_.number)
            return
        del self._slices[slice_.number]
        self._open.get(slice_.group, set()).discard(slice_.number)

    def _insert(self, endpoint: Endpoint) -> int:
        room = self._open.setdefault(endpoint.group, set())
        if not room:
            room.add(self._next)
            self._slices[self._next] = Slice(self._next, endpoint.group)
            self._next += 1
        number = min(room)
        slice_ = self._slices[number]
        slice_.endpoints[endpoint.uid] = endpoint
        self._where[endpoint.uid] = number
        if len(slice_.endpoints) >= MAX_PER_SLICE:
            room.discard(number)
        return number


# ---------------------------------------------------------------- as objects


def slice_name(service: Object, number: int) -> str:
    return f"{service['metadata']['name']}-{number:05d}"


def slice_object(service: Object, slice_: Slice) -> Object:
    family, ports = slice_.group
    metadata = service["metadata"]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": slice_name(service, slice_.number),
            "namespace": metadata["namespace"],
            "labels": {
                **(metadata.get("labels") or {}),
                SERVICE_NAME: metadata["name"],
                SLICE_MANAGED_BY: SLICE_CONTROLLER,
                **({HEADLESS: ""} if is_headless(service) else {}),
            },
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "addressType": family,
        "endpoints": [endpoint.body for endpoint in slice_.endpoints.values()],
        **({"ports": _port_objects(ports)} if ports else {}),
    }


def endpoints_object(service: Object, endpoints: Iterable[Endpoint]) -> Object:
    """The Endpoints object: at most a thousand addresses, ready ones first."""
    metadata = service["metadata"]
    any_state = bool(service["spec"].get("publishNotReadyAddresses"))
    shown = [endpoint for endpoint in endpoints if any_state or not endpoint.terminating]
    kept = sorted(shown, key=lambda endpoint: (not endpoint.ready, endpoint.body["addresses"], endpoint.uid))
    kept = kept[:MAX_ADDRESSES]
    over = {OVER_CAPACITY: "truncated"} if len(shown) > MAX_ADDRESSES else {}
    subsets: dict[tuple[Port, ...], list[Endpoint]] = {}
    for endpoint in kept:
        subsets.setdefault(endpoint.group[1], []).append(endpoint)
    labels: Mapping[str, str] = metadata.get("labels") or {}
    headless = {HEADLESS: ""} if is_headless(service) else {}
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": {**labels, ENDPOINTS_MANAGED_BY: ENDPOINTS_CONTROLLER, **headless},
            "annotations": over,
        },
        "subsets": [_subset(ports, subsets[ports]) for ports in sorted(subsets)],
    }


def _subset(ports: tuple[Port, ...], endpoints: list[Endpoint]) -> Object:
    ready = [_address(endpoint) for endpoint in endpoints if endpoint.ready]
    other = [_address(endpoint) for endpoint in endpoints if not endpoint.ready]
    subset: Object = {}
    if ready:
        subset["addresses"] = ready
    if other:
        subset["notReadyAddresses"] = other
    if ports:
        subset["ports"] = _port_objects(ports)
    return subset


def _address(endpoint: Endpoint) -> Object:
    body = endpoint.body
    address: Object = {"ip": body["addresses"][0], "targetRef": body["targetRef"]}
    for key in ("hostname", "nodeName"):
        if key in body:
            address[key] = body[key]
    return address


def _port_objects(ports: tuple[Port, ...]) -> list[Object]:
    return [
        {**({"name": name} if name else {}), "port": number, "protocol": protocol} for name, protocol, number in ports
    ]
