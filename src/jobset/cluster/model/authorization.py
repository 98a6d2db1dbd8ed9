"""What somebody may do, by the rules of RBAC: who is bound to which role, and what its rules allow. Pure.

Rules only add up: nothing is ever denied, everything that no rule allows is not allowed. The roles and bindings come
in as they are stored; a binding whose role is missing gives nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from jobset.api.meta import Object
from jobset.api.resources import RBAC

ALL = "*"
SUPERUSERS = "system:masters"
_ACCOUNT_PREFIX = "system:serviceaccount:"
_VERBS_BESIDES = {
    "roles": "escalate",
    "clusterroles": "escalate",
    "rolebindings": "bind",
    "clusterrolebindings": "bind",
}


class Subject(Struct, frozen=True):
    """Whom a request comes from."""

    name: str
    groups: Sequence[str] = ()


class Attempt(Struct, frozen=True):
    """What somebody wants to do: to a resource, or, with `path`, to what is none. Empty namespace: all of them."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


class Grant(Struct, frozen=True):
    """One rule that somebody has, and the sentence that says through which binding."""

    rule: Object
    why: str


class Policy(Struct, frozen=True):
    """Everything that is stored about rights. `find_role(namespace, name)`: empty namespace for a ClusterRole."""

    cluster_bindings: Sequence[Object]
    bindings_in: Callable[[str], Sequence[Object]]
    find_role: Callable[[str, str], Object | None]


def decide(policy: Policy, subject: Subject, attempt: Attempt) -> tuple[bool, str]:
    """(allowed, which binding allows it)."""
    for grant in grants(policy, subject, "" if attempt.path else attempt.namespace):
        if allows(grant.rule, attempt):
            return True, grant.why
    return False, ""


def grants(policy: Policy, subject: Subject, namespace: str) -> Iterator[Grant]:
    """Every rule that the subject has in a namespace; those of the whole cluster when it is empty."""
    for binding in policy.cluster_bindings:
        if (who := _bound_as(binding, subject, "")) is not None:
            why = f'allowed by ClusterRoleBinding "{binding["metadata"]["name"]}" of {_role_text(binding)} to {who}'
            yield from _rules_of(policy, binding, "", why)
    for binding in policy.bindings_in(namespace) if namespace else ():
        if (who := _bound_as(binding, subject, namespace)) is not None:
            name = f"{binding['metadata']['name']}/{namespace}"
            why = f'allowed by RoleBinding "{name}" of {_role_text(binding)} to {who}'
            yield from _rules_of(policy, binding, namespace, why)


def allows(rule: Object, attempt: Attempt) -> bool:
    if not _matches(rule.get("verbs"), attempt.verb):
        return False
    if attempt.path:
        return any(_path_matches(pattern, attempt.path) for pattern in rule.get("nonResourceURLs") or ())
    names = rule.get("resourceNames")
    return (
        _matches(rule.get("apiGroups"), attempt.group)
        and any(_resource_matches(each, attempt) for each in rule.get("resources") or ())
        and (not names or attempt.name in names)
    )


def _matches(values: Iterable[str] | None, value: str) -> bool:
    return any(each in (ALL, value) for each in values or ())


def _resource_matches(written: str, attempt: Attempt) -> bool:
    """`pods`, `pods/log`, `*/scale` or `*`, which has all subresources too."""
    if written == ALL:
        return True
    if not attempt.subresource:
        return written == attempt.resource
    return written in (f"{attempt.resource}/{attempt.subresource}", f"{ALL}/{attempt.subresource}")


def _path_matches(pattern: str, path: str) -> bool:
    return pattern in (ALL, path) or (pattern.endswith(ALL) and path.startswith(pattern.rstrip(ALL)))


def _rules_of(policy: Policy, binding: Object, namespace: str, why: str) -> Iterator[Grant]:
    reference = binding["roleRef"]
    role = policy.find_role(namespace if reference["kind"] == "Role" else "", reference["name"])
    for rule in (role or {}).get("rules") or ():
        yield Grant(rule, why)


def _role_text(binding: Object) -> str:
    return f'{binding["roleRef"]["kind"]} "{binding["roleRef"]["name"]}"'


def _bound_as(binding: Object, subject: Subject, namespace: str) -> str | None:
    """As whom the binding means the subject, in words; None when it does not."""
    for bound in binding.get("subjects") or ():
        kind, name = bound["kind"], bound["name"]
        if kind == "ServiceAccount":
            account = bound.get("namespace") or namespace
            if account and subject.name == f"{_ACCOUNT_PREFIX}{account}:{name}":
                return f'ServiceAccount "{name}/{account}"'
        elif (kind == "User" and name == subject.name) or (kind == "Group" and name in subject.groups):
            return f'{kind} "{name}"'
    return None


def account_user_name(namespace: str, name: str) -> str:
    """What a ServiceAccount is called as a user."""
    return f"{_ACCOUNT_PREFIX}{namespace}:{name}"


def account_of_user(name: str) -> tuple[str, str] | None:
    """(namespace, name) of the ServiceAccount that a user is, if it is one."""
    namespace, _, account = name.removeprefix(_ACCOUNT_PREFIX).partition(":")
    return (namespace, account) if name.startswith(_ACCOUNT_PREFIX) and namespace and account else None


def writes_rights(attempt: Attempt) -> Attempt | None:
    """What must be allowed besides to write a role (verb escalate) or a binding (verb bind); None for all else.

    Kubernetes also lets those write who hold every right of the role themselves. Here the verb is always needed:
    stricter, and one look at the request tells.
    """
    if attempt.group != RBAC or attempt.verb not in ("create", "update", "patch"):
        return None
    verb = _VERBS_BESIDES.get(attempt.resource)
    if verb is None:
        return None
    return Attempt(verb, attempt.group, attempt.resource, "", attempt.namespace, attempt.name)
