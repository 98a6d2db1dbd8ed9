"""Defaults of pods and pod templates, as Kubernetes 1.36 writes them. Pure.

`default_pod_spec` is what a pod and a Job's template share; `default_pod` adds what only a pod gets (requests from
limits, host ports, service links). The answer for each container and for each group of parts that make a spec is
remembered: the pods of one template share those parts, and so they share the defaulted ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from jobset.api.meta import Object
from jobset.cluster.model.kinds.copy_on_write import (
    change_each,
    change_in,
    change_present,
    drop_zero,
    fill,
    fill_zero,
    put,
    without,
)
from jobset.cluster.model.kinds.memo import IdentityMemo, PartsMemo, parts_key
from jobset.cluster.model.kinds.quantities import canonical_at, canonical_quantity

_POD_SPEC_ZERO = frozenset(
    (
        "initContainers", "ephemeralContainers", "volumes", "imagePullSecrets", "hostAliases", "tolerations",
        "readinessGates", "topologySpreadConstraints", "schedulingGates", "resourceClaims", "nodeSelector", "overhead",
        "nodeName", "hostname", "subdomain", "serviceAccountName", "serviceAccount", "priorityClassName",
        "hostNetwork", "hostPID", "hostIPC",
    )
)  # fmt: skip
_CONTAINER_ZERO = frozenset(
    (
        "command", "args", "env", "envFrom", "ports", "volumeMounts", "volumeDevices", "resizePolicy",
        "restartPolicyRules", "workingDir", "image", "stdin", "stdinOnce", "tty",
    )
)  # fmt: skip
_RESOURCES_ZERO = frozenset(("limits", "requests", "claims"))
_PORT_ZERO = frozenset(("name", "hostPort", "hostIP"))
_ENV_ZERO = frozenset(("value",))
_MOUNT_ZERO = frozenset(("readOnly", "subPath", "subPathExpr"))
_PROBE_ZERO = frozenset(("initialDelaySeconds",))
_TOLERATION_ZERO = frozenset(("key", "operator", "value", "effect"))
_POD_SPEC = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
}
_POD_SPEC_ABSENT: Object = {"securityContext": {}, "terminationGracePeriodSeconds": 30}
_CONTAINER = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
_CONTAINER_ABSENT: Object = {"resources": {}}
_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_HTTP_GET = {"path": "/", "scheme": "HTTP"}
_DEFAULT_MODE = {"defaultMode": 0o644}
_SOURCES_WITH_MODE = ("configMap", "secret", "downwardAPI", "projected")

_IMAGE = re.compile(
    r"(?P<name>(?:[A-Za-z0-9][A-Za-z0-9.-]*(?::\d+)?/)?[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
    r"(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*)(?::(?P<tag>\w[\w.-]{0,127}))?(?P<digest>@[A-Za-z0-9+._-]+:[0-9a-fA-F]{32,})?",
    re.ASCII,
)

VARYING_ORDER = ("hostname", "nodeName")
VARYING = frozenset(VARYING_ORDER)
"""What differs between pods of one template, and is not looked at by defaults."""

_containers: IdentityMemo[Object, Object] = IdentityMemo()
_pod_specs: PartsMemo[Object] = PartsMemo()


def default_pod(pod: Object) -> Object:
    """A pod as stored: its spec's defaults and those that templates do not get."""
    spec = pod.get("spec") or {}
    key = parts_key(spec, VARYING)
    shared = _pod_specs.get(key)
    if shared is None:
        shared = _default_whole_spec(without(spec, *VARYING))
        _pod_specs.put(key, spec, shared)
    own = {field: spec[field] for field in VARYING_ORDER if spec.get(field)}
    if len(spec) == len(shared) + len(own) and all(spec.get(field) is value for field, value in shared.items()):
        defaulted = spec
    else:
        defaulted = {**shared, **own}
    return fill(put(pod, "spec", defaulted), {"status": {}})


def _default_whole_spec(spec: Object) -> Object:
    spec = _default_account(default_pod_spec(spec))
    host_network = bool(spec.get("hostNetwork"))
    finish: Callable[[Object], Object] = _default_host_container if host_network else _requests_from_limits
    for key in ("containers", "initContainers"):
        spec = change_in(spec, key, lambda items: change_each(items, finish))
    spec = fill(spec, {"enableServiceLinks": True})
    if spec["terminationGracePeriodSeconds"] < 0:
        spec = put(spec, "terminationGracePeriodSeconds", 1)
    return spec


def default_pod_spec(spec: Object) -> Object:
    """The spec of a pod or of a template with every default filled in."""
    spec = fill(fill_zero(drop_zero(spec, _POD_SPEC_ZERO), _POD_SPEC), _POD_SPEC_ABSENT)
    for key in ("containers", "initContainers", "ephemeralContainers"):
        spec = change_in(spec, key, lambda items: change_each(items, default_container))
    spec = change_in(spec, "volumes", lambda items: change_each(items, _default_volume))
    spec = change_in(spec, "tolerations", lambda items: change_each(items, _default_toleration))
    spec = canonical_at(spec, "overhead")
    return change_in(spec, "resources", _default_resources)


def _default_toleration(toleration: Object) -> Object:
    return drop_zero(toleration, _TOLERATION_ZERO)


def _default_resources(resources: Object) -> Object:
    return canonical_at(drop_zero(resources, _RESOURCES_ZERO), "limits", "requests")


def _default_account(spec: Object) -> Object:
    """`serviceAccount` is the old name of `serviceAccountName`; both are kept equal."""
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if not account or (spec.get("serviceAccount") == account and spec.get("serviceAccountName") == account):
        return spec
    return {**spec, "serviceAccountName": account, "serviceAccount": account}


