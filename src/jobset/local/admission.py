"""JobSet as a kind of the embedded API server: the admission of `core`, which a real cluster gets through webhooks."""

from __future__ import annotations

from jobset.api.jobset_schema import JOBSET
from jobset.api.meta import Object
from jobset.api.resources import JOBSETS, PERSISTENT_VOLUME_CLAIMS
from jobset.api.schema import definition
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.model.kinds.kind import Kind, Subresource
from jobset.core.admission.admit import admit_create, admit_update
from jobset.core.features import FeatureGates


def _without_status(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key != "status"}


def _with_old_status(new: Object, old: Object) -> Object:
    kept = _without_status(new)
    return {**kept, "status": old["status"]} if "status" in old else kept


def _only_status(new: Object, old: Object) -> Object:
    return {**old, "metadata": new["metadata"], "status": new.get("status", {})}


JOBSET_KIND = Kind(
    JOBSETS,
    schema=definition(JOBSET),
    prepare_create=_without_status,
    prepare_update=_with_old_status,
    subresources={"status": Subresource(_only_status)},
)


class JobSetAdmission:
    """Admits JobSets; claims that exist already are looked up in the same service."""

    def __init__(self, service: ApiService, gates: FeatureGates) -> None:
        self._service = service
        self._gates = gates

    def create(self, obj: Object) -> Object:
        claims = self._service.list(PERSISTENT_VOLUME_CLAIMS, obj["metadata"].get("namespace", "")).items
        return admit_create(obj, self._gates, {claim["metadata"]["name"]: claim for claim in claims})

    def update(self, new: Object, old: Object) -> Object:
        return admit_update(new, old, self._gates)
