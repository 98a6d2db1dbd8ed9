"""The columns that kubectl shows of each built-in kind, and how their cells are read off an object. Pure.

Wide columns have priority 1. The status of pods, which takes more than a look, is in pod_column.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, TypeAlias

from jobset.api import resources as r
from jobset.api.meta import Object, condition_of, parse_time
from jobset.api.resources import Resource
from jobset.cluster.apiserver.http.durations import UNKNOWN, age, short_duration
from jobset.cluster.apiserver.http.pod_column import pod_summary
from jobset.cluster.model.kinds.events import to_core_event

NONE = "<none>"
UNSET = "<unset>"
_ROLE_LABEL = "node-role.kubernetes.io/"


@dataclass(frozen=True, slots=True)
class Heading:
    """One column definition."""

    name: str
    type: str = "string"
    priority: int = 0
    format: str = ""
    description: str = ""

    def to_dict(self) -> Object:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


@dataclass(frozen=True, slots=True)
class Row:
    cells: list[Any]
    conditions: tuple[Object, ...] = ()


Cells: TypeAlias = Callable[[Object, datetime], list[Any]]


@dataclass(frozen=True, slots=True)
class Printer:
    headings: tuple[Heading, ...]
    row: Callable[[Object, datetime], Row]


def _printer(columns: str, cells: Cells, wide: str = "") -> Printer:
    """`columns` and `wide`: names after Name, separated by commas."""
    headings = [Heading("Name", format="name")]
    headings += [Heading(name.strip()) for name in columns.split(",")]
    headings += [Heading(name.strip(), priority=1) for name in wide.split(",") if wide]
    return Printer(tuple(headings), lambda obj, now: Row([obj["metadata"].get("name", ""), *cells(obj, now)]))


def _age(obj: Object, now: datetime) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


def _created(obj: Object, _: datetime) -> str:
    return str(obj["metadata"].get("creationTimestamp") or "")


def _spec(obj: Object) -> Object:
    return obj.get("spec") or {}


def _status(obj: Object) -> Object:
    return obj.get("status") or {}


def _joined(values: Iterable[Any], otherwise: str = "") -> str:
    return ",".join(str(value) for value in values) or otherwise


def _labels_text(labels: Mapping[str, str] | None) -> str:
    return _joined((f"{key}={value}" for key, value in sorted((labels or {}).items())), NONE)


def _selector_text(selector: Object | None) -> str:
    """A LabelSelector as kubectl writes selectors."""
    if not selector:
        return NONE
    terms = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for one in selector.get("matchExpressions") or ():
        key, values = one["key"], _joined(sorted(one.get("values") or ()))
        words = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "DoesNotExist": f"!{key}"}
        terms.append(words.get(one["operator"], key))
    return _joined(terms, NONE)


def _pod_row(pod: Object, now: datetime) -> Row:
    spec, status = _spec(pod), _status(pod)
    summary = pod_summary(pod)
    restarts = str(summary.restarts)
    if summary.restarts and summary.last_restart:
        restarts += f" ({age(summary.last_restart, now)} ago)"
    ips = status.get("podIPs") or ()
    cells = [
        pod["metadata"].get("name", ""),
        f"{summary.ready}/{summary.total}",
        summary.reason,
        restarts,
        _age(pod, now),
        ips[0].get("ip", "") if ips else status.get("podIP") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _gates_text(spec, status),
    ]
    phase = status.get("phase")
    return Row(cells, (_COMPLETED[phase],) if phase in _COMPLETED else ())


def _completed(reason: str, message: str) -> Object:
    return {"type": "Completed", "status": "True", "reason": reason, "message": message}


_COMPLETED = {
    "Succeeded": _completed("Succeeded", "The pod has completed successfully."),
    "Failed": _completed("Failed", "The pod failed."),
}


def _gates_text(spec: Object, status: Object) -> str:
    gates = spec.get("readinessGates") or ()
    if not gates:
        return NONE
    true = {one["type"] for one in status.get("conditions") or () if one.get("status") == "True"}
    return f"{sum(gate.get('conditionType') in true for gate in gates)}/{len(gates)}"


def _job(job: Object, now: datetime) -> list[Any]:
    spec, status = _spec(job), _status(job)
    containers = ((spec.get("template") or {}).get("spec") or {}).get("containers") or ()
    return [
        _job_state(job),
        _job_completions(spec, status),
        _job_duration(status, now),
        _age(job, now),
        _joined(container["name"] for container in containers),
        _joined(container.get("image", "") for container in containers),
        _selector_text(spec.get("selector")),
    ]


def _job_state(job: Object) -> str:
    def holds(type_: str) -> bool:
        condition = condition_of(job, type_)
        return condition is not None and condition.get("status") == "True"

    for type_ in ("Complete", "Failed"):
        if holds(type_):
            return type_
    if "deletionTimestamp" in job["metadata"]:
        return "Terminating"
    return next((type_ for type_ in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if holds(type_)), "Running")


def _job_completions(spec: Object, status: Object) -> str:
    succeeded = status.get("succeeded", 0)
    if spec.get("completions") is not None:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(status: Object, now: datetime) -> str:
    started, completed = status.get("startTime"), status.get("completionTime")
    if not started:
        return ""
    return short_duration((parse_time(completed) if completed else now) - parse_time(started))


def _service(service: Object, now: datetime) -> list[Any]:
    spec = _spec(service)
    ports = _joined((_port_text(port) for port in spec.get("ports") or ()), NONE)
    addresses = spec.get("clusterIPs") or ([spec["clusterIP"]] if spec.get("clusterIP") else [])
    return [
        spec.get("type", ""),
        addresses[0] if addresses else NONE,
        _outer_address(spec, _status(service)),
        ports,
        _age(service, now),
        _labels_text(spec.get("selector")),
    ]


def _port_text(port: Object) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{node_port}/{port.get('protocol', 'TCP')}"


def _outer_address(spec: Object, status: Object) -> str:
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    addresses = list(spec.get("externalIPs") or ())
    if spec.get("type") != "LoadBalancer":
        return _joined(addresses, NONE)
    entries = (status.get("loadBalancer") or {}).get("ingress") or ()
    return _joined([*(one.get("ip") or one.get("hostname", "") for one in entries), *addresses], "<pending>")


def _node(node: Object, now: datetime) -> list[Any]:
    status = _status(node)
    info = status.get("nodeInfo") or {}
    addresses: dict[str, str] = {}
    for one in status.get("addresses") or ():
        addresses.setdefault(one["type"], one["address"])
    return [
        _node_state(node),
        _joined(sorted(_node_roles(node["metadata"].get("labels") or {})), NONE),
        _age(node, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP") or NONE,
        addresses.get("ExternalIP") or NONE,
        *(info.get(key) or UNKNOWN for key in ("osImage", "kernelVersion", "containerRuntimeVersion")),
    ]


def _node_state(node: Object) -> str:
    ready = condition_of(node, "Ready")
    state = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{state},SchedulingDisabled" if _spec(node).get("unschedulable") else state


def _node_roles(labels: Mapping[str, str]) -> set[str]:
    roles = {key.removeprefix(_ROLE_LABEL) for key in labels if key.startswith(_ROLE_LABEL)}
    return (roles | {labels.get("kubernetes.io/role", "")}) - {""}


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes_text(modes: Iterable[str] | None) -> str:
    given = set(modes or ())
    return _joined(short for mode, short in _MODES.items() if mode in given)


def _claim(claim: Object, now: datetime) -> list[Any]:
    spec, status = _spec(claim), _status(claim)
    bound = bool(spec.get("volumeName"))
    return [
        "Terminating" if "deletionTimestamp" in claim["metadata"] else status.get("phase", ""),
        spec.get("volumeName", ""),
        (status.get("capacity") or {}).get("storage", "") if bound else "",
        _modes_text(status.get("accessModes")) if bound else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or UNSET,
        _age(claim, now),
        spec.get("volumeMode") or UNSET,
    ]


def _volume(volume: Object, now: datetime) -> list[Any]:
    spec, status = _spec(volume), _status(volume)
    claim = spec.get("claimRef") or {}
    return [
        (spec.get("capacity") or {}).get("storage", ""),
        _modes_text(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        "Terminating" if "deletionTimestamp" in volume["metadata"] else status.get("phase", ""),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or UNSET,
        status.get("reason", ""),
        _age(volume, now),
        spec.get("volumeMode") or UNSET,
    ]


_ENDPOINTS_SHOWN = 3


def _endpoints(endpoints: Object, now: datetime) -> list[Any]:
    found = []
    for subset in endpoints.get("subsets") or ():
        for address in subset.get("addresses") or ():
            ports = subset.get("ports") or ()
            found += [f"{address['ip']}:{port['port']}" for port in ports] or [address["ip"]]
    return [_some(found), _age(endpoints, now)]


def _slice(slice_: Object, now: datetime) -> list[Any]:
    ports = [str(port["port"]) if port.get("port") is not None else "*" for port in slice_.get("ports") or ()]
    addresses = [address for one in slice_.get("endpoints") or () for address in one.get("addresses") or ()]
    return [slice_.get("addressType", ""), _some(ports, UNSET), _some(addresses, UNSET), _age(slice_, now)]


def _some(values: list[str], otherwise: str = NONE) -> str:
    """The first few, and how many there are besides."""
    more = len(values) - _ENDPOINTS_SHOWN
    text = _joined(values[:_ENDPOINTS_SHOWN], otherwise)
    return f"{text} + {more} more..." if more > 0 else text


def _event_row(event: Object, now: datetime) -> Row:
    if "involvedObject" not in event:
        event = to_core_event(event)
    about, source, series = event.get("involvedObject") or {}, event.get("source") or {}, event.get("series") or {}
    first = event.get("firstTimestamp") or event.get("eventTime")
    last, count = event.get("lastTimestamp") or first, event.get("count") or 1
    if series:
        last, count = series.get("lastObservedTime"), series.get("count", 0)
    kind = about.get("kind", "").lower()
    component = source.get("component") or event.get("reportingComponent") or ""
    host = source.get("host") or event.get("reportingInstance") or ""
    return Row(
        [
            age(last, now),
            event.get("type", ""),
            event.get("reason", ""),
            f"{kind}/{about['name']}" if about.get("name") else kind,
            about.get("fieldPath", ""),
            f"{component}, {host}" if host else component,
            event.get("message", "").strip(),
            age(first, now),
            count,
            event["metadata"].get("name", ""),
        ]
    )


_EVENT_PRINTER = Printer(
    (
        Heading("Last Seen"),
        Heading("Type"),
        Heading("Reason"),
        Heading("Object"),
        Heading("Subobject", priority=1),
        Heading("Source", priority=1),
        Heading("Message"),
        Heading("First Seen", priority=1),
        Heading("Count", priority=1),
        Heading("Name", priority=1, format="name"),
    ),
    _event_row,
)


def _binding(binding: Object, now: datetime) -> list[Any]:
    reference = binding.get("roleRef") or {}
    by_kind: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in binding.get("subjects") or ():
        account = f"{subject.get('namespace', '')}/{subject['name']}"
        by_kind.setdefault(subject["kind"], []).append(
            account if subject["kind"] == "ServiceAccount" else subject["name"]
        )
    people = [", ".join(by_kind[kind]) for kind in ("User", "Group", "ServiceAccount")]
    return [f"{reference.get('kind', '')}/{reference.get('name', '')}", _age(binding, now), *people]


_PODS = Printer(
    (*_printer("Ready, Status, Restarts, Age", lambda *_: [], "IP, Node, Nominated Node, Readiness Gates").headings,),
    _pod_row,
)
_BINDINGS = _printer("Role, Age", _binding, "Users, Groups, ServiceAccounts")
_DATED = Printer(
    (Heading("Name", format="name"), Heading("Created At", "date")),
    lambda obj, now: Row([obj["metadata"].get("name", ""), _created(obj, now)]),
)
_RBAC = "rbac.authorization.k8s.io"


def _size(*parts: str) -> Callable[[Object], int]:
    return lambda obj: sum(len(obj.get(part) or ()) for part in parts)


_DATA = _size("data", "binaryData")

PRINTERS: Mapping[Resource, Printer] = MappingProxyType(
    {
        r.PODS: _PODS,
        r.JOBS: _printer("Status, Completions, Duration, Age", _job, "Containers, Images, Selector"),
        r.SERVICES: _printer("Type, Cluster-IP, External-IP, Port(s), Age", _service, "Selector"),
        r.NODES: _printer(
            "Status, Roles, Age, Version",
            _node,
            "Internal-IP, External-IP, OS-Image, Kernel-Version, Container-Runtime",
        ),
        r.NAMESPACES: _printer("Status, Age", lambda o, now: [_status(o).get("phase", ""), _age(o, now)]),
        r.CONFIG_MAPS: _printer("Data, Age", lambda o, now: [_DATA(o), _age(o, now)]),
        r.SECRETS: _printer("Type, Data, Age", lambda o, now: [o.get("type", ""), _size("data")(o), _age(o, now)]),
        r.SERVICE_ACCOUNTS: _printer("Secrets, Age", lambda o, now: [_size("secrets")(o), _age(o, now)]),
        r.PERSISTENT_VOLUME_CLAIMS: _printer(
            "Status, Volume, Capacity, Access Modes, StorageClass, VolumeAttributesClass, Age", _claim, "VolumeMode"
        ),
        r.PERSISTENT_VOLUMES: _printer(
            "Capacity, Access Modes, Reclaim Policy, Status, Claim, StorageClass, VolumeAttributesClass, Reason, Age",
            _volume,
            "VolumeMode",
        ),
        r.ENDPOINTS: _printer("Endpoints, Age", _endpoints),
        r.ENDPOINT_SLICES: _printer("AddressType, Ports, Endpoints, Age", _slice),
        r.CORE_EVENTS: _EVENT_PRINTER,
        r.EVENTS: _EVENT_PRINTER,
        r.LEASES: _printer("Holder, Age", lambda o, now: [_spec(o).get("holderIdentity", ""), _age(o, now)]),
        r.PRIORITY_CLASSES: _printer(
            "Value, Global-Default, Age, PreemptionPolicy",
            lambda o, now: [
                o.get("value", 0),
                bool(o.get("globalDefault")),
                _age(o, now),
                o.get("preemptionPolicy", ""),
            ],
        ),
        r.CUSTOM_RESOURCE_DEFINITIONS: _DATED,
        Resource(_RBAC, "v1", "roles", "Role"): _DATED,
        Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False): _DATED,
        Resource(_RBAC, "v1", "rolebindings", "RoleBinding"): _BINDINGS,
        Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False): _BINDINGS,
    }
)
