"""The bodies that were sent to a real Kubernetes, through the kinds alone: accepted or refused for the same reasons."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobset.api.errors import Cause
from jobset.api.meta import Object
from jobset.api.resources import CUSTOM_RESOURCE_DEFINITIONS, EVENTS
from jobset.api.schema import definition
from jobset.api.structure import drop_nulls, prune
from jobset.cluster.model.kinds.events import to_core_event, to_events_k8s_io
from jobset.cluster.model.kinds.kind import Kind
from jobset.cluster.model.kinds.registry import KINDS

CASES = Path(__file__).parents[2] / "conformance" / "cases"
AREAS = ("validation", "crud", "requests", "job", "sched", "gc", "delete")
NAMESPACE = "cf-somewhere"
ABOUT_METADATA = ("metadata.name", "metadata.finalizers", "metadata.ownerReferences", "metadata.uid")
"""The API service checks these, for all kinds."""


def _kind_of(path: str) -> Kind | None:
    plural = path.rsplit("/", 1)[-1]
    return next((kind for kind in KINDS.values() if kind.resource.plural == plural and _is_at(kind, path)), None)


def _is_at(kind: Kind, path: str) -> bool:
    root = f"/apis/{kind.resource.api_version}/" if kind.resource.group else "/api/v1/"
    return path.startswith(root) and kind.resource != CUSTOM_RESOURCE_DEFINITIONS


def _created() -> Iterator[Any]:
    for area in AREAS:
        for line in (CASES / f"{area}.jsonl").read_text().splitlines():
            case = json.loads(line.replace("${ns}", NAMESPACE))
            for number, step in enumerate(case["steps"]):
                kind = _kind_of(step.get("path", "")) if step.get("method") == "POST" else None
                status = step.get("expect", {}).get("status")
                if kind and isinstance(step.get("body"), dict) and status in (201, 422):
                    yield pytest.param(kind, step, id=f"{case['name']}-{number}")


def created(kind: Kind, body: Object) -> Object:
    """`body` as the API service would hand it to validation."""
    metadata = {"name": "generated", **body.get("metadata", {}), "uid": "uid", "creationTimestamp": "now"}
    if kind.resource.namespaced:
        metadata["namespace"] = NAMESPACE
    typed = {**body, "apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "metadata": metadata}
    known = prune(drop_nulls(typed, definition(kind.definition)), definition(kind.definition))
    obj = kind.prepare_create(kind.default(known))
    return to_events_k8s_io(to_core_event(obj)) if kind.resource == EVENTS else obj


def about(causes: list[Cause]) -> set[tuple[str, str]]:
    return {(cause.field, cause.reason) for cause in causes}


@pytest.mark.parametrize(("kind", "step"), list(_created()))
def test_same_verdict(kind: Kind, step: dict[str, Any]) -> None:
    problems = about(kind.validate(created(kind, step["body"])))
    details = step["expect"].get("body") or {}
    recorded = details.get("details", {}).get("causes", []) if step["expect"]["status"] == 422 else []
    expected = {(cause.get("field", ""), cause["reason"]) for cause in recorded}
    if step["expect"]["status"] == 422 and step.get("compare") == "status":
        return
    assert problems == {one for one in expected if not one[0].startswith((*ABOUT_METADATA, "metadata.labels"))} or (
        problems == expected
    )


def _exact() -> Iterator[Any]:
    for param in _created():
        step = param.values[1]
        expect = step["expect"]
        if (
            expect["status"] == 201
            and step.get("compare", "exact") == "exact"
            and "pick" not in step
            and "body" in expect
        ):
            yield param


@pytest.mark.parametrize(("kind", "step"), list(_exact()))
def test_same_object(kind: Kind, step: dict[str, Any]) -> None:
    """Field by field, but for what the server chooses (metadata, addresses, priority)."""
    got, recorded = created(kind, step["body"]), step["expect"]["body"]
    assert _comparable(got, recorded) == _comparable(recorded, recorded)


def _comparable(obj: Object, recorded: Object) -> Object:
    text = json.dumps({key: value for key, value in obj.items() if key != "metadata"}, sort_keys=True)
    found: Object = json.loads(text.replace("<uid:1>", "uid"))
    spec = found.get("spec") or {}
    for chosen in ("clusterIP", "clusterIPs"):
        if str(recorded.get("spec", {}).get(chosen, "")).find("<ip") >= 0:
            spec.pop(chosen, None)
    if recorded["kind"] == "Pod":
        spec.pop("priority", None)
        spec.pop("preemptionPolicy", None)
    return _without_times(found)


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(item) for key, item in value.items() if not key.endswith(("Time", "Timestamp"))}
    return [_without_times(item) for item in value] if isinstance(value, list) else value
