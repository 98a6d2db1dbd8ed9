"""Virtual nodes made to fit what a manifest asks for, so that a job written for a cluster runs on one machine. Pure.

Read from the manifest: node selectors and required node affinity, exclusive topology domains, accelerators, required
spreading and anti-affinity, and how much is asked for in all. What asks for nothing special gets the machine itself.
Nothing is made faster by this: all nodes are this machine, and a note says where they promise more than it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from jobset.api.labels import EXCLUSIVE_TOPOLOGY, HOSTNAME, NAMESPACED_JOB, NODE_SELECTOR_STRATEGY
from jobset.api.meta import Object
from jobset.api.quantity import parse_quantity
from jobset.cluster.model.nodes import DEFAULT_PODS, virtual_node
from jobset.cluster.model.scheduling.affinity import NodeAffinity
from jobset.cluster.model.scheduling.ports import host_ports
from jobset.cluster.model.scheduling.resources import Amounts, amounts_of, pod_requests

TPU = "google.com/tpu"
PER_HOST = {TPU: 4}
"""How many devices a host has of each kind; of kinds not named here `DEFAULT_PER_HOST`."""
DEFAULT_PER_HOST = 8
MAX_VIRTUAL_NODES = 1000
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_STANDARD = ("cpu", "memory", "ephemeral-storage", "pods")


class FittedNodes(Struct, frozen=True):
    """The nodes, and sentences for the user about what they are."""

    nodes: list[Object]
    notes: list[str]


class _Ask(Struct, frozen=True):
    """The pods of one replicated job, or of one Job: `jobs` times `pods` alike."""

    namespace: str
    names: tuple[str, ...]
    """The names of the Jobs."""
    pods: int
    requests: Amounts
    labels: Mapping[str, str]
    """What nodes must have."""
    exclusive: str = ""
    """The topology key of which each Job wants a domain of its own."""
    by_selector: bool = False
    """Exclusive placement by labelled nodes instead of affinity."""
    domains: Mapping[str, int] = field(default_factory=dict)
    """Topology keys that nodes must have, and how many domains of each."""
    alone: bool = False
    """One pod a host."""

    @property
    def extended(self) -> Amounts:
        return {name: amount for name, amount in self.requests.items() if name not in _STANDARD and amount}

    @property
    def total_pods(self) -> int:
        return self.pods * len(self.names)

    def pods_per_host(self) -> int:
        """How many of its pods a host takes; 0 for all of them."""
        if self.alone:
            return 1
        fitting = [max(_devices(name, amount) // amount, 1) for name, amount in self.extended.items()]
        return min(fitting, default=0)

    def hosts(self, pods: int) -> int:
        per_host = self.pods_per_host()
        return -(-pods // per_host) if per_host else 1


def nodes_to_fit(objects: Iterable[Object], machine: Object) -> FittedNodes:
    """Nodes on which everything in `objects` (JobSets, Jobs, Pods; others are ignored) can be placed."""
    asks = [ask for obj in objects for ask in _asks_of(obj)]
    plain = [ask for ask in asks if _suits_machine(ask, machine)]
    special = [ask for ask in asks if ask not in plain]
    nodes: list[Object] = []
    notes: list[str] = []
    if plain or not special:
        node, grown = _grown(machine, plain)
        nodes.append(node)
        notes.extend(grown)
    for number, group in enumerate(_grouped(special)):
        nodes.extend(_virtual_nodes(group, f"virtual-{number}", machine))
    if len(nodes) > MAX_VIRTUAL_NODES:
        notes.append(f"the manifest asks for {len(nodes)} nodes; only {MAX_VIRTUAL_NODES} are made")
        nodes = nodes[:MAX_VIRTUAL_NODES]
    virtual = len(nodes) - bool(plain or not special)
    if virtual:
        notes.append(
            f"{virtual} virtual {'node' if virtual == 1 else 'nodes'} made to fit the manifest;"
            " all pods run on this machine"
        )
    return FittedNodes(nodes, notes)


# ---------------------------------------------------------------- what is asked for


def _asks_of(obj: Object) -> list[_Ask]:
    metadata, spec = obj.get("metadata") or {}, obj.get("spec") or {}
    namespace = metadata.get("namespace") or "default"
    name = metadata.get("name") or ""
    match obj.get("kind"):
        case "JobSet":
            return [_replicated_ask(namespace, name, metadata, rjob) for rjob in spec.get("replicatedJobs") or ()]
        case "Job":
            return [_job_ask(namespace, (name,), spec)]
        case "Pod":
            return [_job_ask(namespace, (name,), {"template": obj})]
        case _:
            return []


def _replicated_ask(namespace: str, name: str, metadata: Object, rjob: Object) -> _Ask:
    template = rjob.get("template") or {}
    replicas = rjob.get("replicas")
    jobs = tuple(f"{name}-{rjob.get('name')}-{index}" for index in range(1 if replicas is None else replicas))
    ask = _job_ask(namespace, jobs, template.get("spec") or {})
    for level in ((template.get("metadata") or {}).get("annotations"), metadata.get("annotations")):
        if level and level.get(EXCLUSIVE_TOPOLOGY):
            return replace(ask, exclusive=level[EXCLUSIVE_TOPOLOGY], by_selector=NODE_SELECTOR_STRATEGY in level)
    return ask


def _job_ask(namespace: str, jobs: tuple[str, ...], spec: Object) -> _Ask:
    pod = (spec.get("template") or {}).get("spec") or {}
    affinity = pod.get("affinity") or {}
    pods = spec.get("parallelism")
    pods = 1 if pods is None else pods
    if spec.get("completions") is not None:
        pods = min(pods, spec["completions"])
    apart = (affinity.get("podAntiAffinity") or {}).get(_REQUIRED) or ()
    domains = {term["topologyKey"]: 1 for term in (affinity.get("podAffinity") or {}).get(_REQUIRED) or ()}
    for constraint in pod.get("topologySpreadConstraints") or ():
        domains[constraint["topologyKey"]] = constraint.get("minDomains") or 1
    domains.update({term["topologyKey"]: max(pods * len(jobs), 1) for term in apart})
    spread_hosts = domains.pop(HOSTNAME, 1) > 1
    return _Ask(
        namespace,
        jobs,
        pods,
        pod_requests(pod),
        _wanted_labels(NodeAffinity.of(pod.get("nodeSelector"), affinity.get("nodeAffinity"))),
        domains=domains,
        alone=spread_hosts or bool(host_ports(_with_host_ports(pod))),
    )


def _with_host_ports(pod: Object) -> Object:
    """On the host's network every port is a port of the host."""
    if not pod.get("hostNetwork"):
        return pod
    containers = [
        {**c, "ports": [{**port, "hostPort": port.get("containerPort")} for port in c.get("ports") or ()]}
        for c in pod.get("containers") or ()
    ]
    return {**pod, "containers": containers}


