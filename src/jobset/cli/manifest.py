"""Manifests as users give them: a file, a URL or standard input, with one or more documents of the kinds we can run.

Reads and sorts only; whether an object is admissible is decided by verdict.py. Every problem becomes one line that
names the source, the line when it is known, and the field.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from jobset.api import resources
from jobset.api.field_errors import suggestion
from jobset.api.resources import Resource
from jobset.client.yaml_reader import NotReadable, read_documents

MAX_BYTES = 10 * 1024 * 1024
URL_TIMEOUT_S = 30
EXIT_BAD_INPUT = 2
_EMPTY = "is empty: there is no object in it"

KINDS: Mapping[str, Resource] = {
    resource.kind: resource
    for resource in (
        resources.JOBSETS, resources.JOBS, resources.PODS, resources.CONFIG_MAPS, resources.SECRETS,
        resources.PERSISTENT_VOLUME_CLAIMS, resources.SERVICES, resources.SERVICE_ACCOUNTS, resources.NAMESPACES,
        resources.PRIORITY_CLASSES,
    )
}  # fmt: skip
LEFT_OUT = frozenset({
    "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "NetworkPolicy", "PodDisruptionBudget", "ResourceQuota",
    "LimitRange", "Queue", "LocalQueue", "ClusterQueue", "ResourceFlavor", "WorkloadPriorityClass", "Topology",
    "PodMonitoring", "PodMonitor", "ServiceMonitor", "RuntimeClass", "StorageClass", "ComputeClass",
})  # fmt: skip
"""Kinds that people keep next to their JobSets and that mean nothing on one machine."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a manifest. `where` is `source:line` or `source`."""

    where: str
    message: str
    field: str = ""
    reason: str = "FieldValueInvalid"

    def __str__(self) -> str:
        return ": ".join(part for part in (self.where, self.field, self.message) if part)


class BadManifest(click.ClickException):
    """The input cannot be used. Shown one problem a line; the command ends with exit code 2."""

    exit_code = EXIT_BAD_INPUT

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)

    def show(self, file: Any = None) -> None:
        for problem in self.problems:
            click.echo(f"error: {problem}", file=file, err=file is None)


@dataclass(frozen=True, slots=True)
class Document:
    """One object of a manifest, as written, and where it stands."""

    object: Any
    source: str
    line: int = 1
    lines: Mapping[str, int] = field(default_factory=dict)
    """Line of each field by its path."""

    @property
    def resource(self) -> Resource:
        return KINDS[self.object["kind"]]

    def where(self, path: str = "") -> str:
        """`source:line` of a field; of what it would stand in when it is not there."""
        while path and path not in self.lines:
            cut = max(path.rfind("."), path.rfind("["))
            path = path[:cut] if cut > 0 else ""
        return f"{self.source}:{self.lines.get(path, self.line)}"


@dataclass(frozen=True, slots=True)
class Manifest:
    documents: tuple[Document, ...]
    notes: tuple[str, ...] = ()
    """What was left out, for the user to know."""


def read_manifest(source: str) -> Manifest:
    """`source`: a file's path, an http(s) URL, or `-`. Raises BadManifest."""
    documents: list[Document] = []
    problems: list[Problem] = []
    notes: list[str] = []
    for document in _all(source):
        if problem := _kind_problem(document):
            problems.append(problem)
        elif document.object["kind"] in LEFT_OUT:
            notes.append(f"{document.where()}: {document.object['kind']} means nothing on one machine: left out")
        else:
            documents.append(document)
    if not problems and not documents:
        problems.append(Problem(source_name(source), "holds nothing to run" if notes else _EMPTY))
    if problems:
        raise BadManifest(problems)
    return Manifest(tuple(documents), tuple(notes))


def read_objects(source: str) -> list[Document]:
    """The objects of a manifest, of whatever kinds. Raises BadManifest."""
    documents = list(_all(source))
    problems = [problem for document in documents if (problem := _shape_problem(document))]
    if not documents:
        problems.append(Problem(source_name(source), _EMPTY))
    if problems:
        raise BadManifest(problems)
    return documents


