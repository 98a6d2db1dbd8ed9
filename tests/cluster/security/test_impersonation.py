"""`kubectl --as`: whose rights count then, and who may do it."""

from __future__ import annotations

import pytest

from jobset.api.errors import BadRequest, Forbidden
from jobset.api.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from jobset.cluster.apiserver.http.authentication import ADMIN, User
from jobset.cluster.apiserver.http.authorization import Authorization, create_default_roles
from jobset.cluster.apiserver.http.impersonation import impersonated
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.model.authorization import Attempt
from jobset.cluster.store.memory import MemoryStore
from jobset.sim.loop import wall_clock

ANN = User("ann", groups=("system:authenticated",))


@pytest.fixture
def service():
    service = ApiService(MemoryStore(), now=wall_clock())
    create_default_roles(service)
    return service


def act(service, user, *headers):
    return impersonated(user, headers, Authorization(service.store))


def test_without_the_headers_everybody_is_who_they_are(service):
    assert act(service, ADMIN, ("Accept", "application/json")) is ADMIN


def test_the_administrator_as_somebody_has_only_their_rights(service):
    user = act(service, ADMIN, ("Impersonate-User", "bob"), ("Impersonate-Group", "devs"), ("Impersonate-Uid", "7"))
    assert user == User("bob", "7", ("devs", "system:authenticated"), {})
    assert not Authorization(service.store).judge(user, Attempt("list", resource="pods"))[0]


def test_a_service_account_comes_with_its_groups(service):
    user = act(service, ADMIN, ("impersonate-user", "system:serviceaccount:team:robot"))
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated")


def test_extra_fields(service):
    user = act(service, ADMIN, ("Impersonate-User", "bob"), ("Impersonate-Extra-Example.com%2Fteam", "a"))
    assert user.extra == {"example.com/team": ["a"]}


@pytest.mark.parametrize(
    "headers",
    [
        [("Impersonate-User", "bob")],
        [("Impersonate-User", "system:serviceaccount:team:robot")],
        [("Impersonate-User", "carl"), ("Impersonate-Group", "system:masters")],
        [("Impersonate-User", "carl"), ("Impersonate-Uid", "1")],
        [("Impersonate-User", "carl"), ("Impersonate-Extra-scopes", "all")],
    ],
)
def test_it_takes_the_verb_for_each_part(service, headers):
    rule = {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["carl"]}
    service.create(CLUSTER_ROLES, "", {"metadata": {"name": "as-carl"}, "rules": [rule]})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "as-carl"}
    subjects = [{"kind": "User", "name": "ann"}]
    service.create(CLUSTER_ROLE_BINDINGS, "", {"metadata": {"name": "x"}, "roleRef": reference, "subjects": subjects})
    assert act(service, ANN, ("Impersonate-User", "carl")).name == "carl"
    with pytest.raises(Forbidden, match="cannot impersonate resource"):
        act(service, ANN, *headers)


def test_groups_without_a_user_are_a_mistake(service):
    with pytest.raises(BadRequest):
        act(service, ADMIN, ("Impersonate-Group", "system:masters"))
