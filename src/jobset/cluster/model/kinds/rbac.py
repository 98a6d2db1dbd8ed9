"""Role, ClusterRole and their bindings as the API server handles them. Pure.

Aggregation is left out: a ClusterRole with an aggregationRule keeps it, and the rules it was written with.
"""

from __future__ import annotations

from collections.abc import Iterator

from jobset.api.errors import Cause
from jobset.api.field_errors import forbidden, invalid, not_supported, required
from jobset.api.meta import Object
from jobset.api.name_rules import dns_subdomain_problems
from jobset.api.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, RBAC, ROLE_BINDINGS, ROLES
from jobset.cluster.model.kinds.copy_on_write import change_each, drop_zero, fill_zero, put
from jobset.cluster.model.kinds.kind import Kind
from jobset.cluster.model.kinds.problems import invalid_each

_OPTIONAL = frozenset(("apiGroups", "resources", "resourceNames", "nonResourceURLs"))
_SUBJECT_GROUPS = {"User": RBAC, "Group": RBAC, "ServiceAccount": ""}


def default_role(role: Object) -> Object:
    """`rules` is always there, null when there are none."""
    rules = role.get("rules")
    return put(role, "rules", change_each(rules, lambda rule: drop_zero(rule, _OPTIONAL)) if rules else None)


def default_binding(binding: Object) -> Object:
    reference = binding.get("roleRef") or {}
    binding = put(binding, "roleRef", fill_zero(reference, {"apiGroup": RBAC}))
    subjects = binding.get("subjects")
    return put(binding, "subjects", change_each(subjects, _default_subject)) if subjects else binding


def _default_subject(subject: Object) -> Object:
    group = _SUBJECT_GROUPS.get(subject.get("kind", ""))
    return fill_zero(subject, {"apiGroup": group}) if group else subject


def validate_role(role: Object) -> list[Cause]:
    return list(_role_problems(role, namespaced=True))


def validate_cluster_role(role: Object) -> list[Cause]:
    return list(_role_problems(role, namespaced=False))


def _role_problems(role: Object, *, namespaced: bool) -> Iterator[Cause]:
    for index, rule in enumerate(role.get("rules") or ()):
        yield from _rule_problems(f"rules[{index}]", rule, namespaced=namespaced)


def _rule_problems(path: str, rule: Object, *, namespaced: bool) -> Iterator[Cause]:
    if not rule.get("verbs"):
        yield required(f"{path}.verbs", "verbs must contain at least one value")
    urls = rule.get("nonResourceURLs") or []
    if urls:
        if namespaced:
            yield invalid(f"{path}.nonResourceURLs", urls, "namespaced rules cannot apply to non-resource URLs")
        if any(rule.get(key) for key in ("apiGroups", "resources", "resourceNames")):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            yield invalid(f"{path}.nonResourceURLs", urls, text)
        return
    if not rule.get("apiGroups"):
        yield required(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield required(f"{path}.resources", "resource rules must supply at least one resource")


def validate_role_binding(binding: Object) -> list[Cause]:
    return list(_binding_problems(binding, ("Role", "ClusterRole"), namespaced=True))


def validate_cluster_role_binding(binding: Object) -> list[Cause]:
    return list(_binding_problems(binding, ("ClusterRole",), namespaced=False))


def _binding_problems(binding: Object, kinds: tuple[str, ...], *, namespaced: bool) -> Iterator[Cause]:
    reference = binding["roleRef"]
    if reference.get("apiGroup") != RBAC:
        yield not_supported("roleRef.apiGroup", reference.get("apiGroup", ""), (RBAC,))
    if reference.get("kind") not in kinds:
        yield not_supported("roleRef.kind", reference.get("kind", ""), kinds)
    if not reference.get("name"):
        yield required("roleRef.name")
    else:
        yield from invalid_each("roleRef.name", reference["name"], _segment_problems(reference["name"]))
    for index, subject in enumerate(binding.get("subjects") or ()):
        yield from _subject_problems(f"subjects[{index}]", subject, namespaced=namespaced)


def _segment_problems(name: str) -> list[str]:
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{sign}'" for sign in "/%" if sign in name]


def _subject_problems(path: str, subject: Object, *, namespaced: bool) -> Iterator[Cause]:
    kind, name = subject.get("kind", ""), subject.get("name", "")
    if not name:
        yield required(f"{path}.name")
    if kind not in _SUBJECT_GROUPS:
        yield not_supported(f"{path}.kind", kind, tuple(sorted(_SUBJECT_GROUPS)))
        return
    if subject.get("apiGroup", "") != _SUBJECT_GROUPS[kind]:
        yield not_supported(f"{path}.apiGroup", subject.get("apiGroup", ""), (_SUBJECT_GROUPS[kind],))
    if kind == "ServiceAccount":
        if name:
            yield from invalid_each(f"{path}.name", name, dns_subdomain_problems(name))
        if not subject.get("namespace") and not namespaced:
            yield required(f"{path}.namespace")
    elif subject.get("namespace"):
        yield forbidden(f"{path}.namespace", f"may not be set for a {kind}")


def validate_role_update(new: Object, _old: Object) -> list[Cause]:
    return validate_role(new)


def validate_cluster_role_update(new: Object, _old: Object) -> list[Cause]:
    return validate_cluster_role(new)


def validate_role_binding_update(new: Object, old: Object) -> list[Cause]:
    return [*validate_role_binding(new), *_fixed_reference(new, old)]


def validate_cluster_role_binding_update(new: Object, old: Object) -> list[Cause]:
    return [*validate_cluster_role_binding(new), *_fixed_reference(new, old)]


def _fixed_reference(new: Object, old: Object) -> Iterator[Cause]:
    if new["roleRef"] != old["roleRef"]:
        yield invalid("roleRef", new["roleRef"], "cannot change roleRef")


ROLE = Kind(
    resource=ROLES,
    definition="io.k8s.api.rbac.v1.Role",
    default=default_role,
    validate=validate_role,
    validate_update=validate_role_update,
    generation=False,
    name_rule="path-segment",
)
CLUSTER_ROLE = Kind(
    resource=CLUSTER_ROLES,
    definition="io.k8s.api.rbac.v1.ClusterRole",
    default=default_role,
    validate=validate_cluster_role,
    validate_update=validate_cluster_role_update,
    generation=False,
    name_rule="path-segment",
)
ROLE_BINDING = Kind(
    resource=ROLE_BINDINGS,
    definition="io.k8s.api.rbac.v1.RoleBinding",
    default=default_binding,
    validate=validate_role_binding,
    validate_update=validate_role_binding_update,
    generation=False,
    name_rule="path-segment",
    creates_on_update=True,
)
CLUSTER_ROLE_BINDING = Kind(
    resource=CLUSTER_ROLE_BINDINGS,
    definition="io.k8s.api.rbac.v1.ClusterRoleBinding",
    default=default_binding,
    validate=validate_cluster_role_binding,
    validate_update=validate_cluster_role_binding_update,
    generation=False,
    name_rule="path-segment",
    creates_on_update=True,
)
