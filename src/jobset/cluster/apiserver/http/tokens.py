"""Service account tokens: JSON Web Tokens signed with the cluster's own key (ES256), bound to what they were made for.

A token is good until it expires, and only as long as its ServiceAccount, and the Pod or Secret it is bound to, are
still the same objects (by uid). That is looked up on each use: deleting an object revokes its tokens at once.
"""

from __future__ import annotations

import hashlib
import uuid
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from jobset.api.errors import Cause, Invalid
from jobset.api.field_errors import invalid
from jobset.api.meta import Object, format_time
from jobset.api.resources import PODS, SECRETS, SERVICE_ACCOUNTS, Resource
from jobset.cluster.apiserver.metadata import conflict, not_found
from jobset.cluster.model.authorization import account_user_name

ISSUER = "https://kubernetes.default.svc.cluster.local"
AUDIENCES = (ISSUER,)
"""The audience of tokens that name none, and the one this API server accepts."""
DEFAULT_S = 3600
SHORTEST_S = 600
LONGEST_S = 1 << 32
TOKEN_REQUEST = Resource("authentication.k8s.io", "v1", "tokenrequests", "TokenRequest")
_P256_BYTES = 32
_REMEMBERED = 4096
_LONGEST_TOKEN = 16 * 1024
_BOUND = {"Pod": (PODS, "pod"), "Secret": (SECRETS, "secret")}


class BadToken(Exception):
    """The token is not good. The message tells why, for the log; clients only hear that they are not authenticated."""


class FindsObjects(Protocol):
    """The store, as far as it is needed here."""

    def get(self, resource: str, namespace: str, name: str) -> Object | None: ...


@dataclass(frozen=True, slots=True)
class Account:
    """Whom a good token stands for."""

    namespace: str
    name: str
    uid: str
    token_id: str
    pod: tuple[str, str] | None = None
    """(name, uid) of the pod the token is bound to."""
    node: tuple[str, str] | None = None

    @property
    def user_name(self) -> str:
        return account_user_name(self.namespace, self.name)


class Signer:
    """Signs claims and checks signatures; knows nothing of what they say. ES256 only, whatever a token asks for."""

    def __init__(self, key_pem: str) -> None:
        key = serialization.load_pem_private_key(key_pem.encode(), password=None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key = key
        self._public = key.public_key()
        der = self._public.public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )  # fmt: skip
        self._header = {"alg": "ES256", "kid": _text(hashlib.sha256(der).digest())}

    def sign(self, claims: Object) -> str:
        signed = f"{_text(msgspec.json.encode(self._header))}.{_text(msgspec.json.encode(claims))}"
        r, s = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_text(r.to_bytes(_P256_BYTES, 'big') + s.to_bytes(_P256_BYTES, 'big'))}"

    def claims(self, token: str) -> Object:
        """What the token says. Raises BadToken unless it was signed here."""
        parts = token.split(".")
        if len(token) > _LONGEST_TOKEN or len(parts) != 3:
            raise BadToken("not a JSON Web Token")
        try:
            header, claims = (msgspec.json.decode(_bytes(part)) for part in parts[:2])
            signature = _bytes(parts[2])
        except (NotBase64, ValueError) as error:
            raise BadToken("not a JSON Web Token") from error
        if header != self._header or not isinstance(claims, dict) or len(signature) != 2 * _P256_BYTES:
            raise BadToken("signed by somebody else")
        r, s = (int.from_bytes(part, "big") for part in (signature[:_P256_BYTES], signature[_P256_BYTES:]))
        try:
            signed = f"{parts[0]}.{parts[1]}".encode()
            self._public.verify(encode_dss_signature(r, s), signed, ec.ECDSA(hashes.SHA256()))
        except (InvalidSignature, ValueError) as error:
            raise BadToken("the signature is wrong") from error
        return claims


