"""Admission of a JobSet from start to end: decode, default, judge. Pure.

What an API server, its webhooks and the schema decide together in a cluster. The embedded API server, the operator's
webhooks and `jobset validate` all come here; unknown fields are their caller's to refuse, warn of or prune.
"""

from __future__ import annotations

from collections.abc import Mapping

from jobset.api.errors import BadRequest, Cause, Invalid
from jobset.api.jobset import API_VERSION, KIND
from jobset.api.meta import Object
from jobset.api.resources import JOBSETS
from jobset.api.structure import check_types, drop_nulls
from jobset.core.admission.defaulting import SCHEMA, default_jobset, default_lists
from jobset.core.admission.naming import metadata_problems
from jobset.core.admission.update import update_problems
from jobset.core.admission.validation import create_problems
from jobset.core.features import FeatureGates


def admit_create(obj: Object, gates: FeatureGates, existing_claims: Mapping[str, Object]) -> Object:
    """The JobSet as it is to be stored. `existing_claims`: claims of its namespace by name.

    Raises BadRequest for what cannot be decoded and Invalid for the rest, with all causes.
    """
    defaulted = default_jobset(decode(obj))
    causes = [*metadata_problems(defaulted), *create_problems(defaulted, gates, existing_claims)]
    if causes:
        raise invalid_jobset(defaulted, causes)
    return defaulted


def admit_update(new: Object, old: Object, gates: FeatureGates) -> Object:
    """`new` as it is to be stored in place of `old`. Raises as `admit_create`."""
    decoded = default_lists(decode(new))
    if causes := [*metadata_problems(decoded), *update_problems(decoded, default_lists(decode(old)), gates)]:
        raise invalid_jobset(decoded, causes)
    return decoded


def decode(obj: Object) -> Object:
    """`obj` with nulls taken as absent. Raises BadRequest when a value has the wrong type."""
    if not isinstance(obj, dict):
        raise BadRequest("a JobSet must be a mapping of fields")
    for field, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if obj.get(field) != expected:
            raise BadRequest(
                f"{field} is {obj.get(field)!r}, must be {expected!r}",
                causes=[Cause("FieldValueInvalid", f"must be {expected}", field)],
            )
    decoded: Object = drop_nulls(obj, SCHEMA)
    if causes := check_types(decoded, SCHEMA):
        listed = "; ".join(f"{cause.field}: {cause.message}" for cause in causes)
        raise BadRequest(f"JobSet cannot be decoded: {listed}", causes=causes)
    return decoded


def invalid_jobset(obj: Object, causes: list[Cause]) -> Invalid:
    name = obj.get("metadata", {}).get("name", "")
    listed = ", ".join(f"{cause.field}: {cause.message}" for cause in causes)
    message = f'{KIND}.{JOBSETS.group} "{name}" is invalid: {listed if len(causes) == 1 else f"[{listed}]"}'
    return Invalid(message, causes=causes, group=JOBSETS.group, kind=KIND, name=name)
