"""JobSet in the embedded API server: its definition, and the admission that webhooks bring to a real cluster."""

from __future__ import annotations

from jobset.api.meta import Object
from jobset.api.resources import CUSTOM_RESOURCE_DEFINITIONS, JOBSETS, PERSISTENT_VOLUME_CLAIMS
from jobset.cluster.apiserver.service import ApiService
from jobset.core.admission.admit import admit_create, admit_update
from jobset.core.admission.crd import custom_resource_definition
from jobset.core.features import FeatureGates


def serve_jobsets(service: ApiService, gates: FeatureGates) -> None:
    """Install the definition, or bring an older one up to date, and admit JobSets from now on."""
    service.admit(JOBSETS, JobSetAdmission(service, gates))
    wanted = custom_resource_definition()
    name = wanted["metadata"]["name"]
    if not service.exists(CUSTOM_RESOURCE_DEFINITIONS, "", name):
        service.create(CUSTOM_RESOURCE_DEFINITIONS, "", wanted)
        return
    there = service.get(CUSTOM_RESOURCE_DEFINITIONS, "", name)
    if there["spec"] != wanted["spec"]:
        service.update(CUSTOM_RESOURCE_DEFINITIONS, "", name, {**there, "spec": wanted["spec"]})


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
