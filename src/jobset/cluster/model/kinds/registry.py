"""All built-in kinds by their resource. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from jobset.api.resources import Resource
from jobset.cluster.model.kinds.config import CONFIG_MAP, LEASE, PRIORITY_CLASS, SECRET, SERVICE_ACCOUNT
from jobset.cluster.model.kinds.definitions import CUSTOM_RESOURCE_DEFINITION
from jobset.cluster.model.kinds.events import CORE_EVENT, EVENT
from jobset.cluster.model.kinds.jobs import JOB
from jobset.cluster.model.kinds.kind import Kind
from jobset.cluster.model.kinds.nodes import NAMESPACE, NODE
from jobset.cluster.model.kinds.pods import POD
from jobset.cluster.model.kinds.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from jobset.cluster.model.kinds.services import ENDPOINT_SLICE, ENDPOINTS_KIND, SERVICE
from jobset.cluster.model.kinds.volumes import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM

KINDS: Mapping[Resource, Kind] = MappingProxyType(
    {
        kind.resource: kind
        for kind in (
            NAMESPACE, NODE, POD, SERVICE, ENDPOINTS_KIND, CONFIG_MAP, SECRET, SERVICE_ACCOUNT, PERSISTENT_VOLUME,
            PERSISTENT_VOLUME_CLAIM, CORE_EVENT, EVENT, ENDPOINT_SLICE, LEASE, JOB, PRIORITY_CLASS,
            CUSTOM_RESOURCE_DEFINITION, ROLE, ROLE_BINDING, CLUSTER_ROLE, CLUSTER_ROLE_BINDING,
        )
    }
)  # fmt: skip
