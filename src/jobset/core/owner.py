"""The owner reference by which a JobSet controls what it created. Pure."""

from __future__ import annotations

from jobset.api.jobset import API_VERSION, KIND, JobSet
from jobset.api.meta import Object


def owner_reference(jobset: JobSet) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": jobset.metadata.name,
        "uid": jobset.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
