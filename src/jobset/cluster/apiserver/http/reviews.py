"""Reviews: questions about identity and rights that are asked by creating an object that is never stored.

`kubectl auth whoami` and `auth can-i` ask about oneself; servers that trust this one ask about others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from jobset.api.errors import BadRequest, Cause, Invalid, Unauthorized
from jobset.api.field_errors import invalid, required
from jobset.api.meta import Object
from jobset.api.resources import Resource
from jobset.cluster.apiserver.http.authentication import Authentication, User
from jobset.cluster.apiserver.http.authorization import Authorization
from jobset.cluster.apiserver.http.tokens import AUDIENCES
from jobset.cluster.model.authorization import Attempt

_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"
SELF_SUBJECT_REVIEWS = Resource(_AUTHENTICATION, "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)
TOKEN_REVIEWS = Resource(_AUTHENTICATION, "v1", "tokenreviews", "TokenReview", namespaced=False)
LOCAL_ACCESS_REVIEWS = Resource(_AUTHORIZATION, "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview")
SELF_ACCESS_REVIEWS = Resource(
    _AUTHORIZATION, "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
SELF_RULES_REVIEWS = Resource(
    _AUTHORIZATION, "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", namespaced=False
)
ACCESS_REVIEWS = Resource(_AUTHORIZATION, "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False)

_Review: TypeAlias = Callable[[User, str, Object], Object]


class Reviews:
    """Answers reviews of the resources in `resources`; all of them know only the verb create."""

    def __init__(self, authentication: Authentication, authorization: Authorization) -> None:
        self._authentication = authentication
        self._authorization = authorization
        self.resources: Mapping[Resource, _Review] = MappingProxyType(
            {
                SELF_SUBJECT_REVIEWS: self._who_am_i,
                TOKEN_REVIEWS: self._whose_token,
                LOCAL_ACCESS_REVIEWS: self._may_user_here,
                SELF_ACCESS_REVIEWS: self._may_i,
                SELF_RULES_REVIEWS: self._what_may_i,
                ACCESS_REVIEWS: self._may_user,
            }
        )

    def create(self, user: User, resource: Resource, namespace: str, body: Object) -> Object:
        """The review with its status. Invalid, BadRequest; KeyError for a resource that is no review."""
        answered = self.resources[resource](user, namespace, body)
        return {"kind": resource.kind, "apiVersion": resource.api_version, **answered}

    def _who_am_i(self, user: User, _namespace: str, body: Object) -> Object:
        return {"metadata": body.get("metadata") or {}, "status": {"userInfo": _user_info(user)}}

    def _whose_token(self, _user: User, _namespace: str, body: Object) -> Object:
        spec = body.get("spec") or {}
        if not spec.get("token"):
            raise _refused(TOKEN_REVIEWS, required("spec.token"))
        audiences = tuple(spec.get("audiences") or AUDIENCES)
        try:
            found = self._authentication.of_token(spec["token"], audiences)
        except Unauthorized:
            status: Object = {"user": {}, "error": "the token is not good here"}
        else:
            status = {"authenticated": True, "user": _user_info(found), "audiences": list(audiences)}
        return {"metadata": {}, "spec": spec, "status": status}

    def _may_i(self, user: User, _namespace: str, body: Object) -> Object:
        spec = body.get("spec") or {}
        return self._answer(user, spec, _attempt(SELF_ACCESS_REVIEWS, spec))

    def _may_user(self, _user: User, _namespace: str, body: Object) -> Object:
        spec = body.get("spec") or {}
        return self._answer(_named_user(ACCESS_REVIEWS, spec), spec, _attempt(ACCESS_REVIEWS, spec))

    def _may_user_here(self, _user: User, namespace: str, body: Object) -> Object:
        spec = body.get("spec") or {}
        attempt = _attempt(LOCAL_ACCESS_REVIEWS, spec)
        if attempt.namespace != namespace:
            path = "spec.resourceAttributes.namespace"
            detail = f"must match metadata.namespace: {namespace}"
            raise _refused(LOCAL_ACCESS_REVIEWS, invalid(path, attempt.namespace, detail))
        return self._answer(_named_user(LOCAL_ACCESS_REVIEWS, spec), spec, attempt)

    def _answer(self, user: User, spec: Object, attempt: Attempt) -> Object:
        allowed, why = self._authorization.judge(user, attempt)
        return {"metadata": {}, "spec": spec, "status": {"allowed": allowed, **({"reason": why} if why else {})}}

    def _what_may_i(self, user: User, _namespace: str, body: Object) -> Object:
        spec = body.get("spec") or {}
        if not spec.get("namespace"):
            raise BadRequest("no namespace on request")
        rules = self._authorization.rules(user, spec["namespace"])
        status = {
            "incomplete": False,
            "nonResourceRules": [rule for rule in rules if rule.get("nonResourceURLs")],
            "resourceRules": [rule for rule in rules if rule.get("resources")],
        }
        return {"metadata": {}, "spec": spec, "status": status}


def _user_info(user: User) -> Object:
    extra = {key: list(values) for key, values in user.extra.items()}
    info = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}
    return {key: value for key, value in info.items() if value}


def _named_user(resource: Resource, spec: Object) -> User:
    if not spec.get("user") and not spec.get("groups"):
        detail = "at least one of user or group must be specified"
        raise _refused(resource, invalid("spec.user", spec.get("user", ""), detail))
    return User(spec.get("user", ""), spec.get("uid", ""), tuple(spec.get("groups") or ()), spec.get("extra") or {})


def _attempt(resource: Resource, spec: Object) -> Attempt:
    """What the review asks about. Namespace `*` and an absent one mean all of them."""
    asked, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (asked is None) == (path is None):
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise _refused(resource, invalid("spec.resourceAttributes", asked, detail))
    if path is not None:
        return Attempt(path.get("verb", ""), path=path.get("path", ""))
    assert asked is not None
    return Attempt(*(asked.get(key, "") for key in ("verb", "group", "resource", "subresource", "namespace", "name")))


def _refused(resource: Resource, cause: Cause) -> Invalid:
    """Without the kind's name, as Kubernetes has it."""
    text = f'.{resource.group} "" is invalid: {cause.field}: {cause.message}'
    return Invalid(text, causes=[cause], group=resource.group)
