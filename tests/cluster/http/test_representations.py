"""What Accept headers lead to, ages, JSONPath of columns, and the cells of tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobset.api.errors import NotAcceptable
from jobset.api.meta import Object
from jobset.api.resources import JOBS, NODES, PODS, Resource
from jobset.cluster.apiserver.http.durations import short_duration
from jobset.cluster.apiserver.http.jsonpath import find_first
from jobset.cluster.apiserver.http.negotiation import Representation, representation
from jobset.cluster.apiserver.http.representations import Shaper
from jobset.cluster.apiserver.http.tables import printer_of
from jobset.cluster.model.kinds.kind import Column, Kind
from jobset.cluster.model.kinds.registry import KINDS

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", Representation()),
        ("*/*", Representation()),
        ("application/yaml", Representation("yaml")),
        (TABLE, Representation("json", "Table", "v1")),
        ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", Representation()),
        ("application/vnd.kubernetes.protobuf,application/json", Representation()),
        ("application/json;q=0.1, application/yaml;q=0.9", Representation("yaml")),
    ],
)
def test_the_first_that_can_be_made_is_taken(accept: str, expected: Representation) -> None:
    assert representation(accept) == expected


@pytest.mark.parametrize("accept", ["application/xml", "application/json;as=Table;v=v9;g=meta.k8s.io"])
def test_what_cannot_be_made_is_refused(accept: str) -> None:
    with pytest.raises(NotAcceptable):
        representation(accept)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (200, "3m20s"), (600, "10m"),
        (3600 * 3 - 1, "179m"), (3600 * 3, "3h"), (3600 * 5 + 60, "5h1m"), (3600 * 8, "8h"), (3600 * 47, "47h"),
        (86400 * 2, "2d"), (86400 * 3 + 3600, "3d1h"), (86400 * 8, "8d"), (86400 * 400, "400d"),
        (86400 * 365 * 3, "3y"), (86400 * (365 * 3 + 7), "3y7d"), (86400 * 365 * 9, "9y"),
    ],
)  # fmt: skip
def test_durations(seconds: int, text: str) -> None:
    assert short_duration(timedelta(seconds=seconds)) == text


STATUS: Object = {
    "status": {"conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True"}]},
    "spec": {"tags": ["x", "y"], "deep": {"a.b": 1}, "on": False, "none": None},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ('.status.conditions[?(@.type=="Ready")].status', "True"),
        ("{.status.conditions[?(@.type=='Missing')].status}", None),
        (".spec.tags[*]", "x"),
        (".spec.tags[-1]", "y"),
        (".spec.tags[7]", None),
        (r".spec.deep.a\.b", 1),
        (".spec.deep['a.b']", 1),
        (".spec.on", False),
        (".spec.none", None),
        (".spec.tags.x", None),
        (".spec.[[[", None),
    ],
)
def test_json_paths(path: str, found: Any) -> None:
    assert find_first(STATUS, path) == found


def cells(kind: Kind, obj: Object) -> list[Any]:
    return printer_of(kind).row(obj, NOW).cells


def test_columns_of_custom_resources_keep_their_types() -> None:
    columns = (
        Column("Tags", "string", ".spec.tags"),
        Column("Deep", "integer", ".spec.deep['a.b']"),
        Column("On", "boolean", ".spec.on"),
        Column("Wrong", "integer", ".spec.on"),
        Column("Since", "date", ".spec.since"),
    )
    kind = Kind(Resource("g.example.com", "v1", "widgets", "Widget"), columns=columns)
    spec = {**STATUS["spec"], "since": "2026-01-01T11:58:30Z"}
    assert cells(kind, {"metadata": {"name": "w"}, "spec": spec}) == ["w", '["x","y"]', 1, False, None, "90s"]


def container(name: str, **state: Any) -> Object:
    return {"name": name, "ready": "running" in state, "restartCount": 0, "state": state}


def pod(status: Object, spec: Object | None = None, **metadata: Any) -> Object:
    spec = spec or {"containers": [{"name": "a"}, {"name": "b"}]}
    return {"metadata": {"name": "p", **metadata}, "spec": spec, "status": status}


INIT = {"initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}], "containers": [{"name": "a"}]}
EXITED = {"terminated": {"exitCode": 0, "reason": "Completed"}}


@pytest.mark.parametrize(
    ("obj", "ready", "word"),
    [
        (pod({"phase": "Pending"}), "0/2", "Pending"),
        (pod({"phase": "Pending", "reason": "Evicted"}), "0/2", "Evicted"),
        (pod({"phase": "Running", "containerStatuses": [container("a", running={}), container("b", running={})]}),
         "2/2", "Running"),
        (pod({"phase": "Running", "containerStatuses": [container("a", running={}), container("b", **EXITED)]}),
         "1/2", "NotReady"),
        (pod({"phase": "Running", "containerStatuses": [container("a", waiting={"reason": "ImagePullBackOff"})]}),
         "0/2", "ImagePullBackOff"),
        (pod({"phase": "Failed", "containerStatuses": [container("a", terminated={"exitCode": 1, "signal": 9})]}),
         "0/2", "Signal:9"),
        (pod({"phase": "Pending", "initContainerStatuses": [container("i", running={})]}, INIT), "0/2", "Init:0/2"),
        (pod({"phase": "Pending", "initContainerStatuses": [container("i", terminated={"exitCode": 2})]}, INIT),
         "0/2", "Init:ExitCode:2"),
        (pod({"phase": "Running"}, deletionTimestamp="2026-01-01T12:00:00Z"), "0/2", "Terminating"),
        (pod({"phase": "Succeeded"}, deletionTimestamp="2026-01-01T12:00:00Z"), "0/2", "Succeeded"),
    ],
)  # fmt: skip
def test_pods_in_one_word(obj: Object, ready: str, word: str) -> None:
    assert cells(KINDS[PODS], obj)[1:3] == [ready, word]


def test_a_restart_tells_how_long_ago() -> None:
    status = {**container("a", running={}), "restartCount": 3}
    status["lastState"] = {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T11:59:00Z"}}
    assert cells(KINDS[PODS], pod({"phase": "Running", "containerStatuses": [status]}))[3] == "3 (60s ago)"


def test_wide_cells_are_always_there_as_are_headings() -> None:
    for kind in (KINDS[PODS], KINDS[JOBS], KINDS[NODES]):
        printer = printer_of(kind)
        assert len(printer.headings) == len(cells(kind, {"metadata": {"name": "x"}, "spec": {}}))


def test_later_tables_of_a_watch_leave_out_the_headings() -> None:
    shaper = Shaper(lambda: NOW)
    chosen = representation(TABLE)
    obj = pod({"phase": "Pending"}, resourceVersion="7")
    shown = [shaper.event_object(KINDS[PODS], obj, chosen, "None", headings=first) for first in (True, False)]
    assert shown[0]["columnDefinitions"] and shown[1]["columnDefinitions"] is None
    assert [one["rows"][0]["object"] for one in shown] == [None, None]
