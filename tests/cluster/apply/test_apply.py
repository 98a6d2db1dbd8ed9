"""Server-side apply through the service, beyond what the recorded conversations show."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from cluster.apiserver.world import definition
from jobset.api.errors import BadRequest, Conflict, Invalid, NotFound
from jobset.api.meta import Object
from jobset.api.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, JOBS, PODS, Resource
from jobset.cluster.apiserver.apply import LAST_APPLIED
from jobset.cluster.apiserver.managed_fields import ANCIENT_CHANGES, UNNAMED, UPDATERS_LIMIT, field_manager
from jobset.cluster.apiserver.options import WriteOptions
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.store.memory import MemoryStore
from jobset.sim.loop import START

WIDGETS = Resource("example.com", "v1", "widgets", "Widget")


class World:
    """A service whose clock goes on by a second with each request."""

    def __init__(self) -> None:
        self.now = START
        self.service = ApiService(MemoryStore(paranoid=True), now=lambda: self.now, seed=1)

    def apply(self, manager: str, data: dict[str, str], *, force: bool = False, **more: Any) -> Object:
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", **more}, "data": data}
        return self.send(CONFIG_MAPS, "c", config, "apply", WriteOptions(field_manager=manager, force=force))

    def merge(self, manager: str, patch: Object) -> Object:
        return self.send(CONFIG_MAPS, "c", patch, "merge", WriteOptions(field_manager=manager))

    def create(self, manager: str, data: dict[str, str], **metadata: Any) -> Object:
        body = {"metadata": {"name": "c", **metadata}, "data": data}
        return self.service.create(CONFIG_MAPS, "default", body, WriteOptions(field_manager=manager))

    def send(
        self, resource: Resource, name: str, patch: Any, type_: Any, options: WriteOptions, subresource: str = ""
    ) -> Object:
        self.now += timedelta(seconds=1)
        return self.service.patch(resource, "default", name, patch, type_, subresource, options)


def owners(obj: Object) -> dict[str, Any]:
    """Manager and operation to fields."""
    entries = obj["metadata"].get("managedFields", [])
    return {f"{entry['manager']} {entry['operation']}": entry["fieldsV1"] for entry in entries}


def test_an_update_owns_what_it_set_and_others_lose_it() -> None:
    world = World()
    assert owners(world.create("maker", {"a": "1", "b": "1"})) == {
        "maker Update": {"f:data": {".": {}, "f:a": {}, "f:b": {}}}
    }
    assert owners(world.merge("editor", {"data": {"b": "2", "c": "3"}})) == {
        "maker Update": {"f:data": {".": {}, "f:a": {}}},
        "editor Update": {"f:data": {"f:b": {}, "f:c": {}}},
    }
    assert owners(world.merge("maker", {"data": {"b": None, "c": None}})) == {
        "maker Update": {"f:data": {".": {}, "f:a": {}}}
    }


def test_a_put_without_managed_fields_keeps_them() -> None:
    world = World()
    world.create("maker", {"a": "1"})
    body = {"metadata": {"name": "c", "labels": {"l": "1"}}, "data": {"a": "1"}}
    put = world.service.update(CONFIG_MAPS, "default", "c", body, "", WriteOptions(field_manager="putter"))
    assert owners(put) == {
        "maker Update": {"f:data": {".": {}, "f:a": {}}},
        "putter Update": {"f:metadata": {"f:labels": {".": {}, "f:l": {}}}},
    }


def test_whoever_names_no_manager_is_not_tracked_until_somebody_applies() -> None:
    world = World()
    world.service.create(CONFIG_MAPS, "default", {"metadata": {"name": "c"}, "data": {"a": "1", "b": "1"}})
    assert owners(world.merge("editor", {"data": {"a": "2"}})) == {}
    with pytest.raises(Conflict, match=r'conflict with "before-first-apply" using v1: .data.a'):
        world.apply("alice", {"a": "3"})
    assert owners(world.apply("alice", {"c": "1"})) == {
        "alice Apply": {"f:data": {"f:c": {}}},
        "before-first-apply Update": {"f:data": {".": {}, "f:a": {}, "f:b": {}}},
    }
    changed = world.service.patch(CONFIG_MAPS, "default", "c", {"data": {"c": "2"}})
    assert owners(changed)[f"{UNNAMED} Update"] == {"f:data": {"f:c": {}}}
    assert "alice Apply" not in owners(changed)


def test_a_field_left_out_stays_while_an_updater_owns_it() -> None:
    world = World()
    world.apply("alice", {"a": "1", "b": "1"})
    world.merge("editor", {"data": {"b": "2"}})
    applied = world.apply("alice", {"a": "1"})
    assert applied["data"] == {"a": "1", "b": "2"}
    assert owners(applied)["editor Update"] == {"f:data": {"f:b": {}}}


def test_force_takes_fields_from_updaters_and_appliers() -> None:
    world = World()
    world.apply("alice", {"a": "1", "x": "1"})
    world.merge("editor", {"data": {"b": "1"}})
    assert owners(world.apply("bob", {"a": "2", "b": "2"}, force=True)) == {
        "alice Apply": {"f:data": {"f:x": {}}},
        "bob Apply": {"f:data": {"f:a": {}, "f:b": {}}},
    }


def test_applying_the_same_again_writes_nothing() -> None:
    world = World()
    first = world.apply("alice", {"a": "1"})
    assert world.apply("alice", {"a": "1"}) is first
    assert world.merge("editor", {"data": {"a": "1"}}) is first


def test_the_time_of_an_entry_is_that_of_its_last_change() -> None:
    world = World()
    first = world.apply("alice", {"a": "1"})["metadata"]["managedFields"][0]["time"]
    later = world.apply("bob", {"b": "1"})["metadata"]["managedFields"]
    assert [(entry["manager"], entry["time"] == first) for entry in later] == [("alice", True), ("bob", False)]
    shared = world.apply("carol", {"b": "1"})["metadata"]["managedFields"]
    assert [(entry["manager"], "time" in entry) for entry in shared] == [
        ("carol", False),
        ("alice", True),
        ("bob", True),
    ]


def test_managed_fields_are_reset_by_one_empty_entry_and_by_nothing_else() -> None:
    world = World()
    world.create("maker", {"a": "1"})
    assert owners(world.merge("z", {"metadata": {"managedFields": []}})) != {}
    damaged = [{"manager": "x", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"bad": {}}}]
    assert "x Update" not in owners(world.merge("z", {"metadata": {"managedFields": damaged}}))
    assert owners(world.merge("z", {"metadata": {"managedFields": [{}]}})) == {}
    assert owners(world.merge("z", {"data": {"b": "1"}})) == {}


def test_managed_fields_of_a_request_take_the_place_of_the_stored_ones() -> None:
    world = World()
    entries = world.create("kubectl-client-side-apply", {"a": "1"})["metadata"]["managedFields"]
    migrated = [{**entry, "manager": "kubectl", "operation": "Apply"} for entry in entries]
    changed = world.merge("kubectl", {"metadata": {"managedFields": migrated}})
    assert owners(changed) == {"kubectl Apply": {"f:data": {".": {}, "f:a": {}}}}
    assert world.apply("kubectl", {"b": "1"})["data"] == {"b": "1"}


def test_only_so_many_updaters_are_told_apart() -> None:
    world = World()
    world.create("m0", {"k0": "0"})
    for number in range(1, UPDATERS_LIMIT + 3):
        obj = world.merge(f"m{number}", {"data": {f"k{number}": "0"}})
    found = owners(obj)
    assert len(found) == UPDATERS_LIMIT
    assert {"f:k0", "f:k1", "f:k2"} <= found[f"{ANCIENT_CHANGES} Update"]["f:data"].keys()
    assert f"m{UPDATERS_LIMIT + 2} Update" in found


def test_kubectl_takes_over_what_its_client_side_apply_has_set() -> None:
    world = World()
    last = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}})
    world.create("kubectl-client-side-apply", {"a": "1", "b": "1"}, annotations={LAST_APPLIED: last})
    with pytest.raises(Conflict, match=r"\.data\.b"):
        world.apply("kubectl", {"a": "2", "b": "2"})
    with pytest.raises(Conflict, match=r"\.data\.a"):
        world.apply("other", {"a": "2"})
    applied = world.apply("kubectl", {"a": "2"})
    assert applied["data"] == {"a": "2", "b": "1"}
    assert json.loads(applied["metadata"]["annotations"][LAST_APPLIED])["data"] == {"a": "2"}


def test_the_status_has_owners_of_its_own() -> None:
    world = World()
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    created = world.service.create(PODS, "default", pod, WriteOptions(field_manager="maker"))
    found = owners(created)["maker Update"]
    assert "f:status" not in found and "." not in found["f:spec"]
    assert found["f:spec"]["f:containers"].keys() == {'k:{"name":"c"}'}
    options = WriteOptions(field_manager="maker")
    patched = world.send(PODS, "p", {"status": {"message": "m"}}, "merge", options, "status")
    entries = [(one["manager"], one.get("subresource")) for one in patched["metadata"]["managedFields"]]
    assert entries == [("maker", None), ("maker", "status")]
    config = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"message": "n"}}
    with pytest.raises(Conflict, match=r'conflict with "maker" with subresource "status" using v1: .status.message'):
        world.send(PODS, "p", config, "apply", WriteOptions(field_manager="other"), "status")


def test_a_main_apply_owns_nothing_of_the_status() -> None:
    world = World()
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}}
    config = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec, "status": {"active": 3}}
    applied = world.send(JOBS, "j", config, "apply", WriteOptions(field_manager="alice"))
    assert "f:status" not in owners(applied)["alice Apply"] and applied.get("status", {}) == {}


def test_a_job_goes_over_from_client_side_to_server_side_apply() -> None:
    """What kubectl does: its updates become applies, and applying again drops the defaults that it seemed to own."""
    world = World()
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}}
    config = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}
    created = world.service.create(JOBS, "default", config, WriteOptions(field_manager="kubectl-client-side-apply"))
    entries = [{**one, "manager": "kubectl", "operation": "Apply"} for one in created["metadata"]["managedFields"]]
    options = WriteOptions(field_manager="kubectl")
    world.send(JOBS, "j", {"metadata": {"managedFields": entries}}, "merge", options)
    applied = world.send(JOBS, "j", config, "apply", options)
    assert applied["spec"] == created["spec"]
    assert owners(applied)["kubectl Apply"]["f:spec"].keys() == {"f:template"}


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"metadata": {"name": "other"}}, BadRequest, "does not match the name on the URL"),
        ({"metadata": {}}, BadRequest, "does not match the name on the URL"),
        ({"apiVersion": "v2"}, BadRequest, "Incorrect version specified in apply patch"),
        ({"kind": "Secret"}, BadRequest, "cannot be handled as a ConfigMap"),
        ({"metadata": {"name": "c", "uid": "u"}}, Conflict, "uid mismatch"),
        ({"metadata": {"name": "c", "namespace": "other"}}, BadRequest, "namespace"),
        ({"metadata": {"name": "c", "managedFields": []}}, BadRequest, "must be nil"),
        ({"metadata": []}, BadRequest, "must be an object"),
        ({"data": {"a": 1}}, BadRequest, "data"),
        ({"data": "a"}, BadRequest, "expected map"),
        ({"data": {"A B": "x"}}, Invalid, "data"),
    ],
)
def test_what_is_refused(change: Object, error: type[Exception], says: str) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, **change}
    with pytest.raises(error, match=says):
        World().send(CONFIG_MAPS, "c", config, "apply", WriteOptions(field_manager="alice"))


def test_an_absent_object_has_no_status_to_apply() -> None:
    config = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"message": "n"}}
    with pytest.raises(NotFound):
        World().send(PODS, "p", config, "apply", WriteOptions(field_manager="alice"), "status")


def test_a_dry_run_shows_owners_and_stores_nothing() -> None:
    world = World()
    world.apply("alice", {"a": "1"})
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"b": "1"}}
    options = WriteOptions(dry_run=True, field_manager="bob")
    assert "bob Apply" in owners(world.send(CONFIG_MAPS, "c", config, "apply", options))
    assert "bob Apply" not in owners(world.service.get(CONFIG_MAPS, "default", "c"))


def test_scaling_owns_the_replicas_as_the_subresource() -> None:
    world = World()
    body = definition(subresources={"scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}})
    world.service.create(CUSTOM_RESOURCE_DEFINITIONS, "", body)
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}}
    world.send(WIDGETS, "w", widget, "apply", WriteOptions(field_manager="alice"))
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w"}, "spec": {"replicas": 2}}
    for type_, manager in (("merge", "scaler"), ("apply", "applier")):
        scale = {**scale, "spec": {"replicas": scale["spec"]["replicas"] + 1}}
        world.send(WIDGETS, "w", scale, type_, WriteOptions(field_manager=manager), "scale")
        [entry] = world.service.get(WIDGETS, "default", "w")["metadata"]["managedFields"]
        assert (entry["manager"], entry["subresource"]) == (manager, "scale")
        assert entry["fieldsV1"] == {"f:spec": {"f:size": {}}}


@pytest.mark.parametrize(
    ("name", "agent", "manager"),
    [
        ("me", "kubectl/v1", "me"),
        ("", "kubectl/v1.32 (linux/amd64)", "kubectl"),
        ("", "a\x00b\n/1", "ab"),
        ("", "x" * 200, "x" * 128),
        ("", "", ""),
    ],
)
def test_the_field_manager_of_a_request(name: str, agent: str, manager: str) -> None:
    assert field_manager(name, agent) == manager
