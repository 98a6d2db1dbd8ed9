"""Which resource a CustomResourceDefinition brings about. Pure."""

from __future__ import annotations

from jobset.api.meta import Object
from jobset.api.resources import Resource


def resource_of(definition: Object) -> Resource | None:
    """The resource of the stored version, once the definition is established and as long as it is served."""
    spec = definition["spec"]
    established = any(
        condition.get("type") == "Established" and condition.get("status") == "True"
        for condition in definition.get("status", {}).get("conditions") or ()
    )
    version = next((one["name"] for one in spec["versions"] if one.get("storage") and one.get("served")), None)
    if not established or version is None:
        return None
    names = spec["names"]
    return Resource(spec["group"], version, names["plural"], names["kind"], spec.get("scope") == "Namespaced")
