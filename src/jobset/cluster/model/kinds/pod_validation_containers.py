"""Rules of containers: regular ones, init containers and sidecars, ephemeral ones. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from jobset.api.errors import Cause
from jobset.api.field_errors import duplicate, forbidden, invalid, not_found, not_supported, required, too_many
from jobset.api.meta import Object
from jobset.api.name_rules import dns_label_problems, dns_subdomain_problems
from jobset.cluster.model.kinds.pod_validation_fields import ENV_FIELDS, validate_field_ref, validate_resource_ref
from jobset.cluster.model.kinds.pod_validation_probes import PROBES, forbid_probes, validate_probes
from jobset.cluster.model.kinds.pod_validation_resources import validate_resources
from jobset.cluster.model.kinds.pod_validation_security import validate_container_security
from jobset.cluster.model.kinds.pod_validation_volumes import descending_path
from jobset.cluster.model.kinds.problems import invalid_each, one_of, optional_one_of
from jobset.cluster.model.names import (
    config_key,
    environment_name,
    port_name,
    port_number,
)

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("FallbackToLogsOnError", "File")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_RULE_ACTIONS = ("Restart", "RestartAllContainers")
_RULE_OPERATORS = ("In", "NotIn")
_RULES_MAX = 20
_EXIT_CODES_MAX = 255
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_ENV_SOURCES_TEXT = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
_TOO_MANY_SOURCES = "may not have more than one field specified at a time"
_EPHEMERAL_FORBIDDEN = ("ports", "resources", "lifecycle", *PROBES, "resizePolicy", "restartPolicyRules")


class Surroundings(Struct, frozen=True):
    """What a container's rules need to know of its pod."""

    volumes: dict[str, Object]
    grace_s: int
    restart_policy: str
    os: str = ""
    claims: frozenset[str] = frozenset()


def validate_containers(spec: Object, path: str, pod: Surroundings) -> Iterator[Cause]:
    """All containers of a pod spec; names are unique across them."""
    names: set[str] = set()
    containers = spec.get("containers") or []
    if not containers:
        yield required(f"{path}.containers")
    yield from _validate_each(containers, f"{path}.containers", names, pod)
    yield from _validate_each(spec.get("initContainers") or [], f"{path}.initContainers", names, pod, init=True)
    yield from _validate_ephemeral(spec.get("ephemeralContainers") or [], f"{path}.ephemeralContainers", names, pod)


def _validate_each(
    containers: list[Object], path: str, names: set[str], pod: Surroundings, *, init: bool = False
) -> Iterator[Cause]:
    host_ports: set[tuple[object, ...]] = set()
    for index, container in enumerate(containers):
        here = f"{path}[{index}]"
        yield from _validate_container(container, here, pod)
        if container.get("name"):
            if container["name"] in names:
                yield duplicate(f"{here}.name", container["name"])
            names.add(container["name"])
        yield from validate_restart_policy(container, here)
        if init and container.get("restartPolicy") != "Always":
            yield from forbid_probes(container, here)
            continue
        yield from validate_probes(container, here, pod.grace_s, pod.os)
        yield from _conflicting_host_ports(container, here, host_ports)


def _validate_ephemeral(containers: list[Object], path: str, names: set[str], pod: Surroundings) -> Iterator[Cause]:
    for index, container in enumerate(containers):
        here = f"{path}[{index}]"
        yield from _validate_container({**container, "resources": {}}, here, pod)
        if container.get("name") in names:
            yield duplicate(f"{here}.name", container["name"])
        target = container.get("targetContainerName")
        if target and target not in names:
            yield not_found(f"{here}.targetContainerName", target)
        names.add(container.get("name", ""))
        if container.get("restartPolicy"):
            yield forbidden(f"{here}.restartPolicy", "cannot be set for an Ephemeral Container")
        for field in _EPHEMERAL_FORBIDDEN:
            if container.get(field):
                yield forbidden(f"{here}.{field}", "cannot be set for an Ephemeral Container")
        for number, mount in enumerate(container.get("volumeMounts") or ()):
            for field in ("subPath", "subPathExpr"):
                if mount.get(field):
                    yield forbidden(
                        f"{here}.volumeMounts[{number}].{field}", "cannot be set for an Ephemeral Container"
                    )


