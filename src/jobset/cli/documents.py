"""Objects for programs, as kubectl prints them: JSON and YAML without managed fields, or their full names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from jobset.api.meta import Object


def as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def as_yaml(value: Any) -> str:
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return str(yaml.dump(value, Dumper=dumper, sort_keys=False, allow_unicode=True, width=1000)).rstrip("\n")


def printed(value: Any, output: str) -> str:
    return as_yaml(value) if output == "yaml" else as_json(value)


def without_managed_fields(obj: Object) -> Object:
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


def list_of(items: Sequence[Object]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "List",
        "metadata": {"resourceVersion": ""},
        "items": [without_managed_fields(item) for item in items],
    }


def full_name(obj: Object) -> str:
    """As kubectl names objects, and reads them again: kind.group/name."""
    group, _, _ = obj["apiVersion"].rpartition("/")
    return ".".join(part for part in (obj["kind"].lower(), group) if part) + f"/{obj['metadata']['name']}"


def echo_objects(objects: Sequence[Object], output: str) -> None:
    """For programs: a lone object as itself, several as a list. Nothing for people, and nothing of nothing."""
    if not objects or output == "text":
        return
    if output == "name":
        click.echo("\n".join(map(full_name, objects)))
    else:
        click.echo(printed(without_managed_fields(objects[0]) if len(objects) == 1 else list_of(objects), output))
