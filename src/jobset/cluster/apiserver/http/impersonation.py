"""Acting as somebody else: `kubectl --as`, `--as-group`. Allowed to whoever holds the verb `impersonate` on them.

What comes out is a user who has the other one's rights and none of the own.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

from jobset.api.errors import BadRequest, Forbidden
from jobset.cluster.apiserver.http.authentication import AUTHENTICATED, User, account_groups
from jobset.cluster.apiserver.http.authorization import Authorization, refusal_text
from jobset.cluster.model.authorization import Attempt, account_of_user

_USER, _GROUP, _UID, _EXTRA = "impersonate-user", "impersonate-group", "impersonate-uid", "impersonate-extra-"
_AUTHENTICATION = "authentication.k8s.io"
_VERB = "impersonate"


def impersonated(user: User, headers: Iterable[tuple[str, str]], authorization: Authorization) -> User:
    """Whom the request acts as: `user`, unless its headers say otherwise. BadRequest, Forbidden."""
    asked = [(name.lower(), value) for name, value in headers if name.lower().startswith("impersonate-")]
    if not asked:
        return user
    name = next((value for key, value in asked if key == _USER and value), "")
    if not name:
        raise BadRequest("requested to impersonate groups, uid or extra without impersonating a user")
    groups = tuple(value for key, value in asked if key == _GROUP)
    uid = next((value for key, value in asked if key == _UID), "")
    extra: dict[str, list[str]] = {}
    for key, value in asked:
        if key.startswith(_EXTRA):
            extra.setdefault(unquote(key.removeprefix(_EXTRA)), []).append(value)
    for attempt in _attempts(name, groups, uid, extra):
        if not authorization.judge(user, attempt)[0]:
            raise Forbidden(refusal_text(user, attempt), group=attempt.group, kind=attempt.resource, name=attempt.name)
    account = account_of_user(name)
    if not groups and account is not None:
        groups = account_groups(account[0])
    return User(name, uid, tuple(dict.fromkeys((*groups, AUTHENTICATED))), extra)


def _attempts(name: str, groups: Iterable[str], uid: str, extra: dict[str, list[str]]) -> Iterable[Attempt]:
    """Everything that must be allowed."""
    account = account_of_user(name)
    if account is not None:
        yield Attempt(_VERB, resource="serviceaccounts", namespace=account[0], name=account[1])
    else:
        yield Attempt(_VERB, resource="users", name=name)
    for group in groups:
        yield Attempt(_VERB, resource="groups", name=group)
    if uid:
        yield Attempt(_VERB, _AUTHENTICATION, "uids", name=uid)
    for key, values in extra.items():
        for value in values:
            yield Attempt(_VERB, _AUTHENTICATION, "userextras", key, name=value)
