"""Writes through the service beyond what the recorded conversations show: hooks, admission, sharing, addresses."""

from typing import Any

import pytest

from apiserver.world import config_map, definition, new_service, pod
from jobset.api.errors import BadRequest, Conflict, Forbidden, Invalid, NotFound
from jobset.api.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PODS, SERVICES, Resource
from jobset.cluster.apiserver.options import ListOptions, WriteOptions
from jobset.cluster.model.kinds.kind import Kind

WIDGETS = Resource("example.com", "v1", "widgets", "Widget")


def test_the_same_seed_gives_the_same_uids_and_names() -> None:
    first, second = ([s.create(PODS, "default", pod("", generateName="p-")) for _ in range(3)]
                     for s in (new_service(seed=7), new_service(seed=7)))  # fmt: skip
    assert [one["metadata"] for one in first] == [one["metadata"] for one in second]
    assert len({one["metadata"]["name"] for one in first}) == 3


def test_a_hook_changes_what_is_created_and_nothing_else() -> None:
    service = new_service()
    service.add_admission(PODS, lambda obj: {**obj, "spec": {**obj["spec"], "nodeSelector": {"zone": "a"}}})
    created = service.create(PODS, "default", pod("a"))
    assert created["spec"]["nodeSelector"] == {"zone": "a"}
    labelled = service.patch(PODS, "default", "a", {"metadata": {"labels": {"x": "y"}}})
    assert labelled["spec"] is created["spec"]


