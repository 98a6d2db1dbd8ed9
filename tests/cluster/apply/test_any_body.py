"""Whatever is applied, or said to be managed, is taken or refused, and owners own what is there."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from jobset.api.errors import ApiError
from jobset.api.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from jobset.cluster.apiserver.managed_fields import live_managed
from jobset.cluster.apiserver.options import WriteOptions
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.store.memory import MemoryStore
from jobset.sim.loop import START

WIDGETS = Resource("example.com", "v1", "widgets", "Widget")
TEXT = {"type": "string"}
ITEM = {"type": "object", "required": ["name"], "properties": {"name": TEXT, "n": {"type": "integer", "default": 1}}}
SPEC = {
    "type": "object",
    "properties": {
        "items": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": ITEM,
        },
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
        "list": {"type": "array", "items": TEXT},
        "map": {"type": "object", "additionalProperties": TEXT},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", "b", "", "k:{"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "name"]), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(["a", "b", "c"])
ITEMS = st.lists(
    st.fixed_dictionaries({"name": NAMES}, optional={"n": st.integers(0, 2)}),
    max_size=3,
    unique_by=lambda item: item["name"],
)
TYPED = {
    "items": ITEMS,
    "set": st.lists(NAMES, max_size=3, unique=True),
    "list": st.lists(NAMES, max_size=2),
    "map": st.dictionaries(NAMES, NAMES, max_size=2),
}
FITTING = st.fixed_dictionaries({}, optional=TYPED)
MANAGERS = st.sampled_from(["alice", "bob", "kubectl"])


def new_service() -> ApiService:
    service = ApiService(MemoryStore(paranoid=True), now=lambda: START, seed=1)
    version = {"name": "v1", "served": True, "storage": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC}}}
    names = {"plural": "widgets", "kind": "Widget"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [{**version, "schema": schema}]}
    body = {"metadata": {"name": "widgets.example.com"}, "spec": spec}
    service.create(CUSTOM_RESOURCE_DEFINITIONS, "", body)
    return service


def send(service: ApiService, manager: str, change: Any, type_: Any, *, force: bool = False) -> bool:
    """Whether it was taken."""
    options = WriteOptions(field_manager=manager, force=force)
    try:
        service.patch(WIDGETS, "default", "w", change, type_, "", options)
    except ApiError:
        return False
    return True


def config(spec: Any, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", **metadata}, "spec": spec,
    }  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(MANAGERS, st.sampled_from(["apply", "merge"]), JSON | FITTING, st.booleans()), max_size=6))
def test_any_requests_in_any_order(requests: list[tuple[str, Any, Any, bool]]) -> None:
    service = new_service()
    for manager, type_, spec, force in requests:
        send(service, manager, config(spec) if type_ == "apply" else {"spec": spec}, type_, force=force)
    service.store.verify()  # type: ignore[attr-defined]


@settings(max_examples=100, deadline=None)
@given(JSON, st.lists(st.fixed_dictionaries({"manager": JSON, "operation": JSON, "fieldsV1": JSON, "time": JSON})))
def test_any_managed_fields(entries: Any, shaped: list[Any]) -> None:
    service = new_service()
    assert send(service, "alice", config({"set": ["a"]}), "apply")
    for said in (entries, shaped, [{**one, "fieldsType": "FieldsV1", "operation": "Update"} for one in shaped]):
        send(service, "bob", {"metadata": {"managedFields": said}, "spec": {"list": ["a"]}}, "merge")
        send(service, "bob", config({"set": ["b"]}), "apply")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(MANAGERS, FITTING), min_size=1, max_size=5))
def test_what_is_forced_is_there_and_owned_and_what_is_no_longer_applied_goes(
    requests: list[tuple[str, dict[str, Any]]],
) -> None:
    service = new_service()
    last: dict[str, dict[str, Any]] = {}
    for manager, spec in requests:
        assert send(service, manager, config(spec), "apply", force=True)
        last[manager] = spec
        stored = service.get(WIDGETS, "default", "w")
        assert set(spec.get("map", {}).items()) <= set(stored.get("spec", {}).get("map", {}).items())
        assert set(spec.get("set", [])) <= set(stored.get("spec", {}).get("set", []))
        for field in ("map", "set"):
            wanted = {key for one in last.values() for key in one.get(field, ())}
            assert set(stored.get("spec", {}).get(field, ())) <= wanted
        names = {item["name"] for one in last.values() for item in one.get("items", ())}
        assert {item["name"] for item in stored.get("spec", {}).get("items", ())} <= names
        for owned in live_managed(stored).values():
            assert owned.fields
