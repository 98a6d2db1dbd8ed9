"""Who may do what: rules, bindings, and what the API server takes as such."""

from __future__ import annotations

import pytest

from jobset.api.errors import Invalid
from jobset.api.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from jobset.cluster.apiserver.http.authentication import ADMIN, User
from jobset.cluster.apiserver.http.authorization import Authorization, attempt_of, create_default_roles, forbidden
from jobset.cluster.apiserver.http.paths import request_info
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.model.authorization import Attempt, allows
from jobset.cluster.store.memory import MemoryStore
from jobset.sim.loop import wall_clock

PODS = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}


@pytest.mark.parametrize(
    ("rule", "attempt", "allowed"),
    [
        (PODS, Attempt("get", resource="pods", name="p"), True),
        (PODS, Attempt("list", resource="pods"), False),
        (PODS, Attempt("get", group="apps", resource="pods"), False),
        (PODS, Attempt("get", resource="pods", subresource="log"), False),
        ({**PODS, "resources": ["pods/log"]}, Attempt("get", resource="pods", subresource="log"), True),
        ({**PODS, "resources": ["pods/log"]}, Attempt("get", resource="pods"), False),
        ({**PODS, "resources": ["*/log"]}, Attempt("get", resource="pods", subresource="log"), True),
        ({**PODS, "resources": ["*/log"]}, Attempt("get", resource="pods"), False),
        ({**PODS, "resources": ["*"]}, Attempt("get", resource="pods", subresource="log"), True),
        ({**PODS, "verbs": ["*"]}, Attempt("delete", resource="pods"), True),
        ({**PODS, "apiGroups": ["*"]}, Attempt("get", group="apps", resource="pods"), True),
        ({**PODS, "resourceNames": ["mine"]}, Attempt("get", resource="pods", name="mine"), True),
        ({**PODS, "resourceNames": ["mine"]}, Attempt("get", resource="pods", name="other"), False),
        ({**PODS, "resourceNames": ["mine"]}, Attempt("get", resource="pods"), False),
        (PODS, Attempt("get", path="/healthz"), False),
        ({"verbs": ["get"], "nonResourceURLs": ["/healthz"]}, Attempt("get", path="/healthz"), True),
        ({"verbs": ["get"], "nonResourceURLs": ["/healthz"]}, Attempt("get", path="/healthz/etcd"), False),
        ({"verbs": ["get"], "nonResourceURLs": ["/apis/*"]}, Attempt("get", path="/apis/batch/v1"), True),
        ({"verbs": ["get"], "nonResourceURLs": ["/apis/*"]}, Attempt("get", path="/api"), False),
        ({"verbs": ["get"], "nonResourceURLs": ["*"]}, Attempt("get", path="/metrics"), True),
        ({"verbs": ["get"], "nonResourceURLs": ["*"]}, Attempt("get", resource="pods"), False),
        ({"verbs": [], "apiGroups": ["*"], "resources": ["*"]}, Attempt("get", resource="pods"), False),
    ],
)
def test_what_a_rule_allows(rule, attempt, allowed):
    assert allows(rule, attempt) is allowed


def account(namespace, name):
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return User(f"system:serviceaccount:{namespace}:{name}", groups=groups)


@pytest.fixture
def service():
    service = ApiService(MemoryStore(), now=wall_clock())
    create_default_roles(service)
    return service


def bind(service, resource, namespace, role, *subjects):
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": role[0], "name": role[1]}
    name = f"b{service.store.revision}"
    body = {"metadata": {"name": name}, "roleRef": reference, "subjects": list(subjects)}
    return service.create(resource, namespace, body)


def may(service, user, method, path, query=None):
    return Authorization(service.store).decide(user, request_info(method, path, query or {}))[0]


AGENT = {"kind": "ServiceAccount", "name": "agent", "namespace": "default"}


