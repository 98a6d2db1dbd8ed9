"""The keys of a kept cluster, on disk: its authority, certificates, the administrator's token, the key of tokens.

They lie in a directory that only its owner can enter, each file readable by the owner alone. Made when missing and
kept from then on, so that a kubeconfig stays good when the cluster is started again; certificates that end soon, or
name other hosts than the server now has, are renewed by the same authority.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from jobset.cluster.apiserver.http import certificates
from jobset.cluster.apiserver.http.certificates import KeyPair
from jobset.cluster.model.authorization import SUPERUSERS

ADMIN_USER = "admin"
AUTHORITY, SERVER, ADMIN = "ca", "server", "admin"
ADMIN_TOKEN = "admin.token"
SIGNING_KEY = "service-accounts.key"
_PRIVATE_FILE, _PRIVATE_DIRECTORY = 0o600, 0o700


class NotPrivate(Exception):
    """A directory or file that others could read or change. The message tells the fix."""


class Credentials(Struct, frozen=True):
    directory: Path
    authority: KeyPair
    admin: KeyPair
    admin_token: str
    signing_key: str

    @property
    def server_files(self) -> tuple[Path, Path]:
        """Certificate and key of the server, as Python's ssl wants them."""
        return self.directory / f"{SERVER}.crt", self.directory / f"{SERVER}.key"

    @property
    def authority_file(self) -> Path:
        return self.directory / f"{AUTHORITY}.crt"


def private_directory(path: Path) -> None:
    """Make a directory that only we can enter. Raises NotPrivate when it is there and somebody else's."""
    path.mkdir(parents=True, exist_ok=True, mode=_PRIVATE_DIRECTORY)
    found = path.stat()
    if found.st_uid != os.getuid():
        raise NotPrivate(f"{path} belongs to another user; choose another --name or directory (XDG_STATE_HOME)")
    if stat.S_IMODE(found.st_mode) != _PRIVATE_DIRECTORY:
        path.chmod(_PRIVATE_DIRECTORY)


def write_private(path: Path, text: str) -> None:
    """Replace a file whole, readable by its owner alone from its first byte on."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _PRIVATE_FILE)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def prepare_credentials(directory: Path, now: datetime) -> Credentials:
    """The credentials of the cluster that lives in `directory`, which exists; what is missing is made."""
    authority = _pair(directory, AUTHORITY, lambda: certificates.new_authority(now))
    admin = _pair(directory, ADMIN, lambda: _new_admin(authority, now))
    if not _good(admin, authority, now):
        admin = _new_admin(authority, now)
        _write_pair(directory, ADMIN, admin)
    token = _text(directory / ADMIN_TOKEN, lambda: secrets.token_urlsafe(32))
    return Credentials(directory, authority, admin, token, _text(directory / SIGNING_KEY, certificates.new_signing_key))


def prepare_server_certificate(credentials: Credentials, hosts: Sequence[str], now: datetime) -> None:
    """See that `server_files` hold a certificate for all of `hosts`: names and addresses."""
    authority = credentials.authority

    def make() -> KeyPair:
        return certificates.new_server_certificate(authority, hosts, now)

    server = _pair(credentials.directory, SERVER, make)
    if not certificates.serves(server, hosts) or not _good(server, authority, now):
        _write_pair(credentials.directory, SERVER, make())


def _new_admin(authority: KeyPair, now: datetime) -> KeyPair:
    return certificates.new_client_certificate(authority, ADMIN_USER, (SUPERUSERS,), now)


def _good(pair: KeyPair, authority: KeyPair, now: datetime) -> bool:
    return certificates.issued_by(pair, authority) and not certificates.ends_soon(pair, now)


def _pair(directory: Path, name: str, make: Callable[[], KeyPair]) -> KeyPair:
    certificate, key = directory / f"{name}.crt", directory / f"{name}.key"
    if not (certificate.exists() and key.exists()):
        _write_pair(directory, name, make())
    return KeyPair(_read(certificate), _read(key))


def _write_pair(directory: Path, name: str, pair: KeyPair) -> None:
    """The key first: a certificate is there only together with its key."""
    (directory / f"{name}.crt").unlink(missing_ok=True)
    write_private(directory / f"{name}.key", pair.key)
    write_private(directory / f"{name}.crt", pair.certificate)


def _text(path: Path, make: Callable[[], str]) -> str:
    if not path.exists():
        write_private(path, make())
    return _read(path).strip()


def _read(path: Path) -> str:
    """Raises NotPrivate for a file that others may read: its secret may be known already."""
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise NotPrivate(f"{path} can be read by others: delete it, and start the cluster again to have it made anew")
    return path.read_text()
