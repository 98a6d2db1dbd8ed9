"""The HTTPS server before a local cluster: who may come in, what they may do, and the tokens that pods get.

Composition only; the parts are in cluster/apiserver/http.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

from jobset.api.resources import SERVICE_ACCOUNTS
from jobset.cluster.apiserver.http.app import build_app
from jobset.cluster.apiserver.http.authentication import Authentication
from jobset.cluster.apiserver.http.authorization import Authorization, create_default_roles
from jobset.cluster.apiserver.http.server import serving
from jobset.cluster.apiserver.http.streams.port import PodStreams
from jobset.cluster.apiserver.http.tokens import Signer, Tokens
from jobset.local.cluster import LocalCluster
from jobset.local.credentials import Credentials


@asynccontextmanager
async def open_front_door(
    cluster: LocalCluster,
    credentials: Credentials,
    hosts: Sequence[str],
    now: Callable[[], datetime],
    sockets: Sequence[socket.socket],
    streams: PodStreams,
) -> AsyncIterator[None]:
    """Serve on listening sockets while the context lasts. `hosts` are the names in the server's certificate."""
    service = cluster.service
    tokens = Tokens(Signer(credentials.signing_key), service.store, now)
    service.add_subresource(SERVICE_ACCOUNTS, "token", tokens.request)
    create_default_roles(service)
    authentication = Authentication(tokens, credentials.admin_token, hosts)
    authorization = Authorization(service.store)
    app = build_app(service, authentication=authentication, authorization=authorization, now=now, streams=streams)
    async with serving(app, sockets, tls(credentials)):
        yield


def tls(credentials: Credentials) -> ssl.SSLContext:
    """Certificates of clients are asked for, not demanded: a token will do."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(credentials.authority_file))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_cert_chain(*credentials.server_files)
    context.set_alpn_protocols(["http/1.1"])
    return context
