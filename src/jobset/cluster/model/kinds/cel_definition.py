"""Whether the rules in CEL of a CustomResourceDefinition are in order. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from jobset.api.errors import Cause
from jobset.api.field_errors import invalid, not_supported, required
from jobset.api.meta import Object
from jobset.api.schema import Schema
from jobset.cluster.model.kinds.cel_expressions import Expression, NotCompiled, NotSupported, available
from jobset.cluster.model.kinds.cel_values import with_object_fields

KEY = "x-kubernetes-validations"
_REASONS = ("FieldValueRequired", "FieldValueForbidden", "FieldValueInvalid", "FieldValueDuplicate")
_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\['((?:[^'\\]|\\.)*)'\]")
UNENFORCED = "rules in x-kubernetes-validations are not enforced: the package cel-expr-python is not installed"


def rule_problems(schema: Schema, path: str) -> Iterator[Cause]:
    """Problems of all rules of a whole object's schema, which is structural."""
    yield from _problems(with_object_fields(schema), path, "")


def rule_warnings(schema: Schema, path: str) -> Iterator[str]:
    """What is accepted and will not be enforced."""
    if not available():
        if _any_rules(schema):
            yield UNENFORCED
        return
    for where, rule, of in _all_rules(with_object_fields(schema), path):
        try:
            Expression(rule.get("rule") or "", of, optional_old_self=bool(rule.get("optionalOldSelf")))
        except NotSupported as error:
            yield f"{where}.rule: not enforced: {error}"
        except NotCompiled:
            continue


def _any_rules(schema: Schema) -> bool:
    return next(_all_rules(schema, ""), None) is not None


def _children(schema: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    for name, child in (schema.get("properties") or {}).items():
        yield f"{path}.properties[{name}]", child
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield f"{path}.{key}", schema[key]


def _all_rules(schema: Schema, path: str) -> Iterator[tuple[str, Object, Schema]]:
    for index, rule in enumerate(schema.get(KEY) or ()):
        yield f"{path}.{KEY}[{index}]", rule, schema
    for here, child in _children(schema, path):
        yield from _all_rules(child, here)


def _problems(schema: Schema, path: str, uncorrelatable: str) -> Iterator[Cause]:
    """`uncorrelatable` is the list above whose items have no older counterparts, if there is one."""
    for index, rule in enumerate(schema.get(KEY) or ()):
        yield from _one_problems(rule, f"{path}.{KEY}[{index}]", schema, uncorrelatable)
    loose = schema.get("type") == "array" and schema.get("x-kubernetes-list-type") != "map"
    for here, child in _children(schema, path):
        below = uncorrelatable or (path if loose and here == f"{path}.items" else "")
        yield from _problems(child, here, below)


def _one_problems(rule: Object, path: str, schema: Schema, uncorrelatable: str) -> Iterator[Cause]:
    text, message = rule.get("rule") or "", rule.get("message")
    if not text.strip():
        yield required(f"{path}.rule", "rule is not specified")
    if message is not None and message != "" and not message.strip():
        yield invalid(f"{path}.message", message, "message must be non-empty if specified")
    elif message and "\n" in message.strip():
        yield invalid(f"{path}.message", message, "message must not contain line breaks")
    elif not (message or "").strip() and "\n" in text.strip():
        yield required(f"{path}.message", "message must be specified if rule contains line breaks")
    expression = rule.get("messageExpression")
    if expression and not expression.strip():
        yield required(f"{path}.messageExpression", "messageExpression must be non-empty if specified")
    if rule.get("reason") is not None and rule["reason"] not in _REASONS:
        yield not_supported(f"{path}.reason", rule["reason"], _REASONS)
    if rule.get("fieldPath") and not _leads_somewhere(rule["fieldPath"], schema):
        yield invalid(f"{path}.fieldPath", rule["fieldPath"], "fieldPath must be a valid path")
    if available() and text.strip():
        yield from _compile_problems(rule, path, schema, uncorrelatable)


def _compile_problems(rule: Object, path: str, schema: Schema, uncorrelatable: str) -> Iterator[Cause]:
    optional = bool(rule.get("optionalOldSelf"))
    try:
        compiled = Expression(rule["rule"], schema, optional_old_self=optional)
    except NotSupported:
        return
    except NotCompiled as error:
        yield _refused(f"{path}.rule", rule, f"compilation failed: {error}")
        return
    if compiled.result not in ("bool", "dyn"):
        yield _refused(f"{path}.rule", rule, "cel expression must evaluate to a bool")
    if rule.get("optionalOldSelf") is not None and not compiled.uses_old_self:
        detail = "may not be set if oldSelf is not used in rule"
        yield invalid(f"{path}.optionalOldSelf", rule["optionalOldSelf"], detail)
    if uncorrelatable and compiled.uses_old_self:
        detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelatable}"
        yield invalid(f"{path}.rule", rule["rule"], detail)
    if not (rule.get("messageExpression") or "").strip():
        return
    try:
        message = Expression(rule["messageExpression"], schema, optional_old_self=optional)
    except NotSupported:
        return
    except NotCompiled as error:
        yield _refused(f"{path}.messageExpression", rule, f"messageExpression compilation failed: {error}")
        return
    if message.result not in ("string", "dyn"):
        yield _refused(f"{path}.messageExpression", rule, "messageExpression must evaluate to a string")


def _refused(path: str, rule: Object, detail: str) -> Cause:
    """A problem of a rule, which is shown as the API server shows it."""
    keys = ("Rule", "Message", "MessageExpression", "Reason", "FieldPath", "OptionalOldSelf")
    absent = {"Reason": None, "OptionalOldSelf": None}
    said = {key: rule.get(key[0].lower() + key[1:], absent.get(key, "")) for key in keys}
    text = json.dumps(said, separators=(",", ":"), ensure_ascii=False)
    return Cause("FieldValueInvalid", f"Invalid value: {text}: {detail}", path)


def _leads_somewhere(field_path: str, schema: Schema) -> bool:
    """Whether a path such as .a['b-c'] goes along fields that the schema has."""
    position, current = 0, schema
    while position < len(field_path):
        step = _STEP.match(field_path, position)
        if step is None:
            return False
        name = step.group(1) or step.group(2).replace("\\'", "'").replace("\\\\", "\\")
        values = current.get("additionalProperties")
        found = (current.get("properties") or {}).get(name) or (values if isinstance(values, dict) else None)
        if found is None:
            return False
        position, current = step.end(), found
    return position > 0
