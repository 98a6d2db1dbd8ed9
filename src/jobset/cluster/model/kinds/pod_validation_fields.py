"""Rules of references from a pod to its own fields and resources, in variables and in files. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobset.api.errors import Cause
from jobset.api.field_errors import invalid, not_supported, required
from jobset.api.meta import Object
from jobset.api.name_rules import qualified_name_problems
from jobset.api.quantity import parse_quantity
from jobset.cluster.model.kinds.problems import invalid_each

ENV_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
VOLUME_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_KNOWN_FIELDS = frozenset(
    (*ENV_FIELDS, *VOLUME_FIELDS, "spec.host", "spec.restartPolicy", "spec.schedulerName", "status.phase")
)
_SUBSCRIPT = re.compile(r"(?P<path>.*)\['(?P<key>.*)'\]")
_RESOURCES = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage",
    "requests.memory",
)  # fmt: skip
_HUGE_PAGES = ("limits.hugepages-", "requests.hugepages-")
_BYTE_DIVISORS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_CPU_DIVISORS = ("1m", "1")


def validate_field_ref(ref: Object, path: str, allowed: tuple[str, ...]) -> Iterator[Cause]:
    if not ref.get("apiVersion"):
        yield required(f"{path}.apiVersion")
        return
    field, here = ref.get("fieldPath") or "", f"{path}.fieldPath"
    if not field:
        yield required(here)
    elif subscript := _SUBSCRIPT.fullmatch(field):
        key = subscript["key"]
        if subscript["path"] not in ("metadata.annotations", "metadata.labels"):
            yield invalid(here, field, "error converting fieldPath: field does not support subscript")
        else:
            key = key.lower() if subscript["path"] == "metadata.annotations" else key
            yield from invalid_each(path, key, qualified_name_problems(key))
    elif field not in _KNOWN_FIELDS:
        yield invalid(here, field, f"error converting fieldPath: field label not supported: {field}")
    elif field not in allowed and field != "spec.host":
        yield not_supported(here, field, sorted(allowed))


def validate_resource_ref(ref: Object, path: str, *, of_volume: bool = False) -> Iterator[Cause]:
    if of_volume and not ref.get("containerName"):
        yield required(f"{path}.containerName")
        return
    resource = ref.get("resource") or ""
    if not resource:
        yield required(f"{path}.resource")
    elif resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        yield not_supported(f"{path}.resource", resource, _RESOURCES)
    else:
        yield from _validate_divisor(ref.get("divisor") or "0", resource, f"{path}.divisor")


def _validate_divisor(divisor: str, resource: str, path: str) -> Iterator[Cause]:
    kind = resource.partition(".")[2]
    supported = _CPU_DIVISORS if kind == "cpu" else _BYTE_DIVISORS
    value = parse_quantity(divisor)
    if value and value not in {parse_quantity(one) for one in supported}:
        choices = "1m and 1" if kind == "cpu" else ", ".join(_BYTE_DIVISORS)
        yield invalid(path, str(divisor), f"only divisor's values {choices} are supported with the {kind} resource")
