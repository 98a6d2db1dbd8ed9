"""Strategic merge patch, line by line: what is there, what is patched in, what comes out."""

from typing import Any

import pytest

from jobset.api.errors import BadRequest, InternalError
from jobset.api.schema import definition
from jobset.cluster.apiserver.strategic import apply_strategic_patch

POD = definition("io.k8s.api.core.v1.Pod")
SERVICE = definition("io.k8s.api.core.v1.Service")


def containers(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": name, "image": image} for name, image in pairs]}}


CASES = {
    "containers merge by name, a new one stands before none": (
        containers(("a", "1"), ("b", "1")),
        containers(("b", "2"), ("c", "3")),
        containers(("a", "1"), ("b", "2"), ("c", "3")),
    ),
    "an element is deleted by its key": (
        containers(("a", "1"), ("b", "1")),
        {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}},
        containers(("b", "1")),
    ),
    "a list is replaced on demand": (
        containers(("a", "1"), ("b", "1")),
        {"spec": {"containers": [{"name": "c", "image": "3"}, {"$patch": "replace"}]}},
        containers(("c", "3")),
    ),
    "lists without a merge rule are replaced": (
        {"spec": {"containers": [{"name": "a", "command": ["x", "y"]}]}},
        {"spec": {"containers": [{"name": "a", "command": ["z"]}]}},
        {"spec": {"containers": [{"name": "a", "command": ["z"]}]}},
    ),
    "scalars marked to merge are united, new ones first": (
        {"metadata": {"finalizers": ["a", "b"]}},
        {"metadata": {"finalizers": ["c", "a"]}},
        {"metadata": {"finalizers": ["c", "a", "b"]}},
    ),
    "and are taken out by name": (
        {"metadata": {"finalizers": ["a", "b"]}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}},
        {"metadata": {"finalizers": ["b"]}},
    ),
    "an order is kept": (
        containers(("a", "1"), ("b", "1"), ("c", "1")),
        {"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]}},
        containers(("b", "1"), ("c", "1"), ("a", "1")),
    ),
    "maps merge, null takes a key away": (
        {"metadata": {"labels": {"a": "1", "b": "2"}}},
        {"metadata": {"labels": {"a": None, "c": "3"}}},
        {"metadata": {"labels": {"b": "2", "c": "3"}}},
    ),
    "retained keys drop their siblings": (
        {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
        {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}},
        {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_patch(name: str) -> None:
    target, patch, expected = CASES[name]
    assert apply_strategic_patch(target, patch, POD) == expected


def test_what_is_not_patched_stays_shared() -> None:
    target = {**containers(("a", "1"), ("b", "1")), "metadata": {"labels": {"x": "y"}}}
    patched = apply_strategic_patch(target, containers(("b", "2")), POD)
    assert patched["metadata"] is target["metadata"]
    assert patched["spec"]["containers"][0] is target["spec"]["containers"][0]
    assert apply_strategic_patch(target, containers(("b", "1")), POD) is target


def test_ports_of_a_service_merge_by_number() -> None:
    target = {"spec": {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]}}
    patch = {"spec": {"ports": [{"port": 81, "name": "c"}]}}
    assert apply_strategic_patch(target, patch, SERVICE)["spec"]["ports"][1] == {"port": 81, "name": "c"}


def test_an_element_without_its_key_and_an_unknown_directive_are_refused() -> None:
    with pytest.raises(BadRequest, match="merge key: name"):
        apply_strategic_patch(containers(("a", "1")), {"spec": {"containers": [{"image": "x"}]}}, POD)
    with pytest.raises(InternalError, match="explode"):
        apply_strategic_patch({"metadata": {}}, {"metadata": {"$patch": "explode"}}, POD)