def test_the_in_place_agent_gets_exactly_its_rights(service):
    rules = [
        {"verbs": ["patch"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["js-w-0-0-abcde"]},
        {"verbs": ["get"], "apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"], "resourceNames": ["js"]},
    ]
    service.create(ROLES, "default", {"metadata": {"name": "agent"}, "rules": rules})
    bind(service, ROLE_BINDINGS, "default", ("Role", "agent"), AGENT)
    agent, pods = account("default", "agent"), "/api/v1/namespaces/default/pods"
    assert may(service, agent, "PATCH", f"{pods}/js-w-0-0-abcde")
    assert may(service, agent, "GET", "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets/js")
    refused = [
        ("PATCH", f"{pods}/another"),
        ("GET", f"{pods}/js-w-0-0-abcde"),
        ("PATCH", f"{pods}/js-w-0-0-abcde/status"),
        ("DELETE", f"{pods}/js-w-0-0-abcde"),
        ("GET", pods),
        ("PATCH", "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets/js"),
        ("PATCH", "/api/v1/namespaces/kube-system/pods/js-w-0-0-abcde"),
        ("GET", "/api/v1/namespaces/default/secrets"),
    ]
    assert [path for method, path in refused if may(service, agent, method, path)] == []
    assert not may(service, account("kube-system", "agent"), "PATCH", f"{pods}/js-w-0-0-abcde")


def test_a_cluster_role_bound_in_a_namespace_counts_only_there(service):
    bind(service, ROLE_BINDINGS, "default", ("ClusterRole", "view"), AGENT)
    agent = account("default", "agent")
    assert may(service, agent, "GET", "/api/v1/namespaces/default/pods")
    assert not may(service, agent, "GET", "/api/v1/namespaces/kube-system/pods")
    assert not may(service, agent, "GET", "/api/v1/pods")
    assert not may(service, agent, "GET", "/api/v1/namespaces/default/secrets")


