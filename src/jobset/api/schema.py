"""Schemas of the Kubernetes types, as data: structure, merge keys, list types. Pure.

The definitions are generated (tools/generate_schemas.py) in JSON Schema form; `{"$ref": "#NAME"}` names another one.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

import msgspec

from jobset.api import jobset_schema
from jobset.api.generated import kubernetes

Schema: TypeAlias = dict[str, Any]

KUBERNETES_VERSION = kubernetes.VERSION


@cache
def definitions() -> dict[str, Schema]:
    """All definitions by full name, such as io.k8s.api.core.v1.Pod; JobSet's own among them."""
    kubernetes_types = msgspec.json.decode(kubernetes.DEFINITIONS_JSON, type=dict[str, Any])
    return kubernetes_types | jobset_schema.DEFINITIONS


def definition(name: str) -> Schema:
    return definitions()[name]


def resolve(schema: Schema) -> Schema:
    """`schema` itself, or what it refers to."""
    reference = schema.get("$ref")
    return definitions()[reference[1:]] if reference else schema
