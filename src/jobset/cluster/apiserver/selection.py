"""Label and field selectors of a request as one test on objects. Pure."""

from __future__ import annotations

from jobset.api.errors import BadRequest
from jobset.api.meta import Object
from jobset.api.selectors import field_text, parse_field_selector, parse_label_selector
from jobset.cluster.apiserver.registry import Served
from jobset.cluster.store.port import Matches

_ALWAYS = ("metadata.name", "metadata.namespace")
_FALSE_WHEN_ABSENT = frozenset({"spec.unschedulable", "spec.hostNetwork"})


def selection(served: Served, label_selector: str, field_selector: str) -> Matches | None:
    """Whether a stored object fits both selectors; None when there is nothing to fit. BadRequest."""
    try:
        labels = parse_label_selector(label_selector) if label_selector else None
        fields = parse_field_selector(field_selector) if field_selector else None
    except ValueError as error:
        raise BadRequest(str(error)) from error
    if fields is not None:
        for path, _, _ in fields.terms:
            if path not in _ALWAYS and path not in served.kind.field_selectors:
                raise BadRequest(f"field label not supported: {path}")
    if labels is None and fields is None:
        return None
    terms = fields.terms if fields is not None else ()

    def matches(obj: Object) -> bool:
        if labels is not None and not labels.matches(obj["metadata"].get("labels")):
            return False
        if not terms:
            return True
        seen = served.outward(obj)
        return all((_selectable(seen, path) == value) is equal for path, value, equal in terms)

    return matches


def _selectable(obj: Object, path: str) -> str:
    """The text that a field selector compares: for some paths not simply the field."""
    if path in _FALSE_WHEN_ABSENT:
        return field_text(obj, path) or "false"
    if path == "status.successful":
        return field_text(obj, "status.succeeded") or "0"
    if path == "source":
        return field_text(obj, "source.component") or field_text(obj, "reportingComponent")
    return field_text(obj, path)
