"""Who a request comes from: client certificate, the administrator's token, or a ServiceAccount's. Nobody is anonymous.

Before that it is asked where the request comes from: a page in a browser must not reach the server, whatever
credentials the browser has, neither under a foreign name (Host) nor from a foreign page (Origin, Sec-Fetch-Site).
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from jobset.api.errors import Forbidden, Unauthorized
from jobset.cluster.apiserver.http.certificates import SERVICE_NAMES
from jobset.cluster.apiserver.http.tokens import AUDIENCES, BadToken, Tokens
from jobset.cluster.model.authorization import SUPERUSERS

AUTHENTICATED = "system:authenticated"
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
_EXTRA = "authentication.kubernetes.io/"
_SAME_SITE = ("same-origin", "none")


@dataclass(frozen=True, slots=True)
class User:
    """Whom a request comes from."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)


def account_groups(namespace: str) -> tuple[str, ...]:
    """Of every ServiceAccount of a namespace."""
    return "system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED


ADMIN = User("admin", groups=(SUPERUSERS, AUTHENTICATED))
"""Whom the static token stands for."""


class Authentication:
    """`hosts`: the names besides plain addresses under which the server may be called."""

    def __init__(self, tokens: Tokens, admin_token: str = "", hosts: Iterable[str] = ()) -> None:
        self._tokens = tokens
        self._admin_token = admin_token.encode()
        self._hosts = frozenset(host.lower() for host in ("localhost", *SERVICE_NAMES, *hosts))

    def authenticate(self, headers: Mapping[str, str], peer_certificate: Mapping[str, Any] | None) -> User:
        """`headers` finds names in any case; `peer_certificate` is what Python's ssl says of a checked certificate.

        Forbidden for what a foreign page sent; Unauthorized for whom nothing vouches.
        """
        self._check_origin(headers)
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token:
            return self.of_token(token.strip())
        if peer_certificate and (user := _of_certificate(peer_certificate)) is not None:
            return user
        raise Unauthorized("Unauthorized")

    def of_token(self, token: str, audiences: Sequence[str] = AUDIENCES) -> User:
        """Unauthorized when it stands for nobody."""
        if self._admin_token and hmac.compare_digest(token.encode(), self._admin_token):
            return ADMIN
        try:
            account = self._tokens.account(token, audiences)
        except BadToken as error:
            raise Unauthorized("Unauthorized") from error
        extra = {CREDENTIAL_ID: [f"JTI={account.token_id}"]}
        for word, bound in (("pod", account.pod), ("node", account.node)):
            if bound is not None:
                extra[f"{_EXTRA}{word}-name"], extra[f"{_EXTRA}{word}-uid"] = [bound[0]], [bound[1]]
        return User(account.user_name, account.uid, account_groups(account.namespace), extra)

    def _check_origin(self, headers: Mapping[str, str]) -> None:
        host = headers.get("Host", "")
        if not self._is_ours(_host_name(host)):
            raise Forbidden(f'the server is not known as "{host}"')
        origin = headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            raise Forbidden(f'requests of pages of "{origin}" are not served')
        if headers.get("Sec-Fetch-Site", "none") not in _SAME_SITE:
            raise Forbidden("requests of pages of other sites are not served")

    def _is_ours(self, name: str) -> bool:
        """An address cannot be taken over by a foreign name server; a name can, unless we know it."""
        try:
            ip_address(name)
        except ValueError:
            return name in self._hosts
        return True


def _host_name(host: str) -> str:
    """Without the port, in lower case."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


def _of_certificate(certificate: Mapping[str, Any]) -> User | None:
    parts = [pair for part in certificate.get("subject") or () for pair in part]
    name = next((value for key, value in parts if key == "commonName"), "")
    groups = tuple(value for key, value in parts if key == "organizationName")
    return User(name, groups=(*groups, AUTHENTICATED)) if name else None