def _all(source: str) -> Iterator[Document]:
    """Every document, whatever it holds; the items of lists are documents too. Raises BadManifest."""
    name = source_name(source)
    try:
        parsed = read_documents(_text(_bytes(source), name))
    except NotReadable as error:
        position = f":{error.line}:{error.column}" if error.line else ""
        raise BadManifest([Problem(f"{name}{position}", error.message)]) from None
    for one in parsed:
        yield from _items(Document(one.value, name, one.line, one.lines))


def source_name(source: str) -> str:
    return "standard input" if source == "-" else source


def _bytes(source: str) -> bytes:
    try:
        if source == "-":
            content = sys.stdin.buffer.read(MAX_BYTES + 1)
        elif source.startswith(("http://", "https://")):
            content = _from_url(source)
        elif "://" in source:
            raise BadManifest([Problem(source, "only http and https addresses can be read")])
        else:
            with Path(source).open("rb") as file:
                content = file.read(MAX_BYTES + 1)
    except IsADirectoryError:
        raise BadManifest([Problem(source, "is a directory; name a file in it")]) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise BadManifest([Problem(source, f"cannot be read: {reason}")]) from None
    if len(content) > MAX_BYTES:
        raise BadManifest([Problem(source, f"is larger than {MAX_BYTES >> 20} MiB, too large for a manifest")])
    return content


def _from_url(source: str) -> bytes:
    import urllib.error  # only here: loading it takes as long as reading most manifests
    import urllib.request

    try:
        with urllib.request.urlopen(source, timeout=URL_TIMEOUT_S) as response:
            content: bytes = response.read(MAX_BYTES + 1)
            return content
    except urllib.error.HTTPError as error:
        raise BadManifest([Problem(source, f"the server answers {error.code} {error.reason}")]) from None


def _text(content: bytes, name: str) -> str:
    encoding = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise BadManifest([Problem(name, f"is not text in UTF-8 (byte {error.start + 1} is not)")]) from None


def _items(document: Document) -> Iterator[Document]:
    """The document itself, or what a `kind: List` holds."""
    obj = document.object
    if not isinstance(obj, dict) or obj.get("kind") != "List" or not isinstance(obj.get("items"), list):
        yield document
        return
    for index, item in enumerate(obj["items"]):
        prefix = f"items[{index}]"
        lines = {
            path.removeprefix(prefix).lstrip("."): line
            for path, line in document.lines.items()
            if path.startswith((f"{prefix}.", f"{prefix}["))
        }
        yield Document(item, document.source, document.lines.get(prefix, document.line), lines)


def _kind_problem(document: Document) -> Problem | None:
    """What keeps a document from being an object we can run; its spec is not looked at."""
    if problem := _shape_problem(document):
        return problem
    kind, version = document.object["kind"], document.object["apiVersion"]
    if kind in LEFT_OUT:
        return None
    if kind not in KINDS:
        known = ", ".join(sorted(KINDS))
        message = f"{kind} cannot run here{suggestion(kind, KINDS)}; kinds are: {known}"
        return Problem(document.where("kind"), message, "kind", "FieldValueNotSupported")
    if version != KINDS[kind].api_version:
        message = f"{version!r} is no version of {kind} that is known here; write {KINDS[kind].api_version}"
        return Problem(document.where("apiVersion"), message, "apiVersion", "FieldValueNotSupported")
    return None


def _shape_problem(document: Document) -> Problem | None:
    """What keeps a document from being an object of any kind."""
    obj = document.object
    if not isinstance(obj, dict):
        what = "a list" if isinstance(obj, list) else "a single value"
        return Problem(document.where(), f"is {what}, not an object with apiVersion, kind, metadata and spec")
    for name, example in (("kind", resources.JOBSETS.kind), ("apiVersion", resources.JOBSETS.api_version)):
        if obj.get(name) is None:
            return Problem(document.where(), f"Required value: such as {example}", name, "FieldValueRequired")
        if not isinstance(obj[name], str):
            return Problem(document.where(name), "must be text", name, "FieldValueTypeInvalid")
    return None