def default_container(container: Object) -> Object:
    return _containers.get(container, _default_container)


def _default_container(container: Object) -> Object:
    result = fill(fill_zero(drop_zero(container, _CONTAINER_ZERO), _CONTAINER), _CONTAINER_ABSENT)
    if not result.get("imagePullPolicy"):
        result = put(result, "imagePullPolicy", pull_policy(container.get("image") or ""))
    result = change_in(result, "resources", _default_resources)
    result = change_in(result, "volumeMounts", lambda mounts: change_each(mounts, _default_mount))
    result = change_in(result, "ports", lambda ports: change_each(ports, _default_port))
    result = change_in(result, "env", lambda env: change_each(env, _default_env))
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        result = change_present(result, probe, _default_probe)
    return change_in(result, "lifecycle", _default_lifecycle)


def pull_policy(image: str) -> str:
    """Always for the tag latest and for no tag and digest at all, else IfNotPresent."""
    match = _IMAGE.fullmatch(image)
    if match is None:
        return "IfNotPresent"
    tag = match["tag"] or ("" if match["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def _default_port(port: Object) -> Object:
    return fill_zero(drop_zero(port, _PORT_ZERO), {"protocol": "TCP"})


def _default_mount(mount: Object) -> Object:
    return drop_zero(mount, _MOUNT_ZERO)


def _default_env(variable: Object) -> Object:
    return change_in(drop_zero(variable, _ENV_ZERO), "valueFrom", _default_env_source)


def _default_env_source(source: Object) -> Object:
    source = change_in(source, "fieldRef", _default_field_ref)
    source = change_in(source, "resourceFieldRef", _default_resource_ref)
    return change_in(source, "fileKeyRef", lambda ref: fill(ref, {"optional": False}))


def _default_field_ref(ref: Object) -> Object:
    return fill_zero(ref, {"apiVersion": "v1"})


def _default_resource_ref(ref: Object) -> Object:
    return put(ref, "divisor", canonical_quantity(ref.get("divisor") or "0"))


def _default_probe(probe: Object) -> Object:
    probe = _default_handler(fill_zero(drop_zero(probe, _PROBE_ZERO), _PROBE))
    return change_present(probe, "grpc", lambda grpc: fill(grpc, {"service": ""}))


def _default_handler(handler: Object) -> Object:
    return change_present(handler, "httpGet", lambda action: fill_zero(action, _HTTP_GET))


def _default_lifecycle(lifecycle: Object) -> Object:
    return change_in(change_in(lifecycle, "postStart", _default_handler), "preStop", _default_handler)


def _requests_from_limits(container: Object) -> Object:
    """What is limited and not asked for is asked for in full."""
    resources = container["resources"]
    limits, requests = resources.get("limits"), resources.get("requests") or {}
    if not limits or all(name in requests for name in limits):
        return container
    return put(container, "resources", {**resources, "requests": {**limits, **requests}})


def _default_host_container(container: Object) -> Object:
    """On the host's network a container's port is the host's port."""
    result = _requests_from_limits(container)
    return change_in(
        result, "ports", lambda ports: change_each(ports, lambda p: fill_zero(p, {"hostPort": p.get("containerPort")}))
    )


def _default_volume(volume: Object) -> Object:
    if not any(key != "name" and value is not None for key, value in volume.items()):
        return put(volume, "emptyDir", {})
    for source in _SOURCES_WITH_MODE:
        volume = change_present(volume, source, lambda value: fill(value, _DEFAULT_MODE))
    volume = change_present(volume, "hostPath", lambda path: fill(path, {"type": ""}))
    volume = change_present(volume, "downwardAPI", _default_downward)
    volume = change_present(volume, "projected", _default_projected)
    volume = change_in(volume, "emptyDir", _default_empty_dir)
    volume = change_in(volume, "ephemeral", lambda e: change_in(e, "volumeClaimTemplate", _default_claim_template))
    return change_present(volume, "image", _default_image_volume)


def _default_downward(source: Object) -> Object:
    return change_in(source, "items", lambda items: change_each(items, _default_downward_item))


def _default_downward_item(item: Object) -> Object:
    item = change_in(item, "fieldRef", _default_field_ref)
    return change_in(item, "resourceFieldRef", _default_resource_ref)


def _default_projected(source: Object) -> Object:
    def one(projection: Object) -> Object:
        projection = change_present(projection, "downwardAPI", _default_downward)
        return change_present(projection, "serviceAccountToken", lambda t: fill(t, {"expirationSeconds": 3600}))

    return change_in(source, "sources", lambda items: change_each(items, one))


def _default_empty_dir(source: Object) -> Object:
    size = source.get("sizeLimit")
    return source if size is None else put(source, "sizeLimit", canonical_quantity(size))


def _default_claim_template(template: Object) -> Object:
    return change_in(template, "spec", default_claim_spec)


def default_claim_spec(spec: Object) -> Object:
    """The spec of a PersistentVolumeClaim, or of the template of one."""
    spec = fill(spec, {"volumeMode": "Filesystem"})
    return change_in(fill(spec, {"resources": {}}), "resources", lambda r: canonical_at(r, "limits", "requests"))


def _default_image_volume(source: Object) -> Object:
    return source if source.get("pullPolicy") else put(source, "pullPolicy", pull_policy(source.get("reference") or ""))


def default_template(template: Any) -> Object:
    """A pod template as it stands in a Job."""
    template = template or {}
    spec = _default_account(default_pod_spec(template.get("spec") or {}))
    return fill(put(template, "spec", spec), {"metadata": {}})
