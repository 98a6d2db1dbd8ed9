"""Service account tokens: what is issued, for how long it is good, and what ends it before."""

from __future__ import annotations

import asyncio
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest

from jobset.api.errors import Conflict, Invalid, NotFound, Unauthorized
from jobset.api.resources import PODS, SERVICE_ACCOUNTS
from jobset.cluster.apiserver.http.authentication import Authentication
from jobset.cluster.apiserver.http.certificates import new_signing_key
from jobset.cluster.apiserver.http.tokens import ISSUER, BadToken, Signer, Tokens
from jobset.cluster.apiserver.service import ApiService
from jobset.cluster.store.memory import MemoryStore
from jobset.sim.loop import wall_clock

KEY = new_signing_key()
POD = {"spec": {"serviceAccountName": "robot", "containers": [{"name": "c", "image": "i"}]}}


@pytest.fixture
def service():
    service = ApiService(MemoryStore(), now=wall_clock())
    service.create(SERVICE_ACCOUNTS, "default", {"metadata": {"name": "robot"}})
    return service


@pytest.fixture
def tokens(service):
    tokens = Tokens(Signer(KEY), service.store, wall_clock())
    service.add_subresource(SERVICE_ACCOUNTS, "token", tokens.request)
    return tokens


def ask(service, **spec):
    return service.create_subresource(SERVICE_ACCOUNTS, "default", "robot", "token", {"spec": spec})


def parts(token):
    return [json.loads(urlsafe_b64decode(part + "==")) for part in token.split(".")[:2]]


def with_claims(token, **changes):
    header, claims = parts(token)
    encoded = [
        urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (header, claims | changes)
    ]
    return ".".join((*encoded, token.split(".")[2]))


async def test_a_token_says_whose_it_is(service, tokens):
    answer = ask(service, expirationSeconds=3600)
    header, claims = parts(answer["status"]["token"])
    uid = service.get(SERVICE_ACCOUNTS, "default", "robot")["metadata"]["uid"]
    assert header["alg"] == "ES256" and header["kid"]
    assert claims["sub"] == "system:serviceaccount:default:robot"
    assert claims["aud"] == [ISSUER] and claims["exp"] - claims["iat"] == 3600
    assert claims["kubernetes.io"] == {"namespace": "default", "serviceaccount": {"name": "robot", "uid": uid}}
    user = Authentication(tokens).of_token(answer["status"]["token"])
    assert (user.name, user.uid) == ("system:serviceaccount:default:robot", uid)
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated")
    assert user.extra == {"authentication.kubernetes.io/credential-id": [f"JTI={claims['jti']}"]}


async def test_a_token_expires(service, tokens):
    token = ask(service, expirationSeconds=600)["status"]["token"]
    await asyncio.sleep(598)
    assert tokens.account(token).name == "robot"
    await asyncio.sleep(2)
    with pytest.raises(BadToken, match="expired"):
        tokens.account(token)


async def test_deleting_the_account_ends_its_tokens_even_if_it_is_made_again(service, tokens):
    token = ask(service)["status"]["token"]
    service.delete(SERVICE_ACCOUNTS, "default", "robot")
    with pytest.raises(BadToken, match="ServiceAccount is gone"):
        tokens.account(token)
    service.create(SERVICE_ACCOUNTS, "default", {"metadata": {"name": "robot"}})
    with pytest.raises(BadToken, match="ServiceAccount is gone"):
        tokens.account(token)


async def test_a_token_bound_to_a_pod_ends_with_it(service, tokens):
    pod = service.create(PODS, "default", {"metadata": {"name": "p"}, **POD})
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": pod["metadata"]["uid"]}
    token = ask(service, boundObjectRef=bound)["status"]["token"]
    user = Authentication(tokens).of_token(token)
    assert user.extra["authentication.kubernetes.io/pod-name"] == ["p"]
    assert user.extra["authentication.kubernetes.io/pod-uid"] == [pod["metadata"]["uid"]]
    service.delete(PODS, "default", "p")
    with pytest.raises(Unauthorized):
        Authentication(tokens).of_token(token)


async def test_what_a_token_may_not_be_bound_to(service, tokens):
    other = {"metadata": {"name": "p"}, "spec": {**POD["spec"], "serviceAccountName": "other"}}
    service.create(PODS, "default", other)
    with pytest.raises(Invalid, match="another ServiceAccount"):
        ask(service, boundObjectRef={"kind": "Pod", "name": "p"})
    with pytest.raises(NotFound):
        ask(service, boundObjectRef={"kind": "Pod", "name": "none"})
    with pytest.raises(Invalid, match="only Pod and Secret"):
        ask(service, boundObjectRef={"kind": "Node", "name": "n"})
    service.create(PODS, "default", {"metadata": {"name": "q"}, **POD})
    with pytest.raises(Conflict, match="UID"):
        ask(service, boundObjectRef={"kind": "Pod", "name": "q", "uid": "of-an-earlier-one"})


@pytest.mark.parametrize(("seconds", "text"), [(5, "less than 10 minutes"), (2**33, "larger than 2\\^32")])
async def test_how_long_a_token_may_live(service, tokens, seconds, text):
    with pytest.raises(Invalid, match=text):
        ask(service, expirationSeconds=seconds)


async def test_a_token_for_somebody_else_is_not_for_us(service, tokens):
    token = ask(service, audiences=["vault"])["status"]["token"]
    with pytest.raises(BadToken, match="somebody else"):
        tokens.account(token)
    assert tokens.account(token, ("vault",)).name == "robot"


async def test_forged_tokens_are_worth_nothing(service, tokens):
    token = ask(service)["status"]["token"]
    header, claims, signature = token.split(".")
    unsigned = urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    foreign = Tokens(Signer(new_signing_key()), service.store, wall_clock())
    forged = [
        "",
        "a.b",
        "a.b.c",
        "ä.ö.ü",
        f"{header}.{claims}.",
        f"{unsigned}.{claims}.",
        f"{unsigned}.{claims}.{signature}",
        f"{header}.{claims}.{'A' * 86}",
        with_claims(token, exp=2**40),
        with_claims(token, sub="system:serviceaccount:kube-system:admin"),
        foreign.request("default", "robot", {})["status"]["token"],
        "x" * 100_000,
    ]
    for text in forged:
        with pytest.raises(BadToken):
            tokens.account(text)
    assert tokens.account(token).name == "robot"
