"""Pods of one template share what they have alike, and what is complete is given back as it is."""

from __future__ import annotations

import pytest

from jobset.api.meta import Object, copy_json
from jobset.api.resources import CUSTOM_RESOURCE_DEFINITIONS, JOBS
from jobset.cluster.model.kinds.jobs import JOB
from jobset.cluster.model.kinds.kind import Kind
from jobset.cluster.model.kinds.memo import IdentityMemo
from jobset.cluster.model.kinds.pods import POD
from jobset.cluster.model.kinds.registry import KINDS

METADATA: Object = {"name": "o", "namespace": "default", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
JOB_BODY: Object = {
    "metadata": METADATA,
    "spec": {
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "c", "image": "x:1", "resources": {"limits": {"cpu": "1500m"}}}],
                "tolerations": [{"key": "a", "operator": "Exists"}],
            }
        }
    },
}


def pod_of(job: Object, hostname: str) -> Object:
    spec = {**job["spec"]["template"]["spec"], "hostname": hostname}
    return POD.prepare_create(POD.default({"metadata": METADATA, "spec": spec}))


def test_pods_of_one_template_share_their_parts() -> None:
    job = JOB.prepare_create(JOB.default(JOB_BODY))
    one, two = pod_of(job, "h-0"), pod_of(job, "h-1")
    for part in ("containers", "tolerations", "securityContext"):
        assert one["spec"][part] is two["spec"][part]
    assert one["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1500m"}
    assert (one["spec"]["hostname"], two["spec"]["hostname"]) == ("h-0", "h-1")


def test_a_bad_hostname_is_found_in_a_known_spec() -> None:
    job = JOB.prepare_create(JOB.default(JOB_BODY))
    assert POD.validate(pod_of(job, "good")) == []
    assert [cause.field for cause in POD.validate(pod_of(job, "Bad_Name"))] == ["spec.hostname"]


def stored(kind: Kind, body: Object) -> Object:
    typed = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, **body}
    return kind.default(kind.prepare_create(kind.default(typed)))


BODIES: dict[str, Object] = {
    "pods": {"metadata": METADATA, "spec": {"containers": [{"name": "c", "image": "x"}], "hostname": "h"}},
    "jobs": JOB_BODY,
    "services": {"metadata": METADATA, "spec": {"ports": [{"port": 80}]}},
    "nodes": {"metadata": METADATA, "status": {"capacity": {"cpu": "1000m"}}},
    "namespaces": {"metadata": METADATA},
    "configmaps": {"metadata": METADATA, "data": {"a": "b"}},
    "secrets": {"metadata": METADATA, "stringData": {"a": "b"}},
    "leases": {"metadata": METADATA},
    "persistentvolumeclaims": {"metadata": METADATA, "spec": {"resources": {"requests": {"storage": "1024Mi"}}}},
    "priorityclasses": {"metadata": METADATA, "value": 1},
    "endpointslices": {"metadata": METADATA, "addressType": "IPv4", "endpoints": [], "ports": [{"port": 80}]},
    "customresourcedefinitions": {
        "metadata": METADATA,
        "spec": {"group": "a.b", "scope": "Namespaced", "names": {"plural": "ws", "kind": "W"}, "versions": []},
    },
}


@pytest.mark.parametrize("plural", BODIES)
def test_what_is_complete_is_given_back_as_it_is(plural: str) -> None:
    kind = next(kind for kind in KINDS.values() if kind.resource.plural == plural)
    obj = stored(kind, BODIES[plural])
    assert kind.default(obj) is obj


@pytest.mark.parametrize("plural", BODIES)
def test_arguments_stay_as_they_were(plural: str) -> None:
    kind = next(kind for kind in KINDS.values() if kind.resource.plural == plural)
    body = copy_json(BODIES[plural])
    stored(kind, body)
    assert body == BODIES[plural]


def test_a_memo_keeps_its_objects_alive_and_stays_bounded() -> None:
    memo: IdentityMemo[Object, int] = IdentityMemo(limit=2)
    calls = []
    for number in (1, 1, 2, 3, 1):
        obj = {"number": number}
        assert memo.get(obj, lambda one: calls.append(one) or one["number"]) == number  # type: ignore[func-returns-value]
    assert len(calls) == 5


def test_every_kind_is_found_by_its_resource() -> None:
    assert all(kind.resource == resource for resource, kind in KINDS.items())
    assert KINDS[JOBS] is JOB
    assert CUSTOM_RESOURCE_DEFINITIONS in KINDS
