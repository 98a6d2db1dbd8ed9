"""Rules of ConfigMaps, Secrets, Leases and PriorityClasses, and of their updates. Pure."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterator
from json import JSONDecodeError, loads

from jobset.api.errors import Cause
from jobset.api.field_errors import forbidden, invalid, required, too_long
from jobset.api.meta import Object
from jobset.cluster.model.kinds.problems import immutable, invalid_each, one_of
from jobset.cluster.model.names import config_key

_SIZE_MAX = 1024 * 1024
_FIXED = "field is immutable when `immutable` is set"
_REQUIRED_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_JSON_KEYS = (".dockercfg", ".dockerconfigjson")
_ACCOUNT_NAME = "kubernetes.io/service-account.name"
_USER_PRIORITY_MAX = 1_000_000_000
_SYSTEM_PREFIX = "system-"
_PREEMPTION_POLICIES = ("Never", "PreemptLowerPriority")


def validate_config_map(config_map: Object) -> list[Cause]:
    return list(_config_map_problems(config_map))


def _config_map_problems(config_map: Object) -> Iterator[Cause]:
    data, binary = config_map.get("data") or {}, config_map.get("binaryData") or {}
    for key in data:
        yield from invalid_each(f"data[{key}]", key, config_key(key))
        if key in binary:
            yield invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    for key in binary:
        yield from invalid_each(f"binaryData[{key}]", key, config_key(key))
    size = sum(len(value.encode()) for value in data.values()) + sum(_decoded_size(text) for text in binary.values())
    if size > _SIZE_MAX:
        yield too_long("", _SIZE_MAX)


def validate_config_map_update(new: Object, old: Object) -> list[Cause]:
    return [*_fixed_problems(new, old, ("data", "binaryData")), *validate_config_map(new)]


def _fixed_problems(new: Object, old: Object, fields: tuple[str, ...]) -> Iterator[Cause]:
    """Once immutable, always immutable."""
    if not old.get("immutable"):
        return
    if not new.get("immutable"):
        yield forbidden("immutable", _FIXED)
    for field in fields:
        if (new.get(field) or {}) != (old.get(field) or {}):
            yield forbidden(field, _FIXED)


def validate_secret(secret: Object) -> list[Cause]:
    return list(_secret_problems(secret))


def _secret_problems(secret: Object) -> Iterator[Cause]:
    data, kind = secret.get("data") or {}, secret.get("type", "")
    for key in data:
        yield from invalid_each(f"data[{key}]", key, config_key(key))
    if sum(_decoded_size(text) for text in data.values()) > _SIZE_MAX:
        yield too_long("data", _SIZE_MAX)
    for key in _REQUIRED_KEYS.get(kind, ()):
        if key not in data:
            yield required(f"data[{key}]")
        elif key in _JSON_KEYS and not _is_json(data[key]):
            yield invalid(f"data[{key}]", "<secret contents redacted>", "invalid JSON")
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        yield required("data[username]")
        yield required("data[password]")
    if kind == "kubernetes.io/service-account-token":
        account = (secret["metadata"].get("annotations") or {}).get(_ACCOUNT_NAME)
        if not account:
            yield required(f"metadata.annotations[{_ACCOUNT_NAME}]")


def _decoded_size(text: str) -> int:
    return len(text) // 4 * 3 - text[-2:].count("=")


def _is_json(encoded: str) -> bool:
    try:
        loads(b64decode(encoded))
    except (NotBase64, JSONDecodeError, UnicodeDecodeError):
        return False
    return True


def validate_secret_update(new: Object, old: Object) -> list[Cause]:
    changed = immutable("type", new.get("type"), old.get("type"))
    return [*changed, *_fixed_problems(new, old, ("data",)), *validate_secret(new)]


def validate_lease(lease: Object) -> list[Cause]:
    return list(_lease_problems(lease.get("spec") or {}))


def validate_lease_update(new: Object, _old: Object) -> list[Cause]:
    return validate_lease(new)


def _lease_problems(spec: Object) -> Iterator[Cause]:
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        yield invalid("spec.leaseDurationSeconds", duration, "must be greater than 0")
    if transitions is not None and transitions < 0:
        yield invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0")
    if spec.get("preferredHolder") and not spec.get("strategy"):
        yield forbidden("spec.preferredHolder", "can only be specified when `strategy` is also specified")


def validate_priority_class(priority_class: Object) -> list[Cause]:
    return list(_priority_class_problems(priority_class))


def _priority_class_problems(priority_class: Object) -> Iterator[Cause]:
    name, value = priority_class["metadata"]["name"], priority_class.get("value") or 0
    if name.startswith(_SYSTEM_PREFIX):
        if SYSTEM_PRIORITIES.get(name) != value:
            detail = "priority class names with 'system-' prefix are reserved for system use only"
            yield forbidden("metadata.name", detail)
    elif value > _USER_PRIORITY_MAX:
        detail = f"maximum allowed value of a user defined priority is {_USER_PRIORITY_MAX}"
        yield forbidden("value", detail)
    yield from one_of("preemptionPolicy", priority_class.get("preemptionPolicy"), _PREEMPTION_POLICIES)


SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def validate_priority_class_update(new: Object, old: Object) -> list[Cause]:
    causes = []
    if new.get("value") != old.get("value"):
        causes.append(forbidden("value", "may not be changed in an update."))
    return [*causes, *immutable("preemptionPolicy", new.get("preemptionPolicy"), old.get("preemptionPolicy"))]
