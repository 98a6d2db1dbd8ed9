"""`--set path=value`: single fields of a manifest changed from the command line, checked against the schema. Pure.

Paths are written as in error messages: `spec.suspend=true`, `spec.replicatedJobs[workers].replicas=4` (or `[0]`),
`metadata.labels["example.com/team"]=ml`. Values are YAML; `null` removes the field; where the schema wants text, the
value is text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from msgspec import Struct

from jobset.api.field_errors import suggestion
from jobset.api.meta import Object
from jobset.api.resources import JOBS, JOBSETS, PODS, Resource
from jobset.api.structure import Structure, structure_of
from jobset.cli.manifest import BadManifest, Document, Problem
from jobset.cli.verdict import schema_of
from jobset.client.yaml_reader import NotReadable, read_value

_SEGMENT = re.compile(r"""\.?([A-Za-z0-9_-]+)|\[(?:"([^"]+)"|'([^']+)'|([^\]"']+))\]""")


class Setting(Struct, frozen=True):
    text: str
    path: tuple[str, ...]
    value: str


class NoSuchPath(ValueError):
    """A path that the schema or the object does not have."""


def parse_setting(text: str) -> Setting:
    """`path=value`. Raises BadManifest."""
    position, path = 0, []
    while match := _SEGMENT.match(text, position):
        path.append(next(group for group in match.groups() if group is not None))
        position = match.end()
    if not path or text[position : position + 1] != "=":
        raise _refused(text, "write path=value, such as spec.replicatedJobs[workers].replicas=4")
    return Setting(text, tuple(path), text[position + 1 :])


def apply_settings(documents: Sequence[Document], texts: Sequence[str]) -> tuple[Document, ...]:
    """The documents with all settings applied, in order.

    Settings are for the workload: the JobSets if there are any, else the Jobs, else the Pods. With several of them each
    gets the settings whose path it has. Raises BadManifest.
    """
    result = list(documents)
    kind = _workload_kind(documents)
    for setting in map(parse_setting, texts):
        reasons, applied = [], False
        for index, document in enumerate(result):
            if document.resource != kind:
                continue
            try:
                result[index] = replace(document, object=_set(document, setting))
                applied = True
            except NoSuchPath as error:
                reasons.append(str(error))
        if not applied:
            raise _refused(setting.text, reasons[0] if reasons else "there is no JobSet, Job or Pod to set it on")
    return tuple(result)


def _workload_kind(documents: Sequence[Document]) -> Resource:
    present = {document.resource for document in documents}
    return next((kind for kind in (JOBSETS, JOBS, PODS) if kind in present), JOBSETS)


def _set(document: Document, setting: Setting) -> Object:
    structure = structure_of(schema_of(document.resource))
    changed: Object = _changed(document.object, structure, setting, 0)
    return changed


def _changed(value: Any, structure: Structure | None, setting: Setting, depth: int) -> Any:
    """`value` with what lies at the rest of the path changed; copies what it changes."""
    if depth == len(setting.path):
        return _read(setting, structure)
    segment = setting.path[depth]
    here = ".".join(setting.path[:depth]) or "the object"
    if structure is not None and structure.kind == "array":
        return _changed_item(value if isinstance(value, list) else [], structure, setting, depth)
    child = None
    if structure is not None and structure.scalar is not None:
        raise NoSuchPath(f"{here} has no fields")
    if structure is not None:
        child = structure.child(segment) or structure.each()
        if child is None and not structure.free:
            raise NoSuchPath(f"{here} has no field {segment!r}{suggestion(segment, structure.properties)}")
    fields = value if isinstance(value, dict) else {}
    new = _changed(fields.get(segment), child, setting, depth + 1)
    if new is None:
        return {name: item for name, item in fields.items() if name != segment}
    return {**fields, segment: new}


def _changed_item(items: list[Any], structure: Structure, setting: Setting, depth: int) -> list[Any]:
    segment = setting.path[depth]
    here = ".".join(setting.path[:depth])
    key = structure.list_keys[0] if len(structure.list_keys) == 1 else "name"
    names = [item.get(key) for item in items if isinstance(item, dict)]
    if segment in names:
        index = names.index(segment)
    elif segment.isdecimal() and int(segment) < len(items):
        index = int(segment)
    else:
        listed = ", ".join(str(name) for name in names if name) or "none"
        raise NoSuchPath(f"{here} has no item {segment!r}; there are {len(items)}: {listed}")
    new = _changed(items[index], structure.each(), setting, depth + 1)
    return [*items[:index], *([] if new is None else [new]), *items[index + 1 :]]


def _read(setting: Setting, structure: Structure | None) -> Any:
    if structure is not None and structure.kind in ("string", "quantity"):
        return setting.value
    try:
        return read_value(setting.value)
    except NotReadable as error:
        raise _refused(setting.text, f"the value {error.message}") from None


def _refused(text: str, message: str) -> BadManifest:
    return BadManifest([Problem(f"--set {text}", message)])
