"""The generated certificates, as Python's ssl judges them on both ends of a connection in memory."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import pytest

from jobset.api.errors import Unauthorized
from jobset.cluster.apiserver.http import certificates
from jobset.cluster.apiserver.http.authentication import Authentication
from jobset.cluster.apiserver.http.tokens import Signer, Tokens
from jobset.cluster.store.memory import MemoryStore
from jobset.local.credentials import prepare_credentials, prepare_server_certificate, private_directory
from jobset.local.front_door import tls
from jobset.sim.loop import wall_clock

HOSTS = ("localhost", "127.0.0.1", "::1", *certificates.SERVICE_NAMES, "10.244.0.1")


def today():
    return datetime.now(UTC)


@pytest.fixture
def credentials(tmp_path):
    private_directory(tmp_path / "c")
    credentials = prepare_credentials(tmp_path / "c", today())
    prepare_server_certificate(credentials, HOSTS, today())
    return credentials


def connect(credentials, host, client=None, authority=None):
    """Shake hands; what the server learned of the client. `client`: names of certificate and key files."""
    context = ssl.create_default_context(cafile=str(authority or credentials.authority_file))
    if client is not None:
        context.load_cert_chain(*client)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = context.wrap_bio(to_client, to_server, server_hostname=host)
    theirs = tls(credentials).wrap_bio(to_server, to_client, server_side=True)
    for _ in range(10):
        done = []
        for end in (ours, theirs):
            try:
                end.do_handshake()
                done.append(end)
            except ssl.SSLWantReadError:
                continue
        if len(done) == 2:
            return theirs.getpeercert()
    raise AssertionError("the handshake does not end")


def files(credentials, name):
    return credentials.directory / f"{name}.crt", credentials.directory / f"{name}.key"


@pytest.mark.parametrize("host", HOSTS)
def test_the_server_is_believed_under_all_its_names(credentials, host):
    assert not connect(credentials, host)


def test_the_server_is_not_believed_under_another_name(credentials):
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(credentials, "example.com")


def test_the_client_certificate_says_who_it_is(credentials):
    certificate = connect(credentials, "localhost", files(credentials, "admin"))
    tokens = Tokens(Signer(credentials.signing_key), MemoryStore(), wall_clock())
    user = Authentication(tokens).authenticate({"Host": "localhost"}, certificate)
    assert user.name == "admin"
    assert user.groups == ("system:masters", "system:authenticated")


def test_the_servers_own_certificate_lets_nobody_in(credentials):
    with pytest.raises(ssl.SSLError):
        connect(credentials, "localhost", credentials.server_files)


def test_a_certificate_of_another_cluster_lets_nobody_in(credentials, tmp_path):
    private_directory(tmp_path / "other")
    other = prepare_credentials(tmp_path / "other", today())
    with pytest.raises(ssl.SSLError):
        connect(credentials, "localhost", files(other, "admin"))
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(credentials, "localhost", authority=other.authority_file)


def test_nothing_shown_is_nobody(credentials):
    tokens = Tokens(Signer(credentials.signing_key), MemoryStore(), wall_clock())
    with pytest.raises(Unauthorized):
        Authentication(tokens).authenticate({"Host": "localhost"}, connect(credentials, "localhost"))


def test_certificates_are_renewed_in_time_by_the_same_authority(credentials):
    before = {name: files(credentials, name)[0].read_text() for name in ("ca", "server", "admin")}
    later = today() + timedelta(days=certificates.DAYS - certificates.RENEW_DAYS_BEFORE - 1)
    prepare_server_certificate(prepare_credentials(credentials.directory, later), HOSTS, later)
    assert {name: files(credentials, name)[0].read_text() for name in before} == before
    later += timedelta(days=2)
    prepare_server_certificate(prepare_credentials(credentials.directory, later), HOSTS, later)
    after = {name: files(credentials, name)[0].read_text() for name in before}
    assert [name for name in before if after[name] == before[name]] == ["ca"]


def test_a_server_certificate_for_new_hosts_replaces_the_old_one(credentials):
    prepare_server_certificate(credentials, (*HOSTS, "box.example.com"), today())
    assert not connect(credentials, "box.example.com")
    renewed = credentials.server_files[0].read_text()
    prepare_server_certificate(credentials, HOSTS, today())
    assert credentials.server_files[0].read_text() == renewed
