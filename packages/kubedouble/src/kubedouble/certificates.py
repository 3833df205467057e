"""A certificate authority that signs the server's certificate and those of its clients.

Keys are EC P-256 and unencrypted PKCS#8; serial numbers are random; the clock is an argument. A certificate
is valid from five minutes before ``now``, so that clocks a little apart do not refuse it. A client
certificate names its user as Kubernetes reads it: the common name is the user, the organizations are the
groups.

Source: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#x509-client-certificates
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_CLOCK_SKEW = timedelta(minutes=5)
_YEAR = timedelta(days=365)
_LONGEST_COMMON_NAME = 64


class CertificateError(ValueError):
    """A PEM text is not an authority's certificate and key; the message says why."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM. The key stays out of representations."""

    certificate_pem: str
    key_pem: str

    def __repr__(self) -> str:
        return "KeyPair(<certificate>, <key>)"


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def create(cls, common_name: str, *, now: datetime) -> Authority:
        """Make a new self-signed authority, good for ten years."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(common_name)
        builder = _builder(name, name, key, now, 10 * _YEAR, is_authority=True).add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
        )
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def from_pem(cls, certificate_pem: str, key_pem: str) -> Authority:
        """Load an authority that was stored.

        Raises:
            CertificateError: if a text is not PEM, or the key is not the certificate's.
        """
        try:
            certificate = x509.load_pem_x509_certificate(certificate_pem.encode())
        except ValueError as error:
            raise CertificateError(f"not a PEM certificate: {error}") from error
        try:
            key = serialization.load_pem_private_key(key_pem.encode(), password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise CertificateError(f"not an unencrypted PEM private key: {error}") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise CertificateError("the authority's key is not an elliptic-curve key")
        if key.public_key() != certificate.public_key():
            raise CertificateError("the private key does not belong to the certificate")
        return cls(certificate, key)

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def key_pem(self) -> str:
        return _key_pem(self.key)

    def issue_server(self, hosts: Iterable[str], *, now: datetime, lifetime: timedelta = _YEAR) -> KeyPair:
        """Issue a serving certificate for DNS names and IP addresses; the first host is its common name."""
        names = [_general_name(host) for host in hosts]
        subject = _name(str(names[0].value)[:_LONGEST_COMMON_NAME])
        return self._issue(subject, ExtendedKeyUsageOID.SERVER_AUTH, names, now, lifetime)

    def issue_client(
        self, user: str, groups: Iterable[str] = (), *, now: datetime, lifetime: timedelta = _YEAR
    ) -> KeyPair:
        """Issue a client certificate for a Kubernetes user and its groups."""
        return self._issue(_name(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH, [], now, lifetime)

    def _issue(
        self,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        names: list[x509.GeneralName],
        now: datetime,
        lifetime: timedelta,
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = (
            _builder(subject, self.certificate.subject, key, now, lifetime, is_authority=False)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(issuer, critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        return KeyPair(certificate.public_bytes(serialization.Encoding.PEM).decode(), _key_pem(key))


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    lifetime: timedelta,
    *,
    is_authority: bool,
) -> x509.CertificateBuilder:
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + lifetime)
        .add_extension(x509.BasicConstraints(is_authority, 0 if is_authority else None), critical=True)
        .add_extension(usage, critical=True)
    )


def _name(common_name: str, organizations: Iterable[str] = ()) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host.strip("[]")))
    except ValueError:
        return x509.DNSName(host.encode("idna").decode())


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
