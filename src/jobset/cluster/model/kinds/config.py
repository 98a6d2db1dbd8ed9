"""ConfigMap, Secret, ServiceAccount, Lease and PriorityClass as the API server handles them. Pure."""

from __future__ import annotations

from base64 import b64encode

from jobset.api.meta import Object
from jobset.api.resources import CONFIG_MAPS, LEASES, PRIORITY_CLASSES, SECRETS, SERVICE_ACCOUNTS
from jobset.cluster.model.kinds.config_validation import (
    validate_config_map,
    validate_config_map_update,
    validate_lease,
    validate_lease_update,
    validate_priority_class,
    validate_priority_class_update,
    validate_secret,
    validate_secret_update,
)
from jobset.cluster.model.kinds.copy_on_write import drop_zero, fill, fill_zero, put, without
from jobset.cluster.model.kinds.kind import Kind

_DATA = frozenset(("data", "binaryData"))


def default_config_map(config_map: Object) -> Object:
    return drop_zero(config_map, _DATA)


CONFIG_MAP = Kind(
    resource=CONFIG_MAPS,
    definition="io.k8s.api.core.v1.ConfigMap",
    default=default_config_map,
    validate=validate_config_map,
    validate_update=validate_config_map_update,
    generation=False,
    short_names=("cm",),
)


def default_secret(secret: Object) -> Object:
    """`stringData` is the write-only plain form of `data` and wins over it."""
    secret = fill_zero(drop_zero(secret, _DATA), {"type": "Opaque"})
    plain = secret.get("stringData")
    if plain is None:
        return secret
    encoded = {key: b64encode(value.encode()).decode("ascii") for key, value in plain.items()}
    data = {**(secret.get("data") or {}), **encoded}
    secret = without(secret, "stringData")
    return put(secret, "data", data) if data else secret


SECRET = Kind(
    resource=SECRETS,
    definition="io.k8s.api.core.v1.Secret",
    default=default_secret,
    validate=validate_secret,
    validate_update=validate_secret_update,
    generation=False,
    field_selectors=("type",),
)

SERVICE_ACCOUNT = Kind(
    resource=SERVICE_ACCOUNTS,
    definition="io.k8s.api.core.v1.ServiceAccount",
    generation=False,
    short_names=("sa",),
)


def default_lease(lease: Object) -> Object:
    return fill(lease, {"spec": {}})


LEASE = Kind(
    resource=LEASES,
    definition="io.k8s.api.coordination.v1.Lease",
    default=default_lease,
    validate=validate_lease,
    validate_update=validate_lease_update,
    generation=False,
    creates_on_update=True,
)


def default_priority_class(priority_class: Object) -> Object:
    return fill(priority_class, {"value": 0, "preemptionPolicy": "PreemptLowerPriority"})


PRIORITY_CLASS = Kind(
    resource=PRIORITY_CLASSES,
    definition="io.k8s.api.scheduling.v1.PriorityClass",
    default=default_priority_class,
    validate=validate_priority_class,
    validate_update=validate_priority_class_update,
    short_names=("pc",),
)
