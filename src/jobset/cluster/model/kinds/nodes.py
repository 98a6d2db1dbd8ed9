"""Node and Namespace as the API server handles them. Pure."""

from __future__ import annotations

from jobset.api.meta import Object
from jobset.api.resources import NAMESPACES, NODES
from jobset.cluster.model.kinds.copy_on_write import change_in, drop_zero, fill, put
from jobset.cluster.model.kinds.kind import Kind, Subresource
from jobset.cluster.model.kinds.node_validation import (
    validate_namespace,
    validate_node,
    validate_node_status_update,
    validate_node_update,
)
from jobset.cluster.model.kinds.quantities import canonical_at

NAME_LABEL = "kubernetes.io/metadata.name"
_NODE_INFO: Object = dict.fromkeys(
    (
        "architecture", "bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion", "kubeletVersion",
        "machineID", "operatingSystem", "osImage", "systemUUID",
    ),
    "",
)  # fmt: skip
_SPEC_ZERO = frozenset(("taints", "unschedulable", "podCIDR", "podCIDRs", "providerID"))
_NO_ENDPOINT: Object = {"kubeletEndpoint": {"Port": 0}}


def default_node(node: Object) -> Object:
    status = node.get("status") or {}
    if status.get("capacity") and not status.get("allocatable"):
        status = put(status, "allocatable", status["capacity"])
    status = canonical_at(status, "capacity", "allocatable")
    status = fill(status, {"daemonEndpoints": _NO_ENDPOINT, "nodeInfo": _NODE_INFO})
    info = fill(status["nodeInfo"], _NODE_INFO)
    node = change_in(fill(node, {"spec": {}}), "spec", lambda spec: drop_zero(spec, _SPEC_ZERO))
    return put(node, "status", put(status, "nodeInfo", info))


def keep_status(new: Object, old: Object) -> Object:
    return put(new, "status", old["status"])


def merge_status(new: Object, old: Object) -> Object:
    return put(new, "spec", old["spec"])


NODE = Kind(
    resource=NODES,
    definition="io.k8s.api.core.v1.Node",
    default=default_node,
    prepare_update=keep_status,
    validate=validate_node,
    validate_update=validate_node_update,
    subresources={"status": Subresource(merge_status, validate_node_status_update)},
    generation=False,
    field_selectors=("spec.unschedulable",),
    short_names=("no",),
)


def default_namespace(namespace: Object) -> Object:
    """Every namespace carries its name as a label, whatever the client writes there."""
    metadata = namespace.get("metadata") or {}
    name, labels = metadata.get("name"), metadata.get("labels") or {}
    namespace = fill(namespace, {"spec": {}, "status": {"phase": "Active"}})
    if not name or labels.get(NAME_LABEL) == name:
        return namespace
    return put(namespace, "metadata", put(metadata, "labels", {**labels, NAME_LABEL: name}))


def prepare_namespace(namespace: Object) -> Object:
    """A new namespace is Active and held by the finalizer of the namespace controller."""
    spec = namespace.get("spec") or {}
    finalizers = [one for one in spec.get("finalizers") or () if one != "kubernetes"]
    return default_namespace(
        {**namespace, "spec": {**spec, "finalizers": [*finalizers, "kubernetes"]}, "status": {"phase": "Active"}}
    )


def keep_finalizers_and_status(new: Object, old: Object) -> Object:
    """Finalizers of a namespace's spec change through the finalize subresource only."""
    return put(put(new, "spec", old["spec"]), "status", old["status"])


def merge_finalizers(new: Object, old: Object) -> Object:
    return put(new, "status", old["status"])


NAMESPACE = Kind(
    resource=NAMESPACES,
    definition="io.k8s.api.core.v1.Namespace",
    default=default_namespace,
    prepare_create=prepare_namespace,
    prepare_update=keep_finalizers_and_status,
    validate=validate_namespace,
    subresources={"status": Subresource(merge_status), "finalize": Subresource(merge_finalizers)},
    generation=False,
    name_rule="dns-label",
    field_selectors=("status.phase",),
    short_names=("ns",),
)
