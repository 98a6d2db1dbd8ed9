"""Whether a user may do what a request asks: RBAC on the roles and bindings that are stored.

Members of system:masters may do everything, so that nobody can lock themselves out.
"""

from __future__ import annotations

from collections.abc import Sequence

from jobset.api.errors import Forbidden
from jobset.api.meta import Object
from jobset.api.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from jobset.cluster.apiserver.http.authentication import User
from jobset.cluster.apiserver.http.paths import RequestInfo
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.model.authorization import (
    ALL,
    SUPERUSERS,
    Attempt,
    Policy,
    Subject,
    decide,
    grants,
    writes_rights,
)
from jobset.cluster.model.default_roles import default_cluster_role_bindings, default_cluster_roles
from jobset.cluster.store.port import Store

_REACHES_IN = ("attach", "exec", "portforward")
_EVERYTHING: tuple[Object, ...] = (
    {"verbs": [ALL], "apiGroups": [ALL], "resources": [ALL]},
    {"verbs": [ALL], "nonResourceURLs": [ALL]},
)


class Authorization:
    def __init__(self, store: Store) -> None:
        self._store = store

    def decide(self, user: User, info: RequestInfo) -> tuple[bool, str]:
        """(allowed, why)"""
        return self.judge(user, attempt_of(info))

    def judge(self, user: User, attempt: Attempt) -> tuple[bool, str]:
        """As `decide`, for an attempt that need not be a request."""
        if SUPERUSERS in user.groups:
            return True, ""
        policy, subject = self._policy(), Subject(user.name, user.groups)
        allowed, why = decide(policy, subject, attempt)
        besides = writes_rights(attempt)
        if allowed and besides and not decide(policy, subject, besides)[0]:
            return False, f'writing {attempt.resource} takes the verb "{besides.verb}" besides'
        return allowed, why

    def rules(self, user: User, namespace: str) -> Sequence[Object]:
        """Every rule the user has in a namespace."""
        if SUPERUSERS in user.groups:
            return _EVERYTHING
        return [grant.rule for grant in grants(self._policy(), Subject(user.name, user.groups), namespace)]

    def _policy(self) -> Policy:
        store = self._store
        return Policy(
            store.list(str(CLUSTER_ROLE_BINDINGS)),
            lambda namespace: store.list(str(ROLE_BINDINGS), namespace),
            lambda namespace, name: store.get(str(ROLES if namespace else CLUSTER_ROLES), namespace, name),
        )


def attempt_of(info: RequestInfo) -> Attempt:
    """What a request attempts. Commands run in a pod are created, by whatever method they are asked for."""
    if not info.is_resource:
        return Attempt(info.verb, path=info.path)
    verb = "create" if info.resource == "pods" and info.subresource in _REACHES_IN else info.verb
    return Attempt(verb, info.group, info.resource, info.subresource, info.namespace, info.name)


def forbidden(user: User, info: RequestInfo, why: str) -> Forbidden:
    """The refusal, in the words that users know. `why` is what `decide` said."""
    attempt = attempt_of(info)
    text = refusal_text(user, attempt)
    return Forbidden(f"{text}: {why}" if why else text, group=attempt.group, kind=attempt.resource, name=attempt.name)


def refusal_text(user: User, attempt: Attempt) -> str:
    if attempt.path:
        return f'forbidden: User "{user.name}" cannot {attempt.verb} path "{attempt.path}"'
    plural = f"{attempt.resource}.{attempt.group}" if attempt.group else attempt.resource
    named = f'{plural} "{attempt.name}"' if attempt.name else plural
    full = f"{attempt.resource}/{attempt.subresource}" if attempt.subresource else attempt.resource
    scope = f'in the namespace "{attempt.namespace}"' if attempt.namespace else "at the cluster scope"
    asked = f'User "{user.name}" cannot {attempt.verb} resource "{full}" in API group "{attempt.group}" {scope}'
    return f"{named} is forbidden: {asked}"


def create_default_roles(service: ApiService) -> None:
    """The roles and bindings that every cluster has, where they are missing."""
    for resource, objects in (
        (CLUSTER_ROLES, default_cluster_roles()),
        (CLUSTER_ROLE_BINDINGS, default_cluster_role_bindings()),
    ):
        for obj in objects:
            if not service.exists(resource, "", obj["metadata"]["name"]):
                service.create(resource, "", obj)