def _validate_container(container: Object, path: str, pod: Surroundings) -> Iterator[Cause]:
    """What holds for a container of every sort."""
    name = container.get("name") or ""
    if not name:
        yield required(f"{path}.name")
    else:
        yield from invalid_each(f"{path}.name", name, dns_label_problems(name))
    if not container.get("image"):
        yield required(f"{path}.image")
    yield from one_of(f"{path}.terminationMessagePolicy", container.get("terminationMessagePolicy"), _MESSAGE_POLICIES)
    yield from _validate_ports(container.get("ports") or [], f"{path}.ports")
    for index, variable in enumerate(container.get("env") or ()):
        yield from _validate_env(variable, f"{path}.env[{index}]", pod)
    for index, source in enumerate(container.get("envFrom") or ()):
        yield from _validate_env_from(source, f"{path}.envFrom", index)
    devices = {device.get("devicePath") for device in container.get("volumeDevices") or ()}
    yield from _validate_mounts(container, f"{path}.volumeMounts", pod, devices)
    yield from _validate_devices(container, f"{path}.volumeDevices", pod)
    yield from one_of(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), _PULL_POLICIES)
    yield from validate_resources(container.get("resources") or {}, f"{path}.resources", pod.claims)
    yield from _validate_resize_policy(container.get("resizePolicy") or [], f"{path}.resizePolicy", pod)
    yield from validate_container_security(container.get("securityContext"), f"{path}.securityContext")


def _validate_resize_policy(policies: list[Object], path: str, pod: Surroundings) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, one in enumerate(policies):
        resource, policy = one.get("resourceName") or "", one.get("restartPolicy") or ""
        if resource in seen:
            yield duplicate(f"{path}[{index}]", resource)
        seen.add(resource)
        yield from one_of(path, resource, ("cpu", "memory"))
        yield from one_of(path, policy, ("NotRequired", "RestartContainer"))
        if pod.restart_policy == "Never" and policy != "NotRequired":
            yield invalid(path, policy, "must be 'NotRequired' when `restartPolicy` is 'Never'")


