"""JSON merge patch (RFC 7386): apply one, and find the one between two values. Pure, copy on write."""

from __future__ import annotations

from typing import Any

from jobset.api.meta import Object


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """`target` with `patch` applied. Shares what did not change; returns `target` itself when nothing did."""
    if not isinstance(patch, dict):
        return patch
    base: Object = target if isinstance(target, dict) else {}
    changed: Object | None = None if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            if key in base:
                changed = dict(base) if changed is None else changed
                changed.pop(key, None)
            continue
        old = base.get(key)
        new = apply_merge_patch(old, value)
        if new is not old and (key not in base or type(new) is not type(old) or new != old):
            changed = dict(base) if changed is None else changed
            changed[key] = new
    return target if changed is None else changed


def diff_merge_patch(old: Object, new: Object) -> Object:
    """The merge patch that turns `old` into `new`; empty when they are equal. Neither may hold null values."""
    patch: Object = {}
    for key in old.keys() - new.keys():
        patch[key] = None
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            if inner := diff_merge_patch(before, value):
                patch[key] = inner
        elif before != value or key not in old:
            patch[key] = value
    return patch