class Judge:
    """Admission of Widgets: sizes grow only."""

    def create(self, obj: dict[str, Any]) -> dict[str, Any]:
        return {"spec": {"size": 1}, **obj}

    def update(self, new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
        if new["spec"]["size"] < old["spec"]["size"]:
            raise Forbidden("widgets do not shrink")
        return new


def test_a_registered_kind_is_admitted_on_create_and_update() -> None:
    service = new_service()
    service.register(Kind(WIDGETS), Judge())
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    assert service.create(WIDGETS, "default", body)["spec"] == {"size": 1}
    grown = service.patch(WIDGETS, "default", "w", {"spec": {"size": 2}})
    assert grown["metadata"]["generation"] == 2
    with pytest.raises(Forbidden, match="shrink"):
        service.patch(WIDGETS, "default", "w", {"spec": {"size": 1}})


def test_unknown_fields_are_dropped_with_a_warning_or_refused() -> None:
    service = new_service()
    warnings: list[str] = []
    body = {**config_map("c", {"a": "1"}), "nope": 1}
    created = service.create(CONFIG_MAPS, "default", body, WriteOptions(warn=warnings.append))
    assert "nope" not in created and warnings == ['unknown field "nope"']
    with pytest.raises(BadRequest, match="unknown field"):
        service.create(CONFIG_MAPS, "default", body, WriteOptions(field_validation="Strict"))


def test_nulls_and_empty_collections_are_not_stored() -> None:
    body = pod("a", labels={}, annotations=None)
    body["spec"]["containers"][0] |= {"env": [], "resources": {}, "command": None}
    created = new_service().create(PODS, "default", body)
    assert not {"labels", "annotations"} & created["metadata"].keys()
    container = created["spec"]["containers"][0]
    assert container["resources"] == {} and not {"env", "command"} & container.keys()


def test_a_write_that_changes_nothing_keeps_the_version_and_tells_nobody() -> None:
    service = new_service()
    created = service.create(CONFIG_MAPS, "default", config_map("c", {"a": "1"}))
    revision = service.store.revision
    assert service.update(CONFIG_MAPS, "default", "c", config_map("c", {"a": "1"})) is created
    assert (
        service.patch(CONFIG_MAPS, "default", "c", [{"op": "replace", "path": "/data/a", "value": "1"}], "json")
        is created
    )
    assert service.store.revision == revision


def test_a_dry_run_answers_and_stores_nothing() -> None:
    service = new_service()
    trial = WriteOptions(dry_run=True)
    assert "resourceVersion" not in service.create(PODS, "default", pod("a"), trial)["metadata"]
    with pytest.raises(NotFound):
        service.get(PODS, "default", "a")


def test_addresses_are_each_given_once_and_a_wished_one_only_if_free() -> None:
    service = new_service()

    def create(name: str, **spec: Any) -> str:
        body = {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}
        return service.create(SERVICES, "default", body)["spec"]["clusterIP"]

    given = [create(f"s{number}") for number in range(3)]
    assert len(set(given)) == 3
    assert create("headless", clusterIP="None") == "None"
    assert create("wished", clusterIP="10.96.7.7") == "10.96.7.7"
    with pytest.raises(Invalid, match="already allocated"):
        create("again", clusterIP="10.96.7.7")
    service.delete(SERVICES, "default", "wished")
    assert create("later", clusterIP="10.96.7.7") == "10.96.7.7"
    assert (
        service.patch(SERVICES, "default", "s0", {"metadata": {"labels": {"a": "b"}}})["spec"]["clusterIP"] == given[0]
    )


def test_an_evicted_pod_says_so_while_it_ends() -> None:
    service = new_service()
    created = service.create(PODS, "default", pod("a"))
    service.create_subresource(PODS, "default", "a", "binding", {"target": {"name": "n"}})
    stale = {"deleteOptions": {"preconditions": {"resourceVersion": created["metadata"]["resourceVersion"]}}}
    with pytest.raises(Conflict):
        service.create_subresource(PODS, "default", "a", "eviction", stale)
    service.create_subresource(PODS, "default", "a", "eviction", {"deleteOptions": {"gracePeriodSeconds": 5}})
    ending = service.get(PODS, "default", "a")
    assert ending["metadata"]["deletionGracePeriodSeconds"] == 5
    assert [one["reason"] for one in ending["status"]["conditions"] if one["type"] == "DisruptionTarget"] == [
        "EvictionByEvictionAPI"
    ]


def test_nothing_is_created_in_a_namespace_that_goes_and_system_namespaces_stay() -> None:
    service = new_service()
    service.create(NAMESPACES, "", {"metadata": {"name": "n"}})
    going = service.delete(NAMESPACES, "", "n")
    assert going["status"]["phase"] == "Terminating"
    with pytest.raises(Forbidden, match="being terminated"):
        service.create(CONFIG_MAPS, "n", {"metadata": {"name": "c"}})
    with pytest.raises(Forbidden, match="may not be deleted"):
        service.delete(NAMESPACES, "", "kube-system")


def test_a_page_continues_in_the_state_of_the_first_page() -> None:
    service = new_service()
    for name in "abcd":
        service.create(CONFIG_MAPS, "default", config_map(name))
    first = service.list(CONFIG_MAPS, "default", ListOptions(limit=2))
    service.delete(CONFIG_MAPS, "default", "c")
    service.create(CONFIG_MAPS, "default", config_map("bb"))
    second = service.list(CONFIG_MAPS, "default", ListOptions(limit=2, continue_token=first.continue_token))
    assert first.remaining == 2
    assert [one["metadata"]["name"] for page in (first, second) for one in page.items] == ["a", "b", "c", "d"]


def test_a_definition_is_served_at_once_scaled_and_emptied_with_it() -> None:
    service = new_service()
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    service.create(CUSTOM_RESOURCE_DEFINITIONS, "", definition(subresources={"status": {}, "scale": scale}))
    body = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "finalizers": ["example.com/x"]},
    }
    assert service.create(WIDGETS, "default", body)["spec"] == {"size": 3}
    scaled = service.patch(WIDGETS, "default", "w", {"spec": {"replicas": 5}}, subresource="scale")
    assert scaled["spec"] == {"replicas": 5} and service.get(WIDGETS, "default", "w")["spec"] == {"size": 5}
    with pytest.raises(Invalid):
        service.patch(WIDGETS, "default", "w", {"spec": {"replicas": 10}}, subresource="scale")
    stale = {**scaled, "metadata": {**scaled["metadata"], "resourceVersion": "1"}}
    with pytest.raises(Conflict):
        service.update(WIDGETS, "default", "w", stale, "scale")
    service.delete(CUSTOM_RESOURCE_DEFINITIONS, "", "widgets.example.com")
    assert service.get(CUSTOM_RESOURCE_DEFINITIONS, "", "widgets.example.com")["metadata"]["deletionTimestamp"]
    service.patch(WIDGETS, "default", "w", {"metadata": {"finalizers": None}})
    with pytest.raises(NotFound):
        service.get(CUSTOM_RESOURCE_DEFINITIONS, "", "widgets.example.com")
    with pytest.raises(NotFound, match="the requested resource"):
        service.list(WIDGETS)
