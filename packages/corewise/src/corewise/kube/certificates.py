"""Certificates: a small authority, server and client certificates, and what one must know about a PEM file.

Keys are EC P-256 and unencrypted PKCS#8; serial numbers are random; the clock is an argument everywhere. A
certificate is valid from five minutes before ``now``, so that clocks a little apart do not refuse it.

A client certificate names its user as Kubernetes reads it: common name = user, organizations = groups.
Source: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#x509-client-certificates
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CLOCK_SKEW = timedelta(minutes=5)
YEAR = timedelta(days=365)
_COMMON_NAME_LIMIT = 64


class CertificateError(ValueError):
    """A PEM text is not a certificate or key, or the two do not belong together; the message says which."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM. The key stays out of representations."""

    certificate_pem: str
    key_pem: str

    def __repr__(self) -> str:
        return "KeyPair(<certificate>, <key>)"

    @property
    def not_after(self) -> datetime:
        return not_after(self.certificate_pem)

    @property
    def lifetime(self) -> timedelta:
        return self.not_after - made_at(self.certificate_pem)


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority that signs server and client certificates."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def create(cls, common_name: str, *, now: datetime, lifetime: timedelta = 10 * YEAR) -> Authority:
        """Make a new self-signed authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(common_name)
        builder = (
            _builder(name, name, key.public_key(), now, lifetime)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def from_pem(cls, certificate_pem: str, key_pem: str) -> Authority:
        """Take up an authority that was stored.

        Raises:
            CertificateError: if a text is not PEM, or the key is not the certificate's.
        """
        check_pair(certificate_pem, key_pem)
        key = _load_key(key_pem)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise CertificateError("the authority's key is not an elliptic-curve key")
        return cls(load(certificate_pem), key)

    @property
    def certificate_pem(self) -> str:
        return _pem(self.certificate)

    @property
    def key_pem(self) -> str:
        return _key_pem(self.key)

    @property
    def key_pair(self) -> KeyPair:
        return KeyPair(self.certificate_pem, self.key_pem)

    def issue_server(self, hosts: Iterable[str], *, now: datetime, lifetime: timedelta = YEAR) -> KeyPair:
        """Issue a serving certificate for DNS names and IP addresses; the first host is its common name.

        Raises:
            ValueError: if there are no hosts.
        """
        names = [_general_name(host) for host in hosts]
        if not names:
            raise ValueError("a serving certificate needs at least one host name or address")
        subject = _name(str(names[0].value)[:_COMMON_NAME_LIMIT])
        return self._issue(subject, ExtendedKeyUsageOID.SERVER_AUTH, names, now, lifetime)

    def issue_client(
        self, user: str, groups: Iterable[str] = (), *, now: datetime, lifetime: timedelta = YEAR
    ) -> KeyPair:
        """Issue a client certificate for a Kubernetes user and its groups."""
        subject = _name(user, groups)
        return self._issue(subject, ExtendedKeyUsageOID.CLIENT_AUTH, [], now, lifetime)

    def _issue(
        self,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        names: list[x509.GeneralName],
        now: datetime,
        lifetime: timedelta,
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(subject, self.certificate.subject, key.public_key(), now, lifetime)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False
            )
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return KeyPair(_pem(builder.sign(self.key, hashes.SHA256())), _key_pem(key))


def load(pem: str) -> x509.Certificate:
    """Read the first certificate of a PEM text.

    Raises:
        CertificateError: if there is none.
    """
    try:
        return x509.load_pem_x509_certificate(pem.encode())
    except ValueError as error:
        raise CertificateError(f"not a PEM certificate: {error}") from error


def not_after(pem: str) -> datetime:
    """Return when the first certificate of a PEM text expires (UTC, aware)."""
    return load(pem).not_valid_after_utc


def made_at(pem: str) -> datetime:
    """Return when the first certificate of a PEM text was made, if it was made by this module."""
    return load(pem).not_valid_before_utc + CLOCK_SKEW


def check_pair(certificate_pem: str, key_pem: str) -> None:
    """Make sure that a certificate and a private key, of any kind, belong together.

    Raises:
        CertificateError: if a text is not PEM, or the key is not the certificate's.
    """
    if _load_key(key_pem).public_key() != load(certificate_pem).public_key():
        raise CertificateError("the private key does not belong to the certificate")


def is_issued_by(pem: str, authority_pem: str) -> bool:
    """Whether an authority has signed a certificate."""
    try:
        load(pem).verify_directly_issued_by(load(authority_pem))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def hosts_of(pem: str) -> frozenset[str]:
    """Return the DNS names and IP addresses a serving certificate is good for."""
    try:
        names = load(pem).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(str(name.value) for name in names)


def bundle(*pems: str) -> str:
    """Join certificates into one PEM bundle, each certificate once, in the order given."""
    seen: dict[bytes, str] = {}
    for pem in pems:
        for certificate in _load_all(pem):
            seen.setdefault(certificate.fingerprint(hashes.SHA256()), _pem(certificate))
    return "".join(seen.values())


def without_expired(pem_bundle: str, *, now: datetime) -> str:
    """Return the bundle without the certificates that have expired."""
    return "".join(_pem(c) for c in _load_all(pem_bundle) if c.not_valid_after_utc > now)


def _load_all(pem: str) -> list[x509.Certificate]:
    if not pem.strip():
        return []
    try:
        return x509.load_pem_x509_certificates(pem.encode())
    except ValueError as error:
        raise CertificateError(f"not a PEM certificate: {error}") from error


def _load_key(pem: str) -> PrivateKeyTypes:
    try:
        return serialization.load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise CertificateError(f"not an unencrypted PEM private key: {error}") from error


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    now: datetime,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + lifetime)
    )


def _name(common_name: str, organizations: Iterable[str] = ()) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(host: str) -> x509.GeneralName:
    address: IPv4Address | IPv6Address
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return x509.DNSName(host)
    return x509.IPAddress(address)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
