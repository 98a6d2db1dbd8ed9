"""Who we are to the server at this moment: headers and client certificate, from fields, files or a plugin.

Tokens in files are read again every minute, and what a plugin gave is kept until it expires or the server refuses it
(KEP-541). Both may take time: `current` blocks, and asynchronous callers ask in a thread when `is_fresh` says no.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from jobset.api.errors import Unauthorized
from jobset.api.meta import Object, parse_time
from jobset.client.kubeconfig import Login, Pem, Plugin

REREAD_AFTER = timedelta(minutes=1)
PLUGIN_PATIENCE_S = 60.0
"""For plugins that cannot ask anybody; one that may ask is given all the time."""


class Identity(Struct, frozen=True):
    headers: tuple[tuple[str, str], ...] = ()
    certificate: bytes = b""
    key: bytes = b""


class Credentials:
    """`current` and `forget` are not for two threads at once."""

    def __init__(self, login: Login, *, now: Callable[[], datetime], environ: Mapping[str, str] | None = None) -> None:
        self._login = login
        self._now = now
        self._environ = os.environ if environ is None else environ
        self._identity: Identity | None = None
        self._good_until: datetime | None = None

    @property
    def renewable(self) -> bool:
        """Whether asking again may give something else."""
        login = self._login
        return bool(login.plugin or login.token_file or login.certificate.file)

    @property
    def is_fresh(self) -> bool:
        """Whether `current` answers at once."""
        return self._identity is not None and (self._good_until is None or self._now() < self._good_until)

    def current(self) -> Identity:
        """Unauthorized when there is nothing to show the server."""
        if self._identity is None or not self.is_fresh:
            self._identity = self._renewed()
        return self._identity

    def forget(self, refused: Identity) -> None:
        """The server did not accept `refused`: do not show it again, unless nothing else is to be had."""
        if self._identity is refused and self.renewable:
            self._identity = None

    def _renewed(self) -> Identity:
        login = self._login
        token, certificate, key = login.token, login.certificate, login.key
        self._good_until = self._now() + REREAD_AFTER if self.renewable else None
        if login.token_file is not None:
            token = self._read(Pem(file=login.token_file)).decode().strip()
        elif login.plugin is not None and not (token or certificate or login.username):
            status = _ask(login.plugin, self._environ)
            token = status.get("token") or ""
            certificate = Pem(status.get("clientCertificateData", "").encode())
            key = Pem(status.get("clientKeyData", "").encode())
            self._good_until = _expiry(status, login.plugin)
        headers = list(login.impersonation)
        if token:
            headers.append(("Authorization", f"Bearer {token}"))
        elif login.username:
            pair = base64.b64encode(f"{login.username}:{login.password}".encode()).decode()
            headers.append(("Authorization", f"Basic {pair}"))
        return Identity(tuple(headers), self._read(certificate), self._read(key))

    def _read(self, pem: Pem) -> bytes:
        if pem.file is None:
            return pem.data
        try:
            return pem.file.read_bytes()
        except OSError as error:
            raise Unauthorized(f"credentials cannot be read from {pem.file}: {error.strerror}") from error


def _ask(plugin: Plugin, environ: Mapping[str, str]) -> Object:
    """The status of the ExecCredential that the plugin prints. Unauthorized."""
    terminal = sys.stdin is not None and sys.stdin.isatty()
    if plugin.interactive == "Always" and not terminal:
        raise Unauthorized(f"the credential plugin {plugin.command} needs a terminal to ask you on")
    interactive = terminal and plugin.interactive != "Never"
    spec: Object = {"interactive": interactive}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    question = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    try:
        answer = subprocess.run(
            [plugin.command, *plugin.arguments],
            env={**environ, **dict(plugin.environment), "KUBERNETES_EXEC_INFO": json.dumps(question)},
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=None if interactive else PLUGIN_PATIENCE_S,
            check=False,
        )
    except FileNotFoundError as error:
        hint = f"\n{plugin.install_hint}" if plugin.install_hint else ""
        raise Unauthorized(f"the credential plugin {plugin.command} is not installed{hint}") from error
    except OSError as error:
        raise Unauthorized(f"the credential plugin {plugin.command} cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise Unauthorized(f"the credential plugin {plugin.command} gave no answer in {error.timeout:.0f} s") from error
    if answer.returncode:
        raise Unauthorized(f"the credential plugin {plugin.command} failed with exit code {answer.returncode}")
    return _status(plugin, answer.stdout)


def _status(plugin: Plugin, output: bytes) -> Object:
    told: Any
    try:
        told = json.loads(output)
    except ValueError as error:
        raise _unusable(plugin, "did not print JSON") from error
    if not isinstance(told, dict) or told.get("kind") != "ExecCredential":
        raise _unusable(plugin, "did not print an ExecCredential")
    if told.get("apiVersion") != plugin.api_version:
        raise _unusable(plugin, f"answered in {told.get('apiVersion')}, not in {plugin.api_version}")
    status = told.get("status")
    if not isinstance(status, dict) or not (status.get("token") or status.get("clientCertificateData")):
        raise _unusable(plugin, "gave neither a token nor a certificate")
    if bool(status.get("clientCertificateData")) != bool(status.get("clientKeyData")):
        raise _unusable(plugin, "gave a certificate without its key, or a key without its certificate")
    return status


def _expiry(status: Object, plugin: Plugin) -> datetime | None:
    text = status.get("expirationTimestamp")
    if not text:
        return None
    try:
        return parse_time(text)
    except (TypeError, ValueError) as error:
        raise _unusable(plugin, f"gave an expirationTimestamp that is no time: {text}") from error


def _unusable(plugin: Plugin, what: str) -> Unauthorized:
    return Unauthorized(f"the credential plugin {plugin.command} {what}")
