"""Whether the rules in CEL of a CustomResourceDefinition are in order. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator

from jobset.api.errors import Cause
from jobset.api.field_errors import invalid, not_supported, required
from jobset.api.meta import Object
from jobset.api.schema import Schema
from jobset.cluster.model.kinds.cel_expressions import Expression, NotCompiled, NotSupported, available
from jobset.cluster.model.kinds.cel_rules import normalized_path
from jobset.cluster.model.kinds.cel_values import with_object_fields

KEY = "x-kubernetes-validations"
_REASONS = ("FieldValueRequired", "FieldValueForbidden", "FieldValueInvalid", "FieldValueDuplicate")
UNENFORCED = "rules in x-kubernetes-validations are not enforced: the package cel-expr-python is not installed"


def rule_problems(schema: Schema, path: str) -> Iterator[Cause]:
    """Problems of all rules of a whole object's schema, which is structural."""
    whole = with_object_fields(schema)
    yield from _problems(whole, whole, path, "")


def rule_warnings(schema: Schema, path: str) -> Iterator[str]:
    """What is accepted and will not be enforced."""
    if not available():
        if _any_rules(schema):
            yield UNENFORCED
        return
    whole = with_object_fields(schema)
    for where, rule, of in _all_rules(whole, whole, path):
        try:
            Expression(rule.get("rule") or "", of, optional_old_self=bool(rule.get("optionalOldSelf")))
        except NotSupported as error:
            yield f"{where}.rule: not enforced: {error}"
        except NotCompiled:
            continue


def _any_rules(schema: Schema) -> bool:
    return next(_all_rules(schema, schema, ""), None) is not None


def _children(schema: Schema, shape: Schema, path: str) -> Iterator[tuple[str, Schema, Schema]]:
    """(path, schema, the schema around it if it is part of an allOf) of all parts of a schema."""
    fields = shape.get("properties") or {}
    for name, child in (schema.get("properties") or {}).items():
        if name in fields:
            yield f"{path}.properties[{name}]", child, fields[name]
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict) and isinstance(shape.get(key), dict):
            yield f"{path}.{key}", schema[key], shape[key]
    for index, part in enumerate(schema.get("allOf") or ()):
        yield f"{path}.allOf[{index}]", part, shape


def _all_rules(schema: Schema, shape: Schema, path: str) -> Iterator[tuple[str, Object, Schema]]:
    for index, rule in enumerate(schema.get(KEY) or ()):
        yield f"{path}.{KEY}[{index}]", rule, shape
    for here, child, around in _children(schema, shape, path):
        yield from _all_rules(child, around, here)


def _problems(schema: Schema, shape: Schema, path: str, uncorrelatable: str) -> Iterator[Cause]:
    """`uncorrelatable` is the list above whose items have no older counterparts, if there is one."""
    for index, rule in enumerate(schema.get(KEY) or ()):
        yield from _one_problems(rule, f"{path}.{KEY}[{index}]", shape, uncorrelatable)
    loose = shape.get("type") == "array" and shape.get("x-kubernetes-list-type") != "map"
    for here, child, around in _children(schema, shape, path):
        below = uncorrelatable or (path if loose and here == f"{path}.items" else "")
        yield from _problems(child, around, here, below)


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
    if rule.get("fieldPath") and normalized_path(rule["fieldPath"], schema) is None:
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