def validate_restart_policy(container: Object, path: str) -> Iterator[Cause]:
    """A container's own restart policy and rules (KEP-753, KEP-5307, KEP-5532)."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or []
    yield from optional_one_of(f"{path}.restartPolicy", policy, _RESTART_POLICIES)
    if not rules:
        return
    here = f"{path}.restartPolicyRules"
    if policy is None:
        yield required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")
    if len(rules) > _RULES_MAX:
        yield too_many(here, len(rules), _RULES_MAX)
    for index, rule in enumerate(rules):
        yield from _validate_restart_rule(rule, f"{here}[{index}]")


def _validate_restart_rule(rule: Object, path: str) -> Iterator[Cause]:
    yield from optional_one_of(f"{path}.action", rule.get("action") or "", _RULE_ACTIONS)
    exit_codes = rule.get("exitCodes")
    if exit_codes is None:
        yield required(f"{path}.exitCodes", "must be specified")
        return
    yield from optional_one_of(f"{path}.exitCodes.operator", exit_codes.get("operator") or "", _RULE_OPERATORS)
    values = exit_codes.get("values") or []
    if len(values) > _EXIT_CODES_MAX:
        yield too_many(f"{path}.exitCodes.values", len(values), _EXIT_CODES_MAX)
    for index, value in enumerate(values):
        if value in values[:index]:
            yield duplicate(f"{path}.exitCodes.values[{index}]", value)


def _validate_ports(ports: list[Object], path: str) -> Iterator[Cause]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        here, name = f"{path}[{index}]", port.get("name")
        if name:
            problems = port_name(name)
            yield from invalid_each(f"{here}.name", name, problems)
            if name in names and not problems:
                yield duplicate(f"{here}.name", name)
            names.add(name)
        number, host_port = port.get("containerPort") or 0, port.get("hostPort") or 0
        if not number:
            yield required(f"{here}.containerPort")
        else:
            yield from invalid_each(f"{here}.containerPort", number, port_number(number))
        if host_port:
            yield from invalid_each(f"{here}.hostPort", host_port, port_number(host_port))
        yield from one_of(f"{here}.protocol", port.get("protocol"), _PROTOCOLS)


def _conflicting_host_ports(container: Object, path: str, taken: set[tuple[object, ...]]) -> Iterator[Cause]:
    for index, port in enumerate(container.get("ports") or ()):
        if not port.get("hostPort"):
            continue
        key = (port.get("protocol"), port.get("hostIP", ""), port["hostPort"])
        if key in taken:
            shown = "/".join(str(part) for part in key)
            yield duplicate(f"{path}.ports[{index}].hostPort", shown)
        taken.add(key)


def _validate_env(variable: Object, path: str, pod: Surroundings) -> Iterator[Cause]:
    name = variable.get("name") or ""
    if not name:
        yield required(f"{path}.name")
    else:
        yield from invalid_each(f"{path}.name", name, environment_name(name))
    source = variable.get("valueFrom")
    if source is None:
        return
    here = f"{path}.valueFrom"
    present = [kind for kind in _ENV_SOURCES if source.get(kind) is not None]
    if not present:
        yield invalid(here, "", f"must specify one of: {_ENV_SOURCES_TEXT}")
    elif variable.get("value"):
        yield invalid(here, "", "may not be specified when `value` is not empty")
    elif len(present) > 1:
        yield invalid(here, "", _TOO_MANY_SOURCES)
    for kind in present:
        yield from _validate_env_source(kind, source[kind], f"{here}.{kind}", pod)


def _validate_env_source(kind: str, source: Object, path: str, pod: Surroundings) -> Iterator[Cause]:
    if kind == "fieldRef":
        yield from validate_field_ref(source, path, ENV_FIELDS)
    elif kind == "resourceFieldRef":
        yield from validate_resource_ref(source, path)
    elif kind == "fileKeyRef":
        yield from _validate_file_key(source, path, pod)
    else:
        name = source.get("name") or ""
        yield from invalid_each(f"{path}.name", name, dns_subdomain_problems(name))
        if not source.get("key"):
            yield required(f"{path}.key")
        else:
            yield from invalid_each(f"{path}.key", source["key"], config_key(source["key"]))


def _validate_file_key(source: Object, path: str, pod: Surroundings) -> Iterator[Cause]:
    for field in ("volumeName", "path", "key"):
        if not source.get(field):
            yield required(f"{path}.{field}")
    volume = source.get("volumeName")
    if volume and volume not in pod.volumes:
        yield not_found(f"{path}.volumeName", volume)
    if source.get("path"):
        yield from descending_path(source["path"], f"{path}.path")


def _validate_env_from(source: Object, list_path: str, index: int) -> Iterator[Cause]:
    """How many sources there are is reported of the whole list, as Kubernetes does."""
    path = f"{list_path}[{index}]"
    if source.get("prefix"):
        yield from invalid_each(f"{path}.prefix", source["prefix"], environment_name(source["prefix"]))
    present = [kind for kind in ("configMapRef", "secretRef") if source.get(kind) is not None]
    for kind in present:
        name = source[kind].get("name")
        if not name:
            yield required(f"{path}.{kind}.name")
        else:
            yield from invalid_each(f"{path}.{kind}.name", name, dns_subdomain_problems(name))
    if not present:
        yield invalid(list_path, "", "must specify one of: `configMapRef` or `secretRef`")
    elif len(present) > 1:
        yield invalid(list_path, "", _TOO_MANY_SOURCES)


def _validate_mounts(container: Object, path: str, pod: Surroundings, devices: set[str | None]) -> Iterator[Cause]:
    seen: set[str] = set()
    privileged = bool((container.get("securityContext") or {}).get("privileged"))
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        here, name, mount_path = f"{path}[{index}]", mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            yield required(f"{here}.name")
        if name not in pod.volumes:
            yield not_found(f"{here}.name", name)
        if not mount_path:
            yield required(f"{here}.mountPath")
        if mount_path in seen:
            yield invalid(f"{here}.mountPath", mount_path, "must be unique")
        if mount_path in devices:
            yield invalid(f"{here}.mountPath", mount_path, "must not already exist as a path in volumeDevices")
        seen.add(mount_path)
        # Kubernetes reports these three of all mounts together, without an index.
        if mount.get("subPath"):
            yield from descending_path(mount["subPath"], f"{path}.subPath")
        if mount.get("subPathExpr"):
            if mount.get("subPath"):
                detail = "subPathExpr and subPath are mutually exclusive"
                yield invalid(f"{here}.subPathExpr", mount["subPathExpr"], detail)
            yield from descending_path(mount["subPathExpr"], f"{path}.subPathExpr")
        yield from _validate_propagation(mount.get("mountPropagation"), f"{path}.mountPropagation", privileged)


def _validate_propagation(value: str | None, path: str, privileged: bool) -> Iterator[Cause]:
    if value is None:
        return
    if value not in _PROPAGATIONS:
        yield not_supported(path, value, _PROPAGATIONS)
    elif value == "Bidirectional" and not privileged:
        yield forbidden(path, "Bidirectional mount propagation is available only to privileged containers")


def _validate_devices(container: Object, path: str, pod: Surroundings) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, device in enumerate(container.get("volumeDevices") or ()):
        here, name, device_path = f"{path}[{index}]", device.get("name") or "", device.get("devicePath") or ""
        if not name:
            yield required(f"{here}.name")
        if name not in pod.volumes:
            yield not_found(f"{here}.name", name)
        elif not {"persistentVolumeClaim", "ephemeral"} & pod.volumes[name].keys():
            yield invalid(
                f"{here}.name", name, "can only use volume source type of PersistentVolumeClaim for block mode"
            )
        if not device_path:
            yield required(f"{here}.devicePath")
        elif device_path in seen:
            yield invalid(f"{here}.devicePath", device_path, "must be unique")
        seen.add(device_path)
