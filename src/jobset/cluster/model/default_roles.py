"""The roles and bindings that every cluster has. Pure.

`view`, `edit` and `admin` name the resources that exist here, JobSets among them, instead of being put together from
other roles by label (aggregation).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jobset.api.meta import Object
from jobset.api.resources import RBAC
from jobset.cluster.model.authorization import ALL, SUPERUSERS

_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_WORK: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("", ("configmaps", "endpoints", "events", "persistentvolumeclaims", "pods", "serviceaccounts", "services")),
    ("batch", ("jobs",)),
    ("discovery.k8s.io", ("endpointslices",)),
    ("events.k8s.io", ("events",)),
    ("jobset.x-k8s.io", ("jobsets",)),
)
_STATUS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("", ("persistentvolumeclaims/status", "pods/log", "pods/status", "services/status", "namespaces")),
    ("batch", ("jobs/status",)),
    ("jobset.x-k8s.io", ("jobsets/status",)),
)
_REACH_IN = ("pods/attach", "pods/exec", "pods/portforward", "pods/eviction", "pods/proxy")


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str], names: Sequence[str] = ()) -> Object:
    rule: Object = {"verbs": list(verbs), "apiGroups": [group], "resources": list(resources)}
    return {**rule, "resourceNames": list(names)} if names else rule


def _urls(*urls: str) -> Object:
    return {"verbs": ["get"], "nonResourceURLs": list(urls)}


_VIEW = [_rule(group, resources, _READ) for group, resources in (*_WORK, *_STATUS)]
_EDIT = [
    *_VIEW,
    *(_rule(group, resources, _WRITE) for group, resources in _WORK),
    _rule("", ("secrets",), (*_READ, *_WRITE)),
    _rule("", _REACH_IN, ("get", "create")),
    _rule("", ("serviceaccounts/token",), ("create",)),
    _rule("coordination.k8s.io", ("leases",), (*_READ, *_WRITE)),
]
_ADMIN = [
    *_EDIT,
    _rule(RBAC, ("rolebindings", "roles"), (*_READ, *_WRITE)),
    _rule("authorization.k8s.io", ("localsubjectaccessreviews",), ("create",)),
]
_EVERYTHING = [
    _rule(ALL, (ALL,), (ALL,)),
    {"verbs": [ALL], "nonResourceURLs": [ALL]},
]
_ONESELF = [
    _rule("authorization.k8s.io", ("selfsubjectaccessreviews", "selfsubjectrulesreviews"), ("create",)),
    _rule("authentication.k8s.io", ("selfsubjectreviews",), ("create",)),
]
_HEALTH = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_DISCOVERY = ("/api", "/api/*", "/apis", "/apis/*", *_HEALTH, "/openapi", "/openapi/*")

_ROLES: dict[str, list[Object]] = {
    "cluster-admin": _EVERYTHING,
    "admin": _ADMIN,
    "edit": _EDIT,
    "view": _VIEW,
    "system:basic-user": _ONESELF,
    "system:discovery": [_urls(*_DISCOVERY)],
    "system:public-info-viewer": [_urls(*_HEALTH)],
}
_BOUND = {
    "cluster-admin": SUPERUSERS,
    "system:basic-user": "system:authenticated",
    "system:discovery": "system:authenticated",
    "system:public-info-viewer": "system:authenticated",
}
_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}


def default_cluster_roles() -> Iterable[Object]:
    for name, rules in _ROLES.items():
        yield {"metadata": {"name": name, "labels": _LABELS}, "rules": rules}


def default_cluster_role_bindings() -> Iterable[Object]:
    for name, group in _BOUND.items():
        yield {
            "metadata": {"name": name, "labels": _LABELS},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": group}],
        }
