"""The certificates of a kept cluster: its own authority, the server's, the first user's. Elliptic curves throughout.

Made once, kept as PEM text by whoever calls. Nothing here touches files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_NAME = "jobset local cluster"
AUTHORITY_DAYS = 3650
DAYS = 365
RENEW_DAYS_BEFORE = 30
_CLOCK_SKEW = timedelta(minutes=5)
SERVICE_NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
"""What pods call the server."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, as PEM."""

    certificate: str
    key: str


def new_authority(now: datetime) -> KeyPair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, AUTHORITY_NAME)])
    usage = _usage(key_cert_sign=True, crl_sign=True, digital_signature=True)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        _builder(name, name, key.public_key(), now, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pair(certificate, key)


def new_server_certificate(authority: KeyPair, hosts: Sequence[str], now: datetime) -> KeyPair:
    """For `hosts`: names and addresses."""
    alternatives = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
    subject = [x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")]
    return _issue(authority, subject, ExtendedKeyUsageOID.SERVER_AUTH, now, [alternatives])


def new_client_certificate(authority: KeyPair, user: str, groups: Sequence[str], now: datetime) -> KeyPair:
    """The common name is the user, each organization is a group."""
    subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
    return _issue(authority, subject, ExtendedKeyUsageOID.CLIENT_AUTH, now, [])


def serves(pair: KeyPair, hosts: Sequence[str]) -> bool:
    """Whether a server certificate names all of `hosts`."""
    certificate = x509.load_pem_x509_certificate(pair.certificate.encode())
    named = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {_general_name(host) for host in hosts} <= set(named)


def issued_by(pair: KeyPair, authority: KeyPair) -> bool:
    certificate = x509.load_pem_x509_certificate(pair.certificate.encode())
    try:
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate.encode()))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def ends_soon(pair: KeyPair, now: datetime) -> bool:
    certificate = x509.load_pem_x509_certificate(pair.certificate.encode())
    return certificate.not_valid_after_utc - now < timedelta(days=RENEW_DAYS_BEFORE)


def _issue(
    authority: KeyPair,
    subject: list[x509.NameAttribute[str]],
    purpose: x509.ObjectIdentifier,
    now: datetime,
    extensions: Sequence[x509.ExtensionType],
) -> KeyPair:
    issuer = x509.load_pem_x509_certificate(authority.certificate.encode())
    issuer_key = serialization.load_pem_private_key(authority.key.encode(), password=None)
    assert isinstance(issuer_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = (
        _builder(x509.Name(subject), issuer.subject, key.public_key(), now, DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return _pair(builder.sign(issuer_key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=days))
    )


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def new_signing_key() -> str:
    """A private key as PEM, for tokens."""
    return _private_pem(ec.generate_private_key(ec.SECP256R1()))


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM).decode("ascii"), _private_pem(key))


def _private_pem(key: ec.EllipticCurvePrivateKey) -> str:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode("ascii")
