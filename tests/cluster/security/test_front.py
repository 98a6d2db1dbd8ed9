"""What is refused before it is asked who comes: calls under foreign names and from pages in browsers."""

from __future__ import annotations

import pytest

from jobset.api.errors import Forbidden, Unauthorized
from jobset.cluster.apiserver.http.authentication import ADMIN, Authentication
from jobset.cluster.apiserver.http.certificates import new_signing_key
from jobset.cluster.apiserver.http.tokens import Signer, Tokens
from jobset.cluster.store.memory import MemoryStore
from jobset.sim.loop import wall_clock

TOKEN = {"Authorization": "Bearer s3cret"}
ADMIN_CERTIFICATE = {"subject": ((("organizationName", "system:masters"),), (("commonName", "admin"),))}


@pytest.fixture(scope="module")
def authentication():
    tokens = Tokens(Signer(new_signing_key()), MemoryStore(), wall_clock())
    return Authentication(tokens, "s3cret", hosts=("Box.example.com",))


@pytest.mark.parametrize(
    "host",
    [
        "localhost:6443", "LOCALHOST", "127.0.0.1:6443", "127.8.9.1", "10.244.0.1", "[::1]:6443", "[::1]",
        "kubernetes.default.svc", "kubernetes.default.svc.cluster.local:443", "box.example.com:6443",
    ],
)  # fmt: skip
def test_names_of_the_server(authentication, host):
    assert authentication.authenticate({"Host": host, **TOKEN}, None) is ADMIN


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "localhost.evil.example:6443", "127.0.0.1.nip.io", "evil.example:127.0.0.1", "[::1", "@"],
)
def test_a_foreign_name_leads_nowhere_even_with_credentials(authentication, host):
    """A page whose name server answers 127.0.0.1 for its own name is still under that name."""
    if host == "[::1":
        assert authentication.authenticate({"Host": host, **TOKEN}, None) is ADMIN  # an address all the same
        return
    with pytest.raises(Forbidden):
        authentication.authenticate({"Host": host, **TOKEN}, ADMIN_CERTIFICATE)


@pytest.mark.parametrize(
    ("headers", "welcome"),
    [
        ({"Origin": "https://127.0.0.1:6443"}, True),
        ({"Origin": "http://127.0.0.1:6443"}, True),
        ({"Origin": "https://127.0.0.1:8443"}, False),
        ({"Origin": "https://localhost:6443"}, False),
        ({"Origin": "https://evil.example"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": ""}, False),
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "none"}, True),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
    ],
)
def test_pages_of_other_places_are_not_served(authentication, headers, welcome):
    """Browsers send these by themselves, and pages cannot change them; a browser may hold a client certificate."""
    request = {"Host": "127.0.0.1:6443", **headers}
    if welcome:
        assert authentication.authenticate(request, ADMIN_CERTIFICATE).name == "admin"
    else:
        with pytest.raises(Forbidden):
            authentication.authenticate(request, ADMIN_CERTIFICATE)


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer ", "Bearer wrong", "Basic czNjcmV0", "s3cret", "Bearer s3cre", "Bearer s3crett"]
)
def test_without_good_credentials_nobody_comes_in(authentication, given):
    with pytest.raises(Unauthorized):
        authentication.authenticate({"Host": "localhost", "Authorization": given}, None)


def test_a_bad_token_is_not_made_good_by_a_certificate(authentication):
    with pytest.raises(Unauthorized):
        authentication.authenticate({"Host": "localhost", "Authorization": "Bearer wrong"}, ADMIN_CERTIFICATE)


def test_without_a_static_token_an_empty_one_is_not_it():
    tokens = Tokens(Signer(new_signing_key()), MemoryStore(), wall_clock())
    with pytest.raises(Unauthorized):
        Authentication(tokens, "").authenticate({"Host": "localhost", "Authorization": "Bearer "}, None)


def test_a_certificate_without_a_name_is_nobody(authentication):
    nameless = {"subject": ((("organizationName", "system:masters"),),)}
    with pytest.raises(Unauthorized):
        authentication.authenticate({"Host": "localhost"}, nameless)