def test_a_role_bound_to_a_group_of_accounts(service):
    group = {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:serviceaccounts:default"}
    bind(service, CLUSTER_ROLE_BINDINGS, "", ("ClusterRole", "edit"), group)
    anybody, stranger = account("default", "anybody"), account("kube-system", "x")
    assert may(service, anybody, "POST", "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets")
    assert may(service, anybody, "GET", "/api/v1/secrets")
    assert not may(service, anybody, "POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles")
    assert not may(service, stranger, "GET", "/api/v1/secrets")


def test_a_binding_to_a_missing_role_gives_nothing(service):
    bind(service, ROLE_BINDINGS, "default", ("Role", "none"), AGENT)
    assert not may(service, account("default", "agent"), "GET", "/api/v1/namespaces/default/pods")


def test_everybody_known_may_discover_and_ask_about_themselves(service):
    user = account("default", "default")
    for path in ("/api", "/apis", "/apis/batch/v1", "/openapi/v3", "/version", "/readyz"):
        assert may(service, user, "GET", path), path
    assert may(service, user, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
    assert not may(service, user, "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews")
    assert not may(service, user, "GET", "/metrics")


def test_masters_may_do_everything_even_without_roles():
    assert may(ApiService(MemoryStore(), now=wall_clock()), ADMIN, "DELETE", "/api/v1/nodes")


def test_nobody_gives_themselves_more_rights(service):
    """admin of a namespace may not write roles or bindings without the verbs escalate and bind."""
    bind(service, ROLE_BINDINGS, "default", ("ClusterRole", "admin"), AGENT)
    agent, rbac = account("default", "agent"), "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    assert may(service, agent, "GET", f"{rbac}/roles")
    for path in (f"{rbac}/roles", f"{rbac}/rolebindings"):
        assert not may(service, agent, "POST", path)
    rules = [{"verbs": ["bind"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings"]}]
    service.create(ROLES, "default", {"metadata": {"name": "binder"}, "rules": rules})
    bind(service, ROLE_BINDINGS, "default", ("Role", "binder"), AGENT)
    assert may(service, agent, "POST", f"{rbac}/rolebindings")
    assert not may(service, agent, "POST", f"{rbac}/roles")


def test_running_commands_in_a_pod_is_creating_whatever_the_method(service):
    rules = [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods/exec", "pods/log"]}]
    service.create(ROLES, "default", {"metadata": {"name": "reader"}, "rules": rules})
    bind(service, ROLE_BINDINGS, "default", ("Role", "reader"), AGENT)
    agent, pod = account("default", "agent"), "/api/v1/namespaces/default/pods/p"
    assert may(service, agent, "GET", f"{pod}/log")
    assert not may(service, agent, "GET", f"{pod}/exec")


def test_refusals_are_worded_as_users_know_them(service):
    user = account("default", "x")
    cases = [
        (
            ("GET", "/api/v1/namespaces/default/pods"),
            'pods is forbidden: User "system:serviceaccount:default:x" cannot list resource "pods" in API group "" '
            'in the namespace "default"',
        ),
        (
            ("GET", "/apis/batch/v1/namespaces/default/jobs/j"),
            'jobs.batch "j" is forbidden: User "system:serviceaccount:default:x" cannot get resource "jobs" in API '
            'group "batch" in the namespace "default"',
        ),
        (
            ("DELETE", "/api/v1/nodes"),
            'nodes is forbidden: User "system:serviceaccount:default:x" cannot deletecollection resource "nodes" in '
            'API group "" at the cluster scope',
        ),
        (("GET", "/metrics"), 'forbidden: User "system:serviceaccount:default:x" cannot get path "/metrics"'),
    ]
    for (method, path), text in cases:
        info = request_info(method, path, {})
        assert forbidden(user, info, "").message == text
        assert not Authorization(service.store).judge(user, attempt_of(info))[0]


GOOD_RULE = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
GOOD_REFERENCE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}


@pytest.mark.parametrize(
    ("resource", "fields", "field", "reason"),
    [
        (ROLES, {"rules": [{**GOOD_RULE, "verbs": []}]}, "rules[0].verbs", "FieldValueRequired"),
        (ROLES, {"rules": [{"verbs": ["get"], "resources": ["pods"]}]}, "rules[0].apiGroups", "FieldValueRequired"),
        (ROLES, {"rules": [{"verbs": ["get"], "apiGroups": [""]}]}, "rules[0].resources", "FieldValueRequired"),
        (
            ROLES,
            {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/"]}]},
            "rules[0].nonResourceURLs",
            "FieldValueInvalid",
        ),
        (
            CLUSTER_ROLES,
            {"rules": [{**GOOD_RULE, "nonResourceURLs": ["/"]}]},
            "rules[0].nonResourceURLs",
            "FieldValueInvalid",
        ),
        (
            ROLE_BINDINGS,
            {"roleRef": {**GOOD_REFERENCE, "kind": "Cloud"}},
            "roleRef.kind",
            "FieldValueNotSupported",
        ),
        (
            CLUSTER_ROLE_BINDINGS,
            {"roleRef": {**GOOD_REFERENCE, "kind": "Role"}},
            "roleRef.kind",
            "FieldValueNotSupported",
        ),
        (ROLE_BINDINGS, {"roleRef": {**GOOD_REFERENCE, "name": ""}}, "roleRef.name", "FieldValueRequired"),
        (
            ROLE_BINDINGS,
            {"roleRef": GOOD_REFERENCE, "subjects": [{"kind": "Robot", "name": "r"}]},
            "subjects[0].kind",
            "FieldValueNotSupported",
        ),
        (
            CLUSTER_ROLE_BINDINGS,
            {"roleRef": GOOD_REFERENCE, "subjects": [{"kind": "ServiceAccount", "name": "r"}]},
            "subjects[0].namespace",
            "FieldValueRequired",
        ),
        (
            ROLE_BINDINGS,
            {"roleRef": GOOD_REFERENCE, "subjects": [{"kind": "User", "name": "u", "namespace": "x"}]},
            "subjects[0].namespace",
            "FieldValueForbidden",
        ),
    ],
)
def test_wrong_roles_and_bindings_are_refused(service, resource, fields, field, reason):
    with pytest.raises(Invalid) as refused:
        service.create(resource, "default" if resource.namespaced else "", {"metadata": {"name": "x"}, **fields})
    assert [(cause.field, cause.reason) for cause in refused.value.causes] == [(field, reason)]


def test_a_binding_keeps_its_role(service):
    binding = bind(service, ROLE_BINDINGS, "default", ("ClusterRole", "view"), AGENT)
    name = binding["metadata"]["name"]
    with pytest.raises(Invalid, match="cannot change roleRef"):
        service.patch(ROLE_BINDINGS, "default", name, {"roleRef": {"name": "edit"}})
    changed = service.patch(ROLE_BINDINGS, "default", name, {"subjects": [{"kind": "User", "name": "ann"}]})
    assert changed["subjects"] == [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}]
