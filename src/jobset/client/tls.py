"""TLS to an API server: whom we trust, and the certificate we show. Certificates are checked unless told not to.

Used by both clients; reads the files of the authority, and writes none that stay.
"""

from __future__ import annotations

import logging
import ssl
import tempfile
from pathlib import Path
from typing import NoReturn

from jobset.api.errors import Unauthorized
from jobset.client.credentials import Identity
from jobset.client.kubeconfig import BadKubeconfig, Target

log = logging.getLogger(__name__)


def tls_context(target: Target, identity: Identity) -> ssl.SSLContext:
    """BadKubeconfig for an unusable authority, Unauthorized for an unusable client certificate."""
    context = ssl.create_default_context(cadata=_authority(target))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Python 3.13 asks for extensions that the authorities of many clusters lack, and that Kubernetes does not ask for
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    if target.insecure:
        log.warning("the certificate of %s is not checked: whoever answers there gets the credentials", target.server)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if identity.certificate:
        _show(context, identity, target)
    return context


def _authority(target: Target) -> str | None:
    """The text of the authority's certificates; None for the system's."""
    pem = target.authority
    try:
        text = (pem.file.read_bytes() if pem.file else pem.data).decode()
    except OSError as error:
        raise BadKubeconfig(f"{target.where}: certificate-authority {pem.file}: {error.strerror}") from error
    except UnicodeDecodeError:
        text = "no text"
    if pem and "-----BEGIN CERTIFICATE-----" not in text:
        raise BadKubeconfig(f"{target.where}: certificate-authority holds no certificate")
    return text or None


def _show(context: ssl.SSLContext, identity: Identity, target: Target) -> None:
    """OpenSSL takes the pair from a file only: a private one, gone again when this returns."""
    with tempfile.TemporaryDirectory(prefix="jobset-tls-") as directory:
        pair = Path(directory) / "pair.pem"
        pair.touch(0o600)
        pair.write_bytes(identity.certificate + b"\n" + identity.key)

        def ask_for_password() -> NoReturn:
            raise Unauthorized(f"{target.where}: the client key is encrypted, which is not supported")

        try:
            context.load_cert_chain(pair, password=ask_for_password)
        except ssl.SSLError as error:
            raise Unauthorized(f"{target.where}: client certificate and key cannot be used: {error.reason}") from error
