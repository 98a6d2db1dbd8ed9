"""`jobset explain`: the objects that a manifest would bring about, each with its reason, without running anything."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

import click

from jobset.api import labels
from jobset.api.meta import Object
from jobset.api.resources import JOBSETS
from jobset.cli.manifest import BadManifest, Document, Problem, read_manifest
from jobset.cli.settings import apply_settings
from jobset.cli.verdict import admitted
from jobset.core.actions import CreateObject
from jobset.core.explain import explain_objects
from jobset.core.features import FeatureGates

PLACEHOLDER_UID = "00000000-0000-0000-0000-000000000000"
SHOWN_JOBS = 8


@click.command()
@click.argument("file", metavar="FILE|URL|-")
@click.option("--set", "settings", multiple=True, metavar="PATH=VALUE", help="Change a field first; may be repeated.")
@click.option("--namespace", "-n", default="default", show_default=True, help="Namespace of objects that name none.")
@click.option("--output", "-o", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
def explain(file: str, settings: tuple[str, ...], namespace: str, output: str) -> None:
    """Show the objects that the JobSets of a manifest would create, and why.

    The objects of --output json and yaml are complete but for the JobSet's uid, which only a cluster gives.
    """
    gates = FeatureGates()
    verdicts = admitted(apply_settings(read_manifest(file).documents, settings), gates, namespace)
    jobsets = [verdict for verdict in verdicts if verdict.document.resource == JOBSETS]
    if not jobsets:
        raise BadManifest([Problem(file, "holds no JobSet to explain")])
    found = [(each.document, explain_objects(_as_stored(each.object or {}, namespace), gates)) for each in jobsets]
    if output == "text":
        for document, actions in found:
            click.echo("\n".join(_lines(document, actions)))
        return
    explained = [
        {"reason": action.why.reason, "message": action.why.message, "object": action.body}
        for _, actions in found
        for action in actions
    ]
    if output == "json":
        click.echo(json.dumps(explained, indent=2))
    else:
        import yaml

        parts = [
            f"# {each['reason']}: {each['message']}\n{yaml.safe_dump(each['object'], sort_keys=False)}"
            for each in explained
        ]
        click.echo("---\n".join(parts), nl=False)


def _as_stored(admitted_object: Object, namespace: str) -> Object:
    """With what the API server would add and the objects refer to."""
    metadata = {"namespace": namespace, **admitted_object["metadata"], "uid": PLACEHOLDER_UID}
    metadata.setdefault("name", f"{metadata.get('generateName', '')}xxxxx")
    metadata["creationTimestamp"] = datetime.fromtimestamp(0, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {**admitted_object, "metadata": metadata}


def _lines(document: Document, actions: Sequence[CreateObject]) -> list[str]:
    lines = [f"JobSet {document.object['metadata'].get('name', '(generated name)')} would create:"]
    told: dict[str, int] = {}
    for action in actions:
        metadata = action.body["metadata"]
        group = (metadata.get("labels") or {}).get(labels.REPLICATED_JOB_NAME, "")
        told[group] = told.get(group, 0) + 1
        if group and told[group] > SHOWN_JOBS:
            continue
        lines.append(f"  {action.resource.kind:<22} {metadata['name']:<28} {_what(action.body)}")
        lines.append(f"    {action.why.message}")
    for group, count in told.items():
        if group and count > SHOWN_JOBS:
            lines.append(f"  … {count - SHOWN_JOBS} more Jobs of {group} (--output yaml shows all)")
    return lines


def _what(body: Object) -> str:
    """The one thing to know about an object besides its name."""
    spec = body.get("spec") or {}
    if body["kind"] == "Job":
        pods = spec.get("parallelism", 1)
        subdomain = spec["template"]["spec"].get("subdomain")
        host = f"{body['metadata']['name']}-0.{subdomain}" if subdomain else ""
        names = f", {host}" + (f" … -{pods - 1}.{subdomain}" if pods > 1 else "") if host else ""
        return f"{pods} pod{'s' if pods != 1 else ''} at once{names}"
    return str((spec.get("resources") or {}).get("requests", {}).get("storage", ""))
