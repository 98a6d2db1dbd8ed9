"""Rules of probes and lifecycle hooks. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from jobset.api.errors import Cause
from jobset.api.field_errors import forbidden, invalid, required
from jobset.api.meta import Object
from jobset.cluster.model.kinds.problems import invalid_each, not_negative, one_of
from jobset.cluster.model.names import port_number, port_number_or_name

PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_SIDECARS_ONLY = "may not be set for init containers without restartPolicy=Always"
_HEADER_NAME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-")


def validate_probes(container: Object, path: str, grace_s: int, os: str) -> Iterator[Cause]:
    """The probes and hooks of a container that keeps running: a regular one or a sidecar."""
    for name in PROBES:
        probe = container.get(name)
        if probe is not None:
            yield from _validate_probe(name, probe, f"{path}.{name}")
    lifecycle = container.get("lifecycle")
    if lifecycle:
        yield from _validate_lifecycle(lifecycle, f"{path}.lifecycle", grace_s)
        if lifecycle.get("stopSignal") and not os:
            yield forbidden(f"{path}.lifecycle.stopSignal", "may not be set for containers with empty `spec.os.name`")


def forbid_probes(container: Object, path: str) -> Iterator[Cause]:
    """An init container that runs once has neither probes nor hooks."""
    for name in ("lifecycle", *PROBES):
        if container.get(name) is not None:
            yield forbidden(f"{path}.{name}", _SIDECARS_ONLY)


def _validate_probe(name: str, probe: Object, path: str) -> Iterator[Cause]:
    yield from _validate_handler(probe, path, ("exec", "httpGet", "tcpSocket", "grpc"))
    for number in _NUMBERS:
        yield from not_negative(f"{path}.{number}", probe.get(number))
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and name == "readinessProbe":
        yield invalid(f"{path}.terminationGracePeriodSeconds", grace, "must not be set for readinessProbes")
    elif grace is not None and grace <= 0:
        yield invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0")
    if name != "readinessProbe" and probe.get("successThreshold") not in (1, None):
        yield invalid(f"{path}.successThreshold", probe["successThreshold"], "must be 1")


def _validate_lifecycle(lifecycle: Object, path: str, grace_s: int) -> Iterator[Cause]:
    for name in ("postStart", "preStop"):
        handler = lifecycle.get(name)
        if handler is not None:
            yield from _validate_handler(handler, f"{path}.{name}", ("exec", "httpGet", "tcpSocket", "sleep"), grace_s)


def _validate_handler(handler: Object, path: str, kinds: tuple[str, ...], grace_s: int = 0) -> Iterator[Cause]:
    present = [kind for kind in kinds if handler.get(kind) is not None]
    for kind in present[1:]:
        yield forbidden(f"{path}.{kind}", "may not specify more than 1 handler type")
    if not present:
        yield required(path, "must specify a handler type")
        return
    kind, action = present[0], handler[present[0]]
    path = f"{path}.{kind}"
    if kind == "exec":
        if not action.get("command"):
            yield required(f"{path}.command")
    elif kind == "sleep":
        yield from _validate_sleep(action.get("seconds", 0), path, grace_s)
    elif kind == "httpGet":
        yield from _validate_http(action, path)
    elif kind == "grpc":
        yield from invalid_each(f"{path}.port", action.get("port", 0), port_number(action.get("port") or 0))
    else:
        yield from _validate_port(action, path)


def _validate_sleep(seconds: int, path: str, grace_s: int) -> Iterator[Cause]:
    if not 0 <= seconds <= grace_s:
        detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_s})"
        yield invalid(path, seconds, detail)


def _validate_http(action: Object, path: str) -> Iterator[Cause]:
    if not action.get("path"):
        yield required(f"{path}.path")
    yield from _validate_port(action, path)
    yield from one_of(f"{path}.scheme", action.get("scheme"), ("HTTP", "HTTPS"))
    for header in action.get("httpHeaders") or ():
        name = header.get("name", "")
        if not name or not set(name) <= _HEADER_NAME_CHARS:
            detail = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name')"
            yield invalid(f"{path}.httpHeaders", name, detail)


def _validate_port(action: Object, path: str) -> Iterator[Cause]:
    port = action.get("port", 0)
    yield from invalid_each(f"{path}.port", port, port_number_or_name(port))
