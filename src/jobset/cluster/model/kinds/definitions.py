"""CustomResourceDefinition as the API server handles it. Pure.

What a definition means for its resources is custom.py. Its conditions (Established, NamesAccepted) are written by
whoever starts serving the resource.
"""

from __future__ import annotations

from jobset.api.meta import Object
from jobset.api.resources import CUSTOM_RESOURCE_DEFINITIONS
from jobset.cluster.model.kinds.copy_on_write import fill, put
from jobset.cluster.model.kinds.kind import Kind, Subresource


def default_definition(definition: Object) -> Object:
    spec = definition.get("spec") or {}
    names = spec.get("names") or {}
    kind = names.get("kind", "")
    names = fill(names, {"singular": kind.lower(), "listKind": f"{kind}List"} if kind else {})
    spec = fill(put(spec, "names", names), {"conversion": {"strategy": "None"}})
    return fill(
        put(definition, "spec", spec), {"status": {"conditions": None, "acceptedNames": {}, "storedVersions": None}}
    )


def keep_status(new: Object, old: Object) -> Object:
    return put(new, "status", old.get("status", {}))


def merge_status(new: Object, old: Object) -> Object:
    return put(put(new, "spec", old["spec"]), "status", new.get("status") or {})


CUSTOM_RESOURCE_DEFINITION = Kind(
    resource=CUSTOM_RESOURCE_DEFINITIONS,
    definition="io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    default=default_definition,
    prepare_update=keep_status,
    subresources={"status": Subresource(merge_status)},
    short_names=("crd", "crds"),
    categories=("api-extensions",),
)
