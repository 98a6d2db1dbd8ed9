"""Rules of a new pod, and of the pod template in a Job. Pure.

The parts are in the pod_validation_* modules; this one puts them together and remembers which specs were found good, by
the identity of their parts. Pods made from one template share them, so of each pod only its own fields are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

from jobset.api.errors import Cause
from jobset.api.field_errors import duplicate, forbidden, invalid, not_supported, required
from jobset.api.meta import Object
from jobset.api.name_rules import dns_label_problems, dns_subdomain_problems, qualified_name_problems
from jobset.api.quantity import parse_quantity
from jobset.cluster.model.kinds.memo import PartsMemo, parts_key
from jobset.cluster.model.kinds.pod_defaults import VARYING
from jobset.cluster.model.kinds.pod_validation_containers import Surroundings, validate_containers
from jobset.cluster.model.kinds.pod_validation_resources import validate_resources
from jobset.cluster.model.kinds.pod_validation_scheduling import validate_scheduling
from jobset.cluster.model.kinds.pod_validation_security import validate_pod_security
from jobset.cluster.model.kinds.pod_validation_volumes import validate_volumes
from jobset.cluster.model.kinds.problems import invalid_each, labels, one_of
from jobset.cluster.model.names import address

RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
_PREEMPTION_POLICIES = ("Never", "PreemptLowerPriority")
_OPERATING_SYSTEMS = ("linux", "windows")
_MAX_INT32 = 2**31 - 1
_NAMESERVERS_MAX = 3
_SEARCHES_MAX = 32
_SEARCHES_LENGTH_MAX = 2048
_DEADLINE = f"must be between 1 and {_MAX_INT32}, inclusive"
_good_specs: PartsMemo[bool] = PartsMemo()


def validate_pod(pod: Object) -> list[Cause]:
    """All problems of a new pod, after defaulting and preparation."""
    return list(_pod_problems(pod))


def _pod_problems(pod: Object) -> Iterator[Cause]:
    spec = pod["spec"]
    key = parts_key(spec, VARYING)
    if _good_specs.get(key):
        yield from _validate_varying(spec, "spec")
    else:
        problems = list(_new_spec_problems(spec))
        if not problems:
            _good_specs.put(key, spec, True)
        yield from problems
    if spec.get("nodeName") and spec.get("schedulingGates"):
        yield forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def _new_spec_problems(spec: Object) -> Iterator[Cause]:
    yield from validate_pod_spec(spec, "spec")
    for key in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(key) or ()):
            image = container.get("image") or ""
            if image != image.strip():
                yield invalid(f"spec.{key}[{index}].image", image, "must not have leading or trailing whitespace")
    if spec.get("ephemeralContainers"):
        yield forbidden("spec.ephemeralContainers", "cannot be set on create")


def validate_template(template: Object, path: str) -> Iterator[Cause]:
    """The pod template of a controller such as a Job."""
    metadata = template.get("metadata") or {}
    yield from labels(f"{path}.labels", metadata.get("labels"))
    yield from annotation_keys(f"{path}.annotations", metadata.get("annotations"))
    yield from validate_pod_spec(template["spec"], f"{path}.spec")
    if template["spec"].get("ephemeralContainers"):
        yield forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


def annotation_keys(path: str, values: dict[str, str] | None) -> Iterator[Cause]:
    for key in values or {}:
        yield from invalid_each(path, key, qualified_name_problems(key.lower()))


def validate_pod_spec(spec: Object, path: str) -> Iterator[Cause]:
    yield from _validate_workload(spec, path)
    yield from one_of(f"{path}.restartPolicy", spec.get("restartPolicy"), RESTART_POLICIES)
    yield from validate_scheduling(spec, path)
    yield from validate_pod_security(spec, path)
    yield from _validate_dns(spec, path)
    yield from _validate_names(spec, path)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_INT32:
        yield invalid(f"{path}.activeDeadlineSeconds", deadline, _DEADLINE)
    if spec.get("preemptionPolicy") is not None:
        yield from one_of(f"{path}.preemptionPolicy", spec["preemptionPolicy"], _PREEMPTION_POLICIES)
    for name, amount in (spec.get("overhead") or {}).items():
        if parse_quantity(amount) < 0:
            yield invalid(f"{path}.overhead[{name}]", amount, "must be greater than or equal to 0")
    if spec.get("resources"):
        yield from validate_resources(spec["resources"], f"{path}.resources")


def _validate_workload(spec: Object, path: str) -> Iterator[Cause]:
    """Containers and volumes."""
    claims = frozenset(claim.get("name", "") for claim in spec.get("resourceClaims") or ())
    volumes = spec.get("volumes") or []
    yield from validate_volumes(volumes, f"{path}.volumes")
    by_name = {volume.get("name", ""): volume for volume in volumes}
    surroundings = Surroundings(
        by_name,
        grace_s=spec.get("terminationGracePeriodSeconds") or 0,
        restart_policy=spec.get("restartPolicy") or "",
        os=(spec.get("os") or {}).get("name") or "",
        claims=claims,
    )
    yield from validate_containers(spec, path, surroundings)
    if spec.get("hostNetwork"):
        yield from _validate_host_ports(spec, path)
    yield from _validate_claims(spec.get("resourceClaims") or [], f"{path}.resourceClaims")


def _validate_host_ports(spec: Object, path: str) -> Iterator[Cause]:
    """On the host's network a port is the host's port. A template may leave it out: the pod will get it."""
    for index, container in enumerate(spec.get("containers") or ()):
        for number, port in enumerate(container.get("ports") or ()):
            host_port = port.get("hostPort") or 0
            if host_port and host_port != port.get("containerPort"):
                here = f"{path}.containers[{index}].ports[{number}].hostPort"
                yield invalid(here, host_port, "must match `containerPort` when `hostNetwork` is true")


def _validate_claims(claims: list[Object], path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    sources = ("resourceClaimName", "resourceClaimTemplateName")
    for index, claim in enumerate(claims):
        here, name = f"{path}[{index}]", claim.get("name") or ""
        if not name:
            yield required(f"{here}.name")
        elif name in seen:
            yield duplicate(f"{here}.name", name)
        else:
            yield from invalid_each(f"{here}.name", name, dns_label_problems(name))
        seen.add(name)
        given = [source for source in sources if claim.get(source) is not None]
        if len(given) != 1:
            yield invalid(here, claim, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
        for source in given:
            yield from invalid_each(f"{here}.{source}", claim[source], dns_subdomain_problems(claim[source]))


def _validate_names(spec: Object, path: str) -> Iterator[Cause]:
    yield from _validate_varying(spec, path)
    if spec.get("subdomain"):
        yield from invalid_each(f"{path}.subdomain", spec["subdomain"], dns_label_problems(spec["subdomain"]))
    for field in ("serviceAccountName", "priorityClassName", "runtimeClassName", "hostnameOverride"):
        if spec.get(field):
            yield from invalid_each(f"{path}.{field}", spec[field], dns_subdomain_problems(spec[field]))
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        type_ = gate.get("conditionType", "")
        yield from invalid_each(f"{path}.readinessGates[{index}].conditionType", type_, qualified_name_problems(type_))
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        here, ip = f"{path}.hostAliases[{index}]", alias.get("ip", "")
        yield from invalid_each(f"{here}.ip", ip, address(ip))
        for number, name in enumerate(alias.get("hostnames") or ()):
            yield from invalid_each(f"{here}.hostnames[{number}]", name, dns_subdomain_problems(name))
    if spec.get("os") is not None:
        name = spec["os"].get("name")
        if not name:
            yield required(f"{path}.os.name", "cannot be empty")
        elif name not in _OPERATING_SYSTEMS:
            yield not_supported(f"{path}.os", name, _OPERATING_SYSTEMS)


def _validate_varying(spec: Object, path: str) -> Iterator[Cause]:
    """What differs between the pods of one template."""
    if spec.get("hostname"):
        yield from invalid_each(f"{path}.hostname", spec["hostname"], dns_label_problems(spec["hostname"]))
    if spec.get("nodeName"):
        yield from invalid_each(f"{path}.nodeName", spec["nodeName"], dns_subdomain_problems(spec["nodeName"]))


def _validate_dns(spec: Object, path: str) -> Iterator[Cause]:
    policy, config = spec.get("dnsPolicy"), spec.get("dnsConfig")
    here = f"{path}.dnsConfig"
    yield from one_of(f"{path}.dnsPolicy", policy, _DNS_POLICIES)
    if policy == "None":
        if config is None:
            yield required(here, "must provide `dnsConfig` when `dnsPolicy` is None")
        elif not config.get("nameservers"):
            yield required(f"{here}.nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None")
    if config is None:
        return
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    if len(servers) > _NAMESERVERS_MAX:
        yield invalid(f"{here}.nameservers", servers, f"must not have more than {_NAMESERVERS_MAX} nameservers")
    for index, server in enumerate(servers):
        yield from invalid_each(f"{here}.nameservers[{index}]", server, address(server))
    if len(searches) > _SEARCHES_MAX:
        yield invalid(f"{here}.searches", searches, f"must not have more than {_SEARCHES_MAX} search paths")
    if len(" ".join(searches)) > _SEARCHES_LENGTH_MAX:
        detail = f"must not have more than {_SEARCHES_LENGTH_MAX} characters (including spaces) in the search list"
        yield invalid(f"{here}.searches", searches, detail)
    for index, search in enumerate(searches):
        if search != ".":
            problems = dns_subdomain_problems(search.removesuffix(".").replace("_", "-"))
            yield from invalid_each(f"{here}.searches[{index}]", search, problems)
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            yield required(f"{here}.options[{index}]", "must not be empty")
