"""Basic rules of security contexts. Pure. Whether the host can honour one is the kubelet's to say."""

from __future__ import annotations

from collections.abc import Iterator

from jobset.api.errors import Cause
from jobset.api.field_errors import duplicate, forbidden, invalid, not_supported, required
from jobset.api.meta import Object
from jobset.cluster.model.kinds.problems import one_of

_ID_MAX = 2**31 - 1
_CHANGE_POLICIES = ("Always", "OnRootMismatch")
_GROUPS_POLICIES = ("Merge", "Strict")
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_NAMESPACES = {"hostNetwork": "hostNetwork", "hostPID": "HostPID", "hostIPC": "HostIPC"}
"""Fields that need the host's users, and how Kubernetes spells them in its answers."""


def validate_pod_security(spec: Object, path: str) -> Iterator[Cause]:
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid(f"{path}.shareProcessNamespace", True, detail)
    if spec.get("hostUsers") is False:
        for name, shown in _NAMESPACES.items():
            if spec.get(name):
                yield forbidden(f"{path}.{shown}", "when `pod.Spec.HostUsers` is false")
    context = spec.get("securityContext") or {}
    here = f"{path}.securityContext"
    yield from _validate_ids(context, here, ("runAsUser", "runAsGroup", "fsGroup"))
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        yield from _validate_id(group, f"{here}.supplementalGroups[{index}]")
    for field, choices in (("fsGroupChangePolicy", _CHANGE_POLICIES), ("supplementalGroupsPolicy", _GROUPS_POLICIES)):
        if context.get(field) is not None and context[field] not in choices:
            yield not_supported(f"{here}.{field}", context[field], choices)
    yield from _validate_profiles(context, here)
    seen: set[str] = set()
    for index, sysctl in enumerate(context.get("sysctls") or ()):
        name = sysctl.get("name") or ""
        if not name:
            yield required(f"{here}.sysctls[{index}].name")
        elif name in seen:
            yield duplicate(f"{here}.sysctls[{index}].name", name)
        seen.add(name)


def validate_container_security(context: Object | None, path: str) -> Iterator[Cause]:
    if not context:
        return
    yield from _validate_ids(context, path, ("runAsUser", "runAsGroup"))
    yield from _validate_profiles(context, path)
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            yield invalid(path, context, detail)
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
            detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            yield invalid(path, context, detail)


def _validate_ids(context: Object, path: str, fields: tuple[str, ...]) -> Iterator[Cause]:
    for field in fields:
        if context.get(field) is not None:
            yield from _validate_id(context[field], f"{path}.{field}")


def _validate_id(value: int, path: str) -> Iterator[Cause]:
    if not 0 <= value <= _ID_MAX:
        yield invalid(path, value, f"must be between 0 and {_ID_MAX}, inclusive")


def _validate_profiles(context: Object, path: str) -> Iterator[Cause]:
    for field in ("seccompProfile", "appArmorProfile"):
        profile = context.get(field)
        if profile is None:
            continue
        here, kind, local = f"{path}.{field}", profile.get("type"), profile.get("localhostProfile")
        yield from one_of(f"{here}.type", kind, _PROFILES)
        if kind == "Localhost" and not local:
            yield required(f"{here}.localhostProfile", "must be set when type is Localhost")
        elif kind != "Localhost" and local:
            yield invalid(f"{here}.localhostProfile", local, "can only be set when type is Localhost")
