"""What the commands against a cluster have in common: options that say which, the connection, and errors in words.

    @click.command()
    @on_cluster
    def suspend(connection: Connection, ...): ...

Nothing is sent before a command asks something.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import click
from click.shell_completion import CompletionItem
from msgspec import Struct

from jobset.api.errors import ApiError, Forbidden, NotFound, Unauthorized
from jobset.api.field_errors import suggestion
from jobset.api.meta import Object
from jobset.api.resources import JOBSETS, NAMESPACES
from jobset.cli.clock import now_utc
from jobset.client.credentials import Credentials
from jobset.client.kubeconfig import BadKubeconfig, Target, context_names, load_target
from jobset.client.query import QueryClient, Unreachable

COMPLETION_PATIENCE_S = 1.0
SHOWN_NAMES = 5
_KIND_WORDS = ("jobset", "jobsets", f"jobset.{JOBSETS.group}", str(JOBSETS))


class CommandFailed(click.ClickException):
    """Shown as `error: ...`, one line for each problem; the command ends with exit code 1, as kubectl does."""

    def show(self, file: Any = None) -> None:
        for line in self.message.splitlines():
            click.echo(f"error: {line}", file=file, err=file is None)


class Connection(Struct, frozen=True):
    """`insists`: the namespace was asked for, not taken from the context."""

    query: QueryClient
    target: Target
    namespace: str
    insists: bool = False

    def jobset(self, name: str) -> Object:
        """The JobSet of this name in the chosen namespace. NotFound."""
        return self.query.get(JOBSETS, self.namespace, name)


def connect(kubeconfig: str | None, context: str | None, namespace: str | None, timeout_s: float = 30.0) -> Connection:
    """The cluster that the options choose; nothing is sent yet. CommandFailed when they choose none."""
    try:
        target = load_target(os.environ, kubeconfig=kubeconfig or "", context=context or "")
    except BadKubeconfig as error:
        raise CommandFailed(f"{error}{_first_steps(kubeconfig)}") from error
    credentials = Credentials(target.login, now=now_utc)
    query = QueryClient(target, credentials, timeout_s=timeout_s, on_warning=_warn)
    return Connection(query, target, namespace or target.namespace, bool(namespace))


def _first_steps(kubeconfig: str | None) -> str:
    """For who has no cluster yet."""
    try:
        known = context_names(os.environ, kubeconfig=kubeconfig or "")
    except BadKubeconfig:
        return ""
    return "" if known else "\nno cluster? jobset up starts one on this machine, jobset kubeconfig --merge names it"


def _warn(text: str) -> None:
    click.echo(f"warning: {text}", err=True)


def on_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that choose a cluster, and a `connection` instead of them."""

    @click.option("--kubeconfig", metavar="FILE", help="Instead of $KUBECONFIG or ~/.kube/config.")
    @click.option("--context", metavar="NAME", shell_complete=complete_contexts, help="Instead of the current context.")
    @click.option("--namespace", "-n", metavar="NAME", shell_complete=complete_namespaces,
                  help="Instead of the context's namespace.")  # fmt: skip
    @wraps(command)
    def connected(kubeconfig: str | None, context: str | None, namespace: str | None, **rest: Any) -> None:
        connection = connect(kubeconfig, context, namespace)
        try:
            command(connection=connection, **rest)
        except ApiError as error:
            raise CommandFailed(in_words(error, connection)) from error
        except BadKubeconfig as error:  # a file that it names cannot be used
            raise CommandFailed(str(error)) from error

    return connected


def in_words(error: ApiError, connection: Connection) -> str:
    """What an error means to the person at the keyboard."""
    if isinstance(error, Unreachable):
        local = "127.0.0.1" in error.server or "localhost" in error.server
        hint = "; is it running? (jobset up starts one here)" if local and error.cause == "connection refused" else ""
        return f"{error.message} ({connection.target.where}){hint}"
    if isinstance(error, Unauthorized):
        return f"the cluster does not accept your credentials ({connection.target.where}): {error.message}"
    if isinstance(error, NotFound) and not error.name:
        return f"this cluster does not know JobSets ({connection.target.where}): install JobSet on it first"
    if isinstance(error, NotFound) and error.kind == JOBSETS.plural:
        return (
            f"there is no JobSet {error.name} in namespace {connection.namespace}{_elsewhere(error.name, connection)}"
        )
    if isinstance(error, Forbidden) and not error.causes:
        return f"not allowed ({connection.target.where}): {error.message}"
    if error.causes:
        return "\n".join(f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in error.causes)
    return error.message


def _elsewhere(name: str, connection: Connection) -> str:
    """Where a missing JobSet may be, or what its name may be."""
    try:
        here = _names(connection.query, connection.namespace)
        if close := suggestion(name, here):
            return close
        everywhere = connection.query.list(JOBSETS, field_selector=f"metadata.name={name}").items
        if everywhere:
            return f"; there is one in namespace {everywhere[0]['metadata']['namespace']}"
    except ApiError:
        return ""
    shown = ", ".join(here[:SHOWN_NAMES]) + (", …" if len(here) > SHOWN_NAMES else "")
    return f"; there {'is' if len(here) == 1 else 'are'}: {shown}" if here else "; there are none"


def bare_name(name: str) -> str:
    """Without `jobset/`, `jobsets/` or the like, which kubectl writes and takes before a name."""
    kind, slash, rest = name.partition("/")
    return rest if slash and kind in _KIND_WORDS else name


# ---------------------------------------------------------------------- completion


def complete_jobsets(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return completed(ctx, incomplete, lambda connection: _names(connection.query, connection.namespace))


def complete_contexts(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    try:
        names = context_names(os.environ, kubeconfig=ctx.params.get("kubeconfig") or "")
    except BadKubeconfig:
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def complete_namespaces(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return completed(ctx, incomplete, lambda connection: _names_of(connection.query.list(NAMESPACES).items))


def completed(ctx: click.Context, incomplete: str, ask: Callable[[Connection], Sequence[str]]) -> list[CompletionItem]:
    """Quick, and silent when the cluster does not answer."""
    kubeconfig, context, namespace = (ctx.params.get(name) for name in ("kubeconfig", "context", "namespace"))
    try:
        names = ask(connect(kubeconfig, context, namespace, COMPLETION_PATIENCE_S))
    except (ApiError, BadKubeconfig, CommandFailed):
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _names(query: QueryClient, namespace: str) -> list[str]:
    return _names_of(query.list(JOBSETS, namespace).items)


def _names_of(items: Sequence[Object]) -> list[str]:
    return sorted(item["metadata"]["name"] for item in items)
