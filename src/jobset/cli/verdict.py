"""What admission says of a document, without running anything: accepted as what, or every problem with its place.

Unknown fields are refused, as kubectl does by default: a misspelt field would otherwise be lost in silence. JobSets are
judged by core/admission, the other kinds by the embedded API server's own rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from jobset.api.errors import ApiError, BadRequest, Cause
from jobset.api.field_errors import duplicate
from jobset.api.jobset_schema import JOBSET
from jobset.api.meta import Object
from jobset.api.resources import JOBS, JOBSETS, NAMESPACES, PERSISTENT_VOLUME_CLAIMS, Resource
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
    warnings: tuple[Cause, ...] = ()
    """Why the Jobs of an accepted JobSet would be refused, when the controller creates them."""

    @property
    def accepted(self) -> bool:
        return not self.causes

    def problems(self) -> list[Problem]:
        return self._placed(self.causes)

    def foreseen_problems(self) -> list[Problem]:
        return self._placed(self.warnings)

    def _placed(self, causes: Sequence[Cause]) -> list[Problem]:
        return [Problem(self.document.where(cause.field), cause.message, cause.field, cause.reason) for cause in causes]


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
    """The verdicts, all accepted and without warnings: for those who are about to run the documents.

    Raises BadManifest with every problem of every document.
    """
    verdicts = judge_create(documents, gates, namespace)
    if problems := [one for verdict in verdicts for one in (*verdict.problems(), *verdict.foreseen_problems())]:
        raise BadManifest(problems)
    return verdicts


def _verdict(document: Document, admit: Callable[[Object], Object]) -> Verdict:
    causes = unknown_fields(document.object, schema_of(document.resource))
    admitted_object = None
    try:
        admitted_object = admit(document.object)
    except ApiError as error:
        causes += error.causes or [Cause(error.reason, error.message)]
    if causes or admitted_object is None:
        return Verdict(document, tuple(causes))
    warnings = _job_problems(admitted_object) if document.resource == JOBSETS else ()
    return Verdict(document, object=admitted_object, warnings=tuple(warnings))


def _job_problems(jobset: Object) -> Iterator[Cause]:
    """What Kubernetes will say of the Jobs made from each template, at its place in the JobSet."""
    from jobset.cluster.model.kinds.jobs import JOB

    claims = [
        template["metadata"]["name"]
        for policy in jobset["spec"].get("volumeClaimPolicies", ())
        for template in policy.get("templates", ())
    ]
    for index, replicated_job in enumerate(jobset["spec"].get("replicatedJobs", ())):
        metadata = {"name": f"job-{index}", "namespace": "default", "uid": "0"}
        spec = _with_claim_volumes(replicated_job["template"]["spec"], claims)
        job = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": metadata, "spec": spec}
        for cause in JOB.validate(JOB.prepare_create(JOB.default(job))):
            message = f"{cause.message} (Kubernetes refuses to create Jobs from this template)"
            yield Cause(cause.reason, message, f"spec.replicatedJobs[{index}].template.{cause.field}")


def _with_claim_volumes(job_spec: Object, claims: Sequence[str]) -> Object:
    """A Job's spec with the volumes that the controller adds."""
    if not claims:
        return job_spec
    pod_template = job_spec["template"]
    added = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    pod_spec = {**pod_template["spec"], "volumes": [*pod_template["spec"].get("volumes", ()), *added]}
    return {**job_spec, "template": {**pod_template, "spec": pod_spec}}


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