def _wanted_labels(affinity: NodeAffinity) -> dict[str, str]:
    """Labels that satisfy the selector and the first alternative of the affinity."""
    labels = dict(affinity.selector)
    for requirement in affinity.required[0].expressions if affinity.required else ():
        values = sorted(requirement.values)
        match requirement.operator:
            case "In" if values:
                labels.setdefault(requirement.key, values[0])
            case "Exists":
                labels.setdefault(requirement.key, "true")
            case "Gt" if values[0].lstrip("-").isdecimal():
                labels.setdefault(requirement.key, str(int(values[0]) + 1))
            case "Lt" if values[0].lstrip("-").isdecimal():
                labels.setdefault(requirement.key, str(int(values[0]) - 1))
    return labels


# ---------------------------------------------------------------- nodes


def _suits_machine(ask: _Ask, machine: Object) -> bool:
    """Whether the machine itself will do, if need be with more cpu and memory than it has."""
    if ask.exclusive or (ask.alone and ask.total_pods > 1):
        return False
    labels, offered = machine["metadata"]["labels"], amounts_of(machine["status"]["allocatable"])
    if any(labels.get(key) != value for key, value in ask.labels.items()) or ask.domains.keys() - labels.keys():
        return False
    if any(count > 1 for count in ask.domains.values()):
        return False
    return all(amount * ask.total_pods <= offered.get(name, 0) for name, amount in ask.extended.items())


