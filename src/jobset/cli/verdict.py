"""What admission says of a document, without running anything: accepted as what, or every problem with its place.

Unknown fields are refused, as kubectl does by default: a misspelt field would otherwise be lost in silence. JobSets are
judged by core/admission, the other kinds by the embedded API server's own rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from jobset.api.errors import ApiError, BadRequest, Cause
from jobset.api.field_errors import duplicate
from jobset.api.jobset_schema import JOBSET
from jobset.api.meta import Object
from jobset.api.resources import JOBSETS, NAMESPACES, PERSISTENT_VOLUME_CLAIMS, Resource
from jobset.api.schema import Schema
from jobset.api.structure import check_types, unknown_fields
from jobset.cli.manifest import BadManifest, Document, Problem
from jobset.core.admission.admit import admit_create, admit_update, decode
from jobset.core.admission.defaulting import default_jobset
from jobset.core.features import FeatureGates

_SERVER_OWNED = frozenset({"uid", "creationTimestamp", "resourceVersion", "generation", "managedFields"})


@dataclass(frozen=True, slots=True)
class Verdict:
    document: Document
    causes: tuple[Cause, ...] = ()
    object: Object | None = None
    """The object as it would be stored, when accepted."""

    @property
    def accepted(self) -> bool:
        return not self.causes

    def problems(self) -> list[Problem]:
        return [
            Problem(self.document.where(cause.field), cause.message, cause.field, cause.reason) for cause in self.causes
        ]


def schema_of(resource: Resource) -> Schema:
    if resource == JOBSETS:
        return {"$ref": f"#{JOBSET}"}
    from jobset.cluster.model.kinds.registry import KINDS

    return {"$ref": f"#{KINDS[resource].definition}"}


def judge_create(documents: Sequence[Document], gates: FeatureGates, namespace: str = "default") -> list[Verdict]:
    """The verdict on each document, in their order. `namespace` is for those that name none.

    Claims of the same manifest are taken as existing.
    """
    claims = {
        _name(document): document.object for document in documents if document.resource == PERSISTENT_VOLUME_CLAIMS
    }
    verdicts, seen = [], set()
    for document in documents:
        identity = (document.object["kind"], _namespace(document) or namespace, _name(document))
        if identity in seen and _name(document):
            verdicts.append(Verdict(document, (duplicate("metadata.name", _name(document)),)))
        elif document.resource == JOBSETS:
            verdicts.append(_verdict(document, partial(admit_create, gates=gates, existing_claims=claims)))
        else:
            admit = partial(_admit_builtin, resource=document.resource, namespace=namespace)
            verdicts.append(_verdict(document, admit))
        seen.add(identity)
    return verdicts


def judge_update(new: Document, old: Document, gates: FeatureGates) -> Verdict:
    """Whether a JobSet may become another, by replacing it or else by applying over its defaults.

    `old` may be as stored or as written; what is absent in it gets its default.
    """
    try:
        stored = admit_create(old.object, gates, {})
    except ApiError:
        stored = old.object
    replaced = _verdict(new, lambda obj: admit_update(obj, stored, gates))
    if replaced.accepted:
        return replaced
    return _verdict(new, lambda obj: admit_update(default_jobset(decode(obj)), stored, gates))


def admitted(documents: Sequence[Document], gates: FeatureGates, namespace: str = "default") -> list[Verdict]:
    """The verdicts, all accepted. Raises BadManifest with every problem of every document."""
    verdicts = judge_create(documents, gates, namespace)
    if problems := [problem for verdict in verdicts for problem in verdict.problems()]:
        raise BadManifest(problems)
    return verdicts


def _verdict(document: Document, admit: Callable[[Object], Object]) -> Verdict:
    causes = unknown_fields(document.object, schema_of(document.resource))
    admitted_object = None
    try:
        admitted_object = admit(document.object)
    except ApiError as error:
        causes += error.causes or [Cause(error.reason, error.message)]
    return Verdict(document, tuple(causes), None if causes else admitted_object)


def _admit_builtin(obj: Object, resource: Resource, namespace: str) -> Object:
    """Judged by an embedded API server of its own, which is thrown away."""
    if causes := check_types(obj, schema_of(resource)):
        raise BadRequest(f"{resource.kind} cannot be decoded", causes=causes)
    from jobset.cluster.apiserver.service import ApiService
    from jobset.cluster.store.memory import MemoryStore

    service = ApiService(MemoryStore(), now=lambda: datetime.fromtimestamp(0, UTC), seed=0)
    where = ((obj.get("metadata") or {}).get("namespace") or namespace) if resource.namespaced else ""
    if where and not service.exists(NAMESPACES, "", where):
        service.create(NAMESPACES, "", {"metadata": {"name": where}})
    stored = service.create(resource, where, obj)
    metadata = {name: value for name, value in stored["metadata"].items() if name not in _SERVER_OWNED}
    return {**stored, "metadata": metadata}


def _name(document: Document) -> str:
    return _of_metadata(document, "name")


def _namespace(document: Document) -> str:
    return _of_metadata(document, "namespace")


def _of_metadata(document: Document, field: str) -> str:
    metadata = document.object.get("metadata")
    value = metadata.get(field) if isinstance(metadata, dict) else None
    return value if isinstance(value, str) else ""
