"""`jobset validate`: the verdict of admission on a manifest, as a create or as an update, without running anything."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from jobset.api.errors import Cause
from jobset.api.resources import JOBSETS
from jobset.cli.manifest import EXIT_BAD_INPUT, BadManifest, Document, Manifest, Problem, read_manifest
from jobset.cli.settings import apply_settings
from jobset.cli.verdict import Verdict, judge_create, judge_update
from jobset.core.features import FeatureGates


@click.command()
@click.argument("file", metavar="FILE|URL|-")
@click.option("--old", metavar="FILE", help="Judge FILE as an update of the JobSet in this one.")
@click.option("--set", "settings", multiple=True, metavar="PATH=VALUE", help="Change a field first; may be repeated.")
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", show_default=True)
def validate(file: str, old: str | None, settings: tuple[str, ...], output: str) -> None:
    """Say whether a manifest would be admitted, without running it.

    Exit code 0 when everything would be, 2 when not. Every problem is named with its place, its field and what to
    write.
    """
    try:
        manifest = read_manifest(file)
        verdicts = _judge(apply_settings(manifest.documents, settings), old)
    except BadManifest as error:
        if output == "json":
            click.echo(json.dumps([_refusal(problem) for problem in error.problems], indent=2))
            raise click.exceptions.Exit(EXIT_BAD_INPUT) from None
        raise
    if output == "json":
        click.echo(json.dumps([_as_json(verdict) for verdict in verdicts], indent=2))
    else:
        for note in manifest.notes:
            click.echo(f"note: {note}", err=True)
        _show(verdicts)
    if not all(verdict.accepted for verdict in verdicts):
        raise click.exceptions.Exit(EXIT_BAD_INPUT)


def _judge(documents: Sequence[Document], old: str | None) -> list[Verdict]:
    gates = FeatureGates()
    if old is None:
        return judge_create(documents, gates)
    return [judge_update(new, before, gates) for new, before in _pairs(documents, read_manifest(old))]


def _pairs(documents: Sequence[Document], old: Manifest) -> list[tuple[Document, Document]]:
    """Each JobSet with its former self, by name; a lone one of each side belongs together. Raises BadManifest."""
    after = [document for document in documents if document.resource == JOBSETS]
    before = [document for document in old.documents if document.resource == JOBSETS]
    by_name = {_name(document): document for document in before}
    if len(after) == len(before) == 1:
        return [(after[0], before[0])]
    if missing := [document for document in after if _name(document) not in by_name]:
        message = f"the old manifest has no JobSet {_name(missing[0])!r}"
        raise BadManifest([Problem(missing[0].where("metadata.name"), message, "metadata.name")])
    if not after:
        raise BadManifest([Problem(documents[0].source, "only JobSets can be judged as updates, and there is none")])
    return [(document, by_name[_name(document)]) for document in after]


def _show(verdicts: Sequence[Verdict]) -> None:
    for verdict in verdicts:
        document = verdict.document
        if verdict.accepted:
            click.echo(f"{document.where()}: {document.object['kind']} {_name(document)} is valid")
        for problem in verdict.problems():
            click.echo(f"error: {problem}", err=True)
        for problem in verdict.foreseen_problems():
            click.echo(f"warning: {problem}", err=True)


def _as_json(verdict: Verdict) -> dict[str, Any]:
    return {
        "accepted": verdict.accepted,
        "object": verdict.object,
        "causes": [_cause(cause) for cause in verdict.causes],
        "warnings": [_cause(cause) for cause in verdict.warnings],
    }


def _cause(cause: Cause) -> dict[str, str]:
    return {"field": cause.field, "reason": cause.reason, "message": cause.message}


def _refusal(problem: Problem) -> dict[str, Any]:
    """The verdict on input that holds no object to judge."""
    message = f"{problem.where}: {problem.message}"
    return {
        "accepted": False,
        "object": None,
        "causes": [{"field": problem.field, "reason": problem.reason, "message": message}],
        "warnings": [],
    }


def _name(document: Document) -> str:
    metadata = document.object.get("metadata")
    return str(metadata.get("name") or metadata.get("generateName") or "") if isinstance(metadata, dict) else ""