def _grown(machine: Object, asks: Sequence[_Ask]) -> tuple[Object, list[str]]:
    """The machine's node, offering at least what is asked of it, and what to say about that."""
    offered = amounts_of(machine["status"]["allocatable"])
    wanted: Amounts = {"pods": sum(ask.total_pods for ask in asks)}
    for ask in asks:
        for name, amount in ask.requests.items():
            wanted[name] = wanted.get(name, 0) + amount * ask.total_pods
    short = {name: amount for name, amount in wanted.items() if amount > offered.get(name, 0)}
    if not short:
        return machine, []
    allocatable = {**machine["status"]["allocatable"], **{name: _quantity(name, short[name]) for name in short}}
    notes = [
        f"the manifest asks for {_quantity(name, short[name])} {name}; this machine has"
        f" {machine['status']['allocatable'].get(name, 0)}: its node offers what is asked"
        for name in sorted(short)
        if name != "pods"
    ]
    status = {**machine["status"], "allocatable": allocatable, "capacity": allocatable}
    return {**machine, "status": status}, notes


def _grouped(asks: Sequence[_Ask]) -> list[list[_Ask]]:
    """Asks that can share nodes: the same labels, accelerators and manner; exclusive ones share with nobody."""
    groups: dict[object, list[_Ask]] = {}
    for number, ask in enumerate(asks):
        alike = (tuple(sorted(ask.labels.items())), tuple(sorted(ask.extended)), ask.alone)
        groups.setdefault(number if ask.exclusive else alike, []).append(ask)
    return list(groups.values())


def _virtual_nodes(asks: list[_Ask], stem: str, machine: Object) -> list[Object]:
    first = asks[0]
    if first.exclusive:
        return _exclusive_nodes(first, stem, machine)
    labels = {**machine["metadata"]["labels"], **first.labels}
    hosts = sum(ask.hosts(ask.total_pods) for ask in asks) if first.pods_per_host() else 1
    domains: dict[str, int] = {}
    for ask in asks:
        domains.update({key: max(count, domains.get(key, 0)) for key, count in ask.domains.items()})
    hosts = min(max([hosts, 1, *domains.values()]), MAX_VIRTUAL_NODES + 1)
    resources = _host_resources(asks, machine, sum(ask.total_pods for ask in asks))
    nodes = []
    for host in range(hosts):
        name = f"{stem}-{host}"
        own = {**_domain_labels(domains, host), HOSTNAME: first.labels.get(HOSTNAME, name)}
        nodes.append(virtual_node(name, resources, {**labels, **own}))
    return nodes


def _exclusive_nodes(ask: _Ask, stem: str, machine: Object) -> list[Object]:
    """A domain for each Job, with enough hosts."""
    hosts = 1 if ask.exclusive == HOSTNAME else max([ask.hosts(ask.pods), *ask.domains.values()])
    resources = _host_resources([ask], machine, ask.pods)
    nodes = []
    for number, job in enumerate(ask.names):
        for host in range(hosts):
            name = f"{stem}-{number}-{host}"
            own = {HOSTNAME: name, **_domain_labels(ask.domains, host)}
            if ask.exclusive != HOSTNAME:
                own[ask.exclusive] = ask.labels.get(ask.exclusive, f"{stem}-{number}")
            if ask.by_selector:
                own[NAMESPACED_JOB] = f"{ask.namespace}_{job}"
            nodes.append(virtual_node(name, resources, {**machine["metadata"]["labels"], **ask.labels, **own}))
    return nodes


def _domain_labels(domains: Mapping[str, int], host: int) -> dict[str, str]:
    return {key: f"{key.rpartition('/')[2]}-{host % count}" for key, count in domains.items()}


def _host_resources(asks: list[_Ask], machine: Object, pods: int) -> dict[str, str | int]:
    """What one host offers: its share of the asks' pods on top of what the machine has, and the usual accelerators."""
    offered = amounts_of({name: machine["status"]["allocatable"][name] for name in ("cpu", "memory")})
    for ask in asks:
        per_host = ask.pods_per_host() or ask.total_pods
        for name, amount in ask.requests.items():
            if name in ask.extended:
                offered[name] = max(offered.get(name, 0), _devices(name, amount))
            else:
                offered[name] = offered.get(name, 0) + amount * per_host
    offered["pods"] = max(DEFAULT_PODS, pods + DEFAULT_PODS // 2)
    return {name: _quantity(name, amount) for name, amount in offered.items()}


def _devices(name: str, asked: int) -> int:
    return max(PER_HOST.get(name, DEFAULT_PER_HOST), asked)


def _quantity(name: str, amount: int) -> str:
    """An amount as a quantity, in the largest unit that holds it exactly."""
    if name == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    for unit in ("Gi", "Mi", "Ki"):
        size = int(parse_quantity(f"1{unit}"))
        if amount and amount % size == 0:
            return f"{amount // size}{unit}"
    return str(amount)
