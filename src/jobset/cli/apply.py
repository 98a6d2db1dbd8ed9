"""`jobset apply`: the objects of manifests, as their author wants them, to a cluster, by server-side apply.

What `jobset validate` would refuse is not sent. Objects of kinds that we do not know are sent as they are: the API
server judges them.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from jobset.api.errors import ApiError, Conflict, Forbidden, NotFound
from jobset.api.meta import Object
from jobset.api.resources import Resource
from jobset.cli.connection import Connection, in_words, on_cluster
from jobset.cli.documents import echo_objects, full_name
from jobset.cli.manifest import KINDS, BadManifest, Document, Problem, read_objects
from jobset.cli.verdict import judge_create
from jobset.client.requests import Request
from jobset.core.features import FeatureGates


@click.command()
@click.option("--filename", "-f", "files", multiple=True, required=True, metavar="FILE|URL|-", help="May be repeated.")
@click.option("--force-conflicts", is_flag=True, help="Take over fields that others have set.")
@click.option("--validate/--no-validate", default=True, help="Judge the objects before sending any.", show_default=True)
@click.option("--dry-run", is_flag=True, help="Let the cluster say what it would do.")
@click.option("--output", "-o", type=click.Choice(["text", "json", "yaml", "name"]), default="text", show_default=True)
@on_cluster
def apply(
    connection: Connection, files: tuple[str, ...], force_conflicts: bool, validate: bool, dry_run: bool, output: str
) -> None:
    """Create the objects of a manifest, or change them to what it says (server-side apply).

    Exit code 2 when the manifest cannot be used and nothing was sent, 1 when the cluster refused something.
    """
    documents = [document for file in files for document in read_objects(file)]
    _check(documents, connection, validate=validate)
    applier = _Applier(connection, force=force_conflicts, dry_run=dry_run)
    applied: list[Object] = []
    for document in documents:
        try:
            obj, word = applier.apply(document)
        except ApiError as error:
            _show_refusal(document, error, connection)
            continue
        applied.append(obj)
        if output == "text":
            click.echo(f"{full_name(obj)} {word}{' (dry run)' if dry_run else ''}")
    echo_objects(applied, output)
    if len(applied) < len(documents):
        raise click.exceptions.Exit(1)


def _check(documents: Sequence[Document], connection: Connection, *, validate: bool) -> None:
    """Raises BadManifest with everything that can be known to be wrong before anything is sent."""
    problems = [problem for document in documents if (problem := _identity_problem(document, connection))]
    if validate and not problems:
        known = [document for document in documents if _known(document)]
        for verdict in judge_create(known, FeatureGates(), connection.namespace):
            problems += verdict.problems()
            for warning in verdict.foreseen_problems():
                click.echo(f"warning: {warning}", err=True)
    if problems:
        raise BadManifest(problems)


def _identity_problem(document: Document, connection: Connection) -> Problem | None:
    metadata = document.object.get("metadata")
    if not isinstance(metadata, dict):
        return Problem(document.where("metadata"), "Required value", "metadata", "FieldValueRequired")
    if not isinstance(metadata.get("name"), str):
        message = "apply needs a name"
        if metadata.get("generateName"):
            message += "; kubectl create makes one from generateName"
        return Problem(document.where("metadata"), message, "metadata.name", "FieldValueRequired")
    named = metadata.get("namespace")
    if connection.insists and named and named != connection.namespace:
        message = f"is {named}, and --namespace is {connection.namespace}"
        return Problem(document.where("metadata.namespace"), message, "metadata.namespace")
    return None


def _known(document: Document) -> bool:
    resource = KINDS.get(document.object["kind"])
    return resource is not None and resource.api_version == document.object["apiVersion"]


def _show_refusal(document: Document, error: ApiError, connection: Connection) -> None:
    name = f"{document.object['kind']} {document.object['metadata']['name']}"
    for line in in_words(error, connection).splitlines():
        click.echo(f"error: {document.where()}: {name}: {line}", err=True)
    if isinstance(error, Conflict):
        click.echo("  --force-conflicts takes over fields that others have set", err=True)


class _Applier:
    """Sends documents."""

    def __init__(self, connection: Connection, *, force: bool, dry_run: bool) -> None:
        self._connection = connection
        self._force = force
        self._dry_run = dry_run
        self._found: dict[tuple[str, str], Resource] = {}

    def apply(self, document: Document) -> tuple[Object, str]:
        """The object as it is now, and what that is compared to before."""
        resource = self._resource(document)
        metadata = document.object["metadata"]
        namespace = (metadata.get("namespace") or self._connection.namespace) if resource.namespaced else ""
        place = {"namespace": namespace} if namespace else {}
        body = {**document.object, "metadata": {**metadata, **place}}
        before = self._before(resource, namespace, metadata["name"])
        query = self._connection.query
        after = query.patch(
            resource, namespace, metadata["name"], body, "apply", force=self._force, dry_run=self._dry_run
        )
        if before is None:
            return after, "applied"
        if not before:
            return after, "created"
        return after, "unchanged" if _wanted(before) == _wanted(after) else "configured"

    def _before(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Empty when there was none, None when we may not know."""
        try:
            return self._connection.query.get(resource, namespace, name)
        except NotFound as error:
            if not error.name:
                raise
            return {}
        except Forbidden:
            return None

    def _resource(self, document: Document) -> Resource:
        """Asks the server about kinds that we do not know. NotFound."""
        if _known(document):
            return document.resource
        version, kind = document.object["apiVersion"], document.object["kind"]
        if (version, kind) not in self._found:
            group, _, short = version.rpartition("/")
            answer = self._connection.query.send(Request("GET", f"/apis/{version}" if group else f"/api/{version}"))
            for each in answer.get("resources") or ():
                if "/" not in each["name"]:
                    self._found[version, each["kind"]] = Resource(
                        group, short, each["name"], each["kind"], each["namespaced"]
                    )
        if (version, kind) not in self._found:
            raise NotFound(f"this cluster knows no {kind} of {version}", name=kind)
        return self._found[version, kind]


def _wanted(obj: Object) -> Object:
    """Without what controllers write meanwhile, and without who wrote what."""
    metadata = {
        name: value for name, value in obj["metadata"].items() if name not in ("resourceVersion", "managedFields")
    }
    return {**{name: value for name, value in obj.items() if name != "status"}, "metadata": metadata}
