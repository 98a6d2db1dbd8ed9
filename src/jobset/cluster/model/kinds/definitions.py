"""CustomResourceDefinition as the API server handles it. Pure.

What a definition means for its resources is custom.py. Its conditions (NamesAccepted, Established) are written by
whoever starts serving the resource.
"""

from __future__ import annotations

from typing import Any

from jobset.api.meta import Object
from jobset.api.resources import CUSTOM_RESOURCE_DEFINITIONS
from jobset.cluster.model.kinds.copy_on_write import fill, put
from jobset.cluster.model.kinds.definition_validation import (
    definition_warnings,
    validate_definition,
    validate_definition_update,
)
from jobset.cluster.model.kinds.kind import Kind, Subresource


def default_definition(definition: Object) -> Object:
    spec = definition.get("spec") or {}
    names = spec.get("names") or {}
    kind = names.get("kind", "")
    names = fill(names, {"singular": kind.lower(), "listKind": f"{kind}List"} if kind else {})
    return put(definition, "spec", fill(put(spec, "names", names), {"conversion": {"strategy": "None"}}))


def prepare_definition(definition: Object) -> Object:
    """A new definition: nothing served yet, the storage version about to be stored."""
    stored = [version["name"] for version in definition["spec"].get("versions") or () if version.get("storage")]
    names = {"plural": "", "kind": ""}
    return put(definition, "status", {"conditions": None, "acceptedNames": names, "storedVersions": stored or None})


def prepare_definition_update(new: Object, old: Object) -> Object:
    """Status stays, but for a new storage version: objects will be stored in it from now on."""
    status: dict[str, Any] = old.get("status") or {}
    stored = status.get("storedVersions") or []
    added = [
        one["name"] for one in new["spec"].get("versions") or () if one.get("storage") and one["name"] not in stored
    ]
    return put(new, "status", put(status, "storedVersions", [*stored, *added]) if added else status)


def merge_status(new: Object, old: Object) -> Object:
    return put(put(new, "spec", old["spec"]), "status", new.get("status") or {})


CUSTOM_RESOURCE_DEFINITION = Kind(
    resource=CUSTOM_RESOURCE_DEFINITIONS,
    definition="io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    default=default_definition,
    prepare_create=prepare_definition,
    prepare_update=prepare_definition_update,
    validate=validate_definition,
    validate_update=validate_definition_update,
    warnings=definition_warnings,
    subresources={"status": Subresource(merge_status)},
    short_names=("crd", "crds"),
    categories=("api-extensions",),
)
