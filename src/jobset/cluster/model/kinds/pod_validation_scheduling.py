"""Rules of what a pod says about where it may run: selectors, affinity, tolerations, spreading, gates. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from jobset.api.errors import Cause
from jobset.api.field_errors import duplicate, forbidden, invalid, not_supported, required
from jobset.api.meta import Object
from jobset.api.name_rules import dns_label_problems, label_value_problems, qualified_name_problems
from jobset.cluster.model.kinds.problems import invalid_each, label_selector, labels, one_of

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_INCLUSION = ("Honor", "Ignore")
_KEY_NEEDS_EXISTS = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
_WEIGHT = "must be in the range 1-100"


def validate_scheduling(spec: Object, path: str) -> Iterator[Cause]:
    yield from labels(f"{path}.nodeSelector", spec.get("nodeSelector"))
    yield from validate_affinity(spec.get("affinity") or {}, f"{path}.affinity")
    yield from validate_tolerations(spec.get("tolerations") or [], f"{path}.tolerations")
    yield from _validate_spread(spec.get("topologySpreadConstraints") or [], f"{path}.topologySpreadConstraints")
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        here, name = f"{path}.schedulingGates[{index}]", gate.get("name") or ""
        yield from invalid_each(here, name, qualified_name_problems(name))
        if name in seen:
            yield duplicate(here, name)
        seen.add(name)


def validate_affinity(affinity: Object, path: str) -> Iterator[Cause]:
    node = affinity.get("nodeAffinity") or {}
    here = f"{path}.nodeAffinity"
    if node.get(REQUIRED) is not None:
        terms = node[REQUIRED].get("nodeSelectorTerms") or []
        if not terms:
            yield required(f"{here}.{REQUIRED}.nodeSelectorTerms", "must have at least one node selector term")
        for index, term in enumerate(terms):
            yield from _validate_node_term(term, f"{here}.{REQUIRED}.nodeSelectorTerms[{index}]")
    for index, preferred in enumerate(node.get(PREFERRED) or ()):
        one = f"{here}.{PREFERRED}[{index}]"
        yield from _validate_weight(preferred, one)
        yield from _validate_node_term(preferred.get("preference") or {}, f"{one}.preference")
    for kind in ("podAffinity", "podAntiAffinity"):
        yield from _validate_pod_affinity(affinity.get(kind) or {}, f"{path}.{kind}")


def _validate_weight(preferred: Object, path: str) -> Iterator[Cause]:
    weight = preferred.get("weight") or 0
    if not 1 <= weight <= 100:
        yield invalid(f"{path}.weight", weight, _WEIGHT)


def _validate_node_term(term: Object, path: str) -> Iterator[Cause]:
    for index, requirement in enumerate(term.get("matchExpressions") or ()):
        yield from _validate_node_requirement(requirement, f"{path}.matchExpressions[{index}]")
    for index, requirement in enumerate(term.get("matchFields") or ()):
        yield from _validate_field_requirement(requirement, f"{path}.matchFields[{index}]")


def _validate_node_requirement(requirement: Object, path: str) -> Iterator[Cause]:
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    else:
        yield invalid(f"{path}.operator", operator, "not a valid selector operator")
    key = requirement.get("key", "")
    yield from invalid_each(f"{path}.key", key, qualified_name_problems(key))
    for index, value in enumerate(values):
        yield from invalid_each(f"{path}.values[{index}]", value, label_value_problems(value))


def _validate_field_requirement(requirement: Object, path: str) -> Iterator[Cause]:
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    if operator not in ("In", "NotIn"):
        yield invalid(f"{path}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(f"{path}.values", detail)
    if requirement.get("key") != "metadata.name":
        yield invalid(f"{path}.key", requirement.get("key", ""), "not a valid field selector key")


def _validate_pod_affinity(affinity: Object, path: str) -> Iterator[Cause]:
    for index, term in enumerate(affinity.get(REQUIRED) or ()):
        yield from _validate_pod_term(term, f"{path}.{REQUIRED}[{index}]")
    for index, preferred in enumerate(affinity.get(PREFERRED) or ()):
        here = f"{path}.{PREFERRED}[{index}]"
        yield from _validate_weight(preferred, here)
        yield from _validate_pod_term(preferred.get("podAffinityTerm") or {}, f"{here}.podAffinityTerm")


def _validate_pod_term(term: Object, path: str) -> Iterator[Cause]:
    yield from label_selector(f"{path}.labelSelector", term.get("labelSelector"))
    yield from label_selector(f"{path}.namespaceSelector", term.get("namespaceSelector"))
    for name in term.get("namespaces") or ():
        yield from invalid_each(f"{path}.namespace", name, dns_label_problems(name))
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        yield from _validate_label_keys(term, field, path)
    key = term.get("topologyKey") or ""
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    yield from invalid_each(f"{path}.topologyKey", key, qualified_name_problems(key))


def _validate_label_keys(term: Object, field: str, path: str) -> Iterator[Cause]:
    keys = term.get(field) or []
    if keys and term.get("labelSelector") is None:
        yield forbidden(f"{path}.{field}", "must not be specified when labelSelector is not set")
    for index, key in enumerate(keys):
        yield from invalid_each(f"{path}.{field}[{index}]", key, qualified_name_problems(key))


def validate_tolerations(tolerations: list[Object], path: str) -> Iterator[Cause]:
    for index, toleration in enumerate(tolerations):
        yield from _validate_toleration(toleration, f"{path}[{index}]")


def _validate_toleration(toleration: Object, path: str) -> Iterator[Cause]:
    key, operator = toleration.get("key") or "", toleration.get("operator") or ""
    effect, value = toleration.get("effect") or "", toleration.get("value") or ""
    if key:
        yield from invalid_each(f"{path}.key", key, qualified_name_problems(key))
    elif operator != "Exists":
        yield invalid(f"{path}.operator", operator, _KEY_NEEDS_EXISTS)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        yield invalid(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    if operator in ("Equal", ""):
        if problems := label_value_problems(value):
            yield invalid(f"{path}.operator", value, ";".join(problems))
    elif operator == "Exists":
        if value:
            yield invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'")
    else:
        yield not_supported(f"{path}.operator", operator, ("Equal", "Exists"))
    if effect and effect not in EFFECTS:
        yield not_supported(f"{path}.effect", effect, EFFECTS)


def _validate_spread(constraints: list[Object], path: str) -> Iterator[Cause]:
    pairs = [(one.get("topologyKey") or "", one.get("whenUnsatisfiable") or "") for one in constraints]
    for index, (constraint, pair) in enumerate(zip(constraints, pairs, strict=True)):
        here = f"{path}[{index}]"
        yield from _validate_constraint(constraint, here)
        if pair in pairs[index + 1 :]:
            yield duplicate(f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{pair[0]}, {pair[1]}}}")


def _validate_constraint(constraint: Object, path: str) -> Iterator[Cause]:
    skew, key = constraint.get("maxSkew") or 0, constraint.get("topologyKey") or ""
    unsatisfiable, domains = constraint.get("whenUnsatisfiable"), constraint.get("minDomains")
    if skew <= 0:
        yield invalid(f"{path}.maxSkew", skew, "must be greater than zero")
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    else:
        yield from invalid_each(f"{path}.topologyKey", key, qualified_name_problems(key))
    yield from one_of(f"{path}.whenUnsatisfiable", unsatisfiable, _UNSATISFIABLE)
    if domains is not None and domains <= 0:
        yield invalid(f"{path}.minDomains", domains, "must be greater than zero")
    if domains is not None and unsatisfiable != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {unsatisfiable}"
        yield invalid(f"{path}.minDomains", domains, detail)
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if constraint.get(field) is not None and constraint[field] not in _INCLUSION:
            yield not_supported(f"{path}.{field}", constraint[field], _INCLUSION)
    yield from _validate_label_keys(constraint, "matchLabelKeys", path)
    yield from label_selector(f"{path}.labelSelector", constraint.get("labelSelector"))