class Tokens:
    """Issues the tokens of ServiceAccounts and says whom a token stands for."""

    def __init__(self, signer: Signer, store: FindsObjects, now: Callable[[], datetime]) -> None:
        self._signer = signer
        self._store = store
        self._now = now
        self._checked: dict[str, Object] = {}

    def request(self, namespace: str, name: str, body: Object) -> Object:
        """Answer a TokenRequest: POST to a ServiceAccount's subresource `token`. NotFound, Invalid, Conflict."""
        account = self._store.get(str(SERVICE_ACCOUNTS), namespace, name)
        if account is None:
            raise not_found(SERVICE_ACCOUNTS, name)
        spec = body.get("spec") or {}
        audiences = [audience for audience in spec.get("audiences") or () if audience] or list(AUDIENCES)
        duration_s = DEFAULT_S if spec.get("expirationSeconds") is None else spec["expirationSeconds"]
        if problems := _duration_problems(duration_s):
            raise _refused(problems)
        bound = spec.get("boundObjectRef")
        moment = self._now()
        claims = _claims(account, audiences, moment, duration_s)
        if bound:
            claims["kubernetes.io"] |= self._bound(account, bound)
        metadata = {"name": name, "namespace": namespace, "uid": account["metadata"]["uid"]}
        ends = moment + timedelta(seconds=duration_s)
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {**metadata, "creationTimestamp": format_time(moment)},
            "spec": {"audiences": audiences, "expirationSeconds": duration_s, "boundObjectRef": bound},
            "status": {"token": self._signer.sign(claims), "expirationTimestamp": format_time(ends)},
        }

    def _bound(self, account: Object, reference: Object) -> Object:
        kind, name, uid = reference.get("kind", ""), reference.get("name", ""), reference.get("uid", "")
        if kind not in _BOUND:
            raise _refused([invalid("spec.boundObjectRef.kind", kind, "only Pod and Secret can be bound to")])
        resource, word = _BOUND[kind]
        found = self._store.get(str(resource), account["metadata"]["namespace"], name)
        if found is None:
            raise not_found(resource, name)
        if uid and uid != found["metadata"]["uid"]:
            text = f"the UID in the bound object reference ({uid}) does not match the UID in record"
            raise conflict(resource, name, text)
        if kind == "Pod" and _account_of(found) != account["metadata"]["name"]:
            raise _refused([invalid("spec.boundObjectRef.name", name, "the pod runs as another ServiceAccount")])
        claims: Object = {word: {"name": name, "uid": found["metadata"]["uid"]}}
        node = found.get("spec", {}).get("nodeName") if kind == "Pod" else None
        if node and (known := self._store.get("nodes", "", node)) is not None:
            claims["node"] = {"name": node, "uid": known["metadata"]["uid"]}
        return claims

    def account(self, token: str, audiences: Sequence[str] = AUDIENCES) -> Account:
        """Whom the token stands for. Raises BadToken."""
        claims = self._verified(token)
        now_s = self._now().timestamp()
        if claims.get("iss") != ISSUER or not set(claims.get("aud") or ()) & set(audiences):
            raise BadToken("meant for somebody else")
        if not claims.get("nbf", 0) <= now_s < claims.get("exp", 0):
            raise BadToken("expired")
        about = claims["kubernetes.io"]
        namespace, said = about["namespace"], about["serviceaccount"]
        self._check_lives(SERVICE_ACCOUNTS, namespace, said)
        for resource, word in _BOUND.values():
            if word in about:
                self._check_lives(resource, namespace, about[word])
        pod, node = about.get("pod"), about.get("node")
        return Account(
            namespace, said["name"], said["uid"], claims["jti"],
            (pod["name"], pod["uid"]) if pod else None, (node["name"], node["uid"]) if node else None,
        )  # fmt: skip

    def _verified(self, token: str) -> Object:
        """Signatures are checked once; everything else each time."""
        digest = hashlib.sha256(token.encode()).hexdigest()
        claims = self._checked.get(digest)
        if claims is None:
            claims = self._signer.claims(token)
            if len(self._checked) >= _REMEMBERED:
                self._checked.clear()
            self._checked[digest] = claims
        return claims

    def _check_lives(self, resource: Resource, namespace: str, said: Object) -> None:
        found = self._store.get(str(resource), namespace, said["name"])
        if found is None or found["metadata"]["uid"] != said["uid"]:
            raise BadToken(f"its {resource.kind} is gone")


def _account_of(pod: Object) -> str:
    return pod["spec"].get("serviceAccountName") or "default"


def _claims(account: Object, audiences: Sequence[str], moment: datetime, duration_s: int) -> Object:
    metadata, issued = account["metadata"], int(moment.timestamp())
    who = {"name": metadata["name"], "uid": metadata["uid"]}
    return {
        "aud": list(audiences),
        "exp": issued + duration_s,
        "iat": issued,
        "iss": ISSUER,
        "jti": str(uuid.uuid4()),
        "kubernetes.io": {"namespace": metadata["namespace"], "serviceaccount": who},
        "nbf": issued,
        "sub": account_user_name(metadata["namespace"], metadata["name"]),
    }


def _duration_problems(duration_s: int) -> list[Cause]:
    path = "spec.expirationSeconds"
    if duration_s < SHORTEST_S:
        return [invalid(path, duration_s, "may not specify a duration less than 10 minutes")]
    if duration_s > LONGEST_S:
        return [invalid(path, duration_s, "may not specify a duration larger than 2^32 seconds")]
    return []


def _refused(causes: list[Cause]) -> Invalid:
    text = ", ".join(f"{cause.field}: {cause.message}" for cause in causes)
    kind, group = TOKEN_REQUEST.kind, TOKEN_REQUEST.group
    return Invalid(f'{kind}.{group} "" is invalid: {text}', causes=causes, group=group, kind=kind)


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _bytes(text: str) -> Any:
    return urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
