"""Query parameters, and the options in the body of a delete, as options of the service's verbs. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast, get_args

from jobset.api.errors import BadRequest, Cause, Invalid
from jobset.api.meta import Object
from jobset.client.port import PatchType, Propagation
from jobset.cluster.apiserver.http.paths import Query
from jobset.cluster.apiserver.http.requests import Request
from jobset.cluster.apiserver.managed_fields import field_manager
from jobset.cluster.apiserver.options import (
    DeleteOptions,
    FieldValidation,
    ListOptions,
    WatchOptions,
    WriteOptions,
)

Warn = Callable[[str], None]
_TRUE, _FALSE = ("true", "1", "True", "TRUE", "t", "T"), ("false", "0", "False", "FALSE", "f", "F", "")


def boolean(query: Query, name: str) -> bool | None:
    """None when it is not given. BadRequest."""
    value = query.get(name)
    if value is None:
        return None
    if value not in _TRUE and value not in _FALSE:
        raise BadRequest(f'{name}: "{value}" is neither true nor false')
    return value in _TRUE


def whole_number(query: Query, name: str) -> int | None:
    value = query.get(name)
    if not value:
        return None
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise BadRequest(f'strconv.ParseInt: parsing "{value}": {name} must be a whole number')
    return int(value)


def write_options(request: Request, options_kind: str) -> WriteOptions:
    """Of a create or update, for which a client that names no field manager goes by its User-Agent."""
    manager = field_manager(request.query.get("fieldManager", ""), request.user_agent)
    return _write_options(request, options_kind, manager, force=False)


def patch_options(request: Request, patch_type: PatchType) -> WriteOptions:
    """Who applies must name the field manager, and only they may force."""
    given, force = request.query.get("fieldManager", ""), boolean(request.query, "force")
    if patch_type == "apply":
        return _write_options(request, "PatchOptions", given, force=bool(force))
    if force is not None:
        raise _bad("PatchOptions", "force", "Forbidden", "Forbidden: may not be specified for non-apply patch")
    return _write_options(request, "PatchOptions", field_manager(given, request.user_agent), force=False)


def _write_options(request: Request, options_kind: str, manager: str, *, force: bool) -> WriteOptions:
    query = request.query
    validation = query.get("fieldValidation") or "Warn"
    if validation not in get_args(FieldValidation):
        supported = '"Ignore", "Strict", "Warn"'
        raise _bad(options_kind, "fieldValidation", "NotSupported", f'Unsupported value: "{validation}"', supported)
    return WriteOptions(
        _dry_run(query.get("dryRun"), options_kind),
        cast("FieldValidation", validation),
        request.warnings.append,
        manager,
        force,
    )


def list_options(query: Query) -> ListOptions:
    limit = whole_number(query, "limit") or 0
    return ListOptions(
        query.get("labelSelector", ""),
        query.get("fieldSelector", ""),
        max(limit, 0),
        query.get("continue", ""),
        query.get("resourceVersion", ""),
        query.get("resourceVersionMatch", ""),
    )


def watch_options(query: Query, name: str) -> WatchOptions:
    """`name`: of the one object to watch, where the path says so."""
    return WatchOptions(
        query.get("labelSelector", ""),
        f"metadata.name={name}" if name else query.get("fieldSelector", ""),
        query.get("resourceVersion", ""),
        query.get("resourceVersionMatch", ""),
        bool(boolean(query, "allowWatchBookmarks")),
        boolean(query, "sendInitialEvents"),
    )


def delete_options(query: Query, body: Any, warn: Warn) -> DeleteOptions:
    """A body, if there is one, is all that counts but for dryRun. BadRequest, Invalid."""
    if not isinstance(body, dict):
        raise BadRequest("the options of a delete must be a mapping of fields")
    _check_options_type(body)
    grace = body.get("gracePeriodSeconds")
    if grace is None:
        grace = whole_number(query, "gracePeriodSeconds")
    elif not isinstance(grace, int) or isinstance(grace, bool):
        word = "string" if isinstance(grace, str) else "value"
        raise BadRequest(
            f"json: cannot unmarshal {word} into Go struct field DeleteOptions.gracePeriodSeconds of type int64"
        )
    preconditions = _mapping(body, "preconditions")
    policy = body.get("propagationPolicy") or query.get("propagationPolicy")
    orphan = body.get("orphanDependents")
    if orphan is None:
        orphan = boolean(query, "orphanDependents")
    _check_policy(policy, orphan)
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    return DeleteOptions(
        preconditions.get("uid") or "",
        preconditions.get("resourceVersion") or "",
        cast("Propagation | None", policy),
        grace,
        _dry_run(_first(body.get("dryRun")) or query.get("dryRun"), "DeleteOptions"),
        warn,
    )


def _first(values: Any) -> str | None:
    if not values:
        return None
    return str(values[0]) if isinstance(values, list) else str(values)


def _mapping(body: Object, name: str) -> Object:
    value = body.get(name)
    if value is not None and not isinstance(value, dict):
        raise BadRequest(f"{name} must be a mapping of fields")
    return value or {}


def _check_options_type(body: Object) -> None:
    if body.get("kind", "DeleteOptions") != "DeleteOptions":
        version = body.get("apiVersion", "")
        raise BadRequest(
            f'no kind "{body["kind"]}" is registered for version "{version}" in scheme '
            '"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"'
        )


def _check_policy(policy: Any, orphan: bool | None) -> None:
    field = "propagationPolicy"
    if policy is not None and orphan is not None:
        detail = f'Invalid value: "{policy}": orphanDependents and deletionPropagation cannot be both set'
        raise _bad("DeleteOptions", field, "Invalid", detail)
    if policy is not None and policy not in get_args(Propagation):
        supported = '"Foreground", "Background", "Orphan", "nil"'
        raise _bad("DeleteOptions", field, "NotSupported", f'Unsupported value: "{policy}"', supported)


def _dry_run(value: str | None, options_kind: str) -> bool:
    if value not in (None, "", "All"):
        raise _bad(options_kind, "dryRun", "NotSupported", f'Unsupported value: ["{value}"]', '"All"')
    return value == "All"


def _bad(kind: str, field: str, reason: str, detail: str, supported: str = "") -> Invalid:
    text = f"{detail}: supported values: {supported}" if supported else detail
    return Invalid(
        f'{kind}.meta.k8s.io "" is invalid: {field}: {text}',
        causes=[Cause(f"FieldValue{reason}", text, field)],
        group="meta.k8s.io",
        kind=kind,
    )
