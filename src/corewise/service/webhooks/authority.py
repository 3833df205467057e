"""The webhooks' own authority and serving certificate: what is stored, and what to renew when (pure).

All replicas share one Secret and run the same ``renewed``; whoever writes first wins and the others follow,
so a replica never serves what the webhook configurations do not trust:

1. An authority that is due gets a successor, which joins the trusted bundle. Nothing is signed by it yet.
2. Once the bundle with the successor has been installed in the webhook configurations and API servers have
   had ``SETTLE`` to read it, the successor signs a new serving certificate and takes over.
3. The old authority stays in the bundle until it expires, for replicas that still serve its certificate.

A serving certificate is renewed when a third of its life is left, or when it does not name the hosts it
should.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from corewise.kube import certificates
from corewise.kube.certificates import Authority, CertificateError, KeyPair

SETTLE = timedelta(seconds=60)
AUTHORITY_NAME = "corewise webhook authority"

_BUNDLE = "ca.crt"
_AUTHORITY = ("authority.crt", "authority.key")
_SUCCESSOR = ("next-authority.crt", "next-authority.key")
_SERVING = ("tls.crt", "tls.key")


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """How long certificates are valid."""

    authority: timedelta = timedelta(days=3650)
    serving: timedelta = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class Certificates:
    """What the replicas share: who signs, who signs next, whom to trust, and what is served."""

    authority: KeyPair
    serving: KeyPair
    bundle: str
    successor: KeyPair | None = None


def parse(data: Mapping[str, bytes]) -> Certificates:
    """Read the Secret's data.

    Raises:
        CertificateError: if something is missing or unreadable, or a key is not its certificate's.
    """
    authority, serving = _pair(data, _AUTHORITY), _pair(data, _SERVING)
    if authority is None or serving is None:
        raise CertificateError("the Secret holds no authority or no serving certificate")
    certificates.bundle(bundle := _text(data, _BUNDLE))
    return Certificates(authority, serving, bundle, _pair(data, _SUCCESSOR))


def data_of(stored: Certificates) -> dict[str, str | None]:
    """Return the Secret's data as text; None stands for a key to remove."""
    successor = stored.successor
    return {
        _BUNDLE: stored.bundle,
        _AUTHORITY[0]: stored.authority.certificate_pem,
        _AUTHORITY[1]: stored.authority.key_pem,
        _SUCCESSOR[0]: successor.certificate_pem if successor else None,
        _SUCCESSOR[1]: successor.key_pem if successor else None,
        _SERVING[0]: stored.serving.certificate_pem,
        _SERVING[1]: stored.serving.key_pem,
    }


def renewed(
    stored: Certificates | None,
    *,
    hosts: Iterable[str],
    installed_bundle: str,
    now: datetime,
    lifetimes: Lifetimes,
) -> Certificates:
    """Return what should be stored now; the very same value if nothing is due."""
    hosts = tuple(hosts)
    if stored is None or stored.authority.not_after <= now:
        return _fresh(hosts, now, lifetimes)
    if _third_left(stored.authority, now, lifetimes.authority) and stored.successor is None:
        successor = Authority.create(AUTHORITY_NAME, now=now, lifetime=lifetimes.authority).key_pair
        trusted = certificates.bundle(stored.bundle, successor.certificate_pem)
        stored = replace(stored, successor=successor, bundle=certificates.without_expired(trusted, now=now))
    if stored.successor and _settled(stored.successor, installed_bundle, now):
        stored = replace(stored, authority=stored.successor, successor=None)
        return replace(stored, serving=_issue(stored.authority, hosts, now, lifetimes))
    if _serving_due(stored, hosts, now, lifetimes):
        return replace(stored, serving=_issue(stored.authority, hosts, now, lifetimes))
    return stored


def _fresh(hosts: tuple[str, ...], now: datetime, lifetimes: Lifetimes) -> Certificates:
    authority = Authority.create(AUTHORITY_NAME, now=now, lifetime=lifetimes.authority).key_pair
    return Certificates(authority, _issue(authority, hosts, now, lifetimes), authority.certificate_pem)


def _issue(authority: KeyPair, hosts: tuple[str, ...], now: datetime, lifetimes: Lifetimes) -> KeyPair:
    signer = Authority.from_pem(authority.certificate_pem, authority.key_pem)
    lifetime = min(lifetimes.serving, authority.not_after - now)
    return signer.issue_server(hosts, now=now, lifetime=lifetime)


def _serving_due(stored: Certificates, hosts: tuple[str, ...], now: datetime, lifetimes: Lifetimes) -> bool:
    served = certificates.hosts_of(stored.serving.certificate_pem)
    lifetime = min(lifetimes.serving, stored.serving.lifetime)
    return _third_left(stored.serving, now, lifetime) or not served.issuperset(hosts)


def _third_left(pair: KeyPair, now: datetime, lifetime: timedelta) -> bool:
    return pair.not_after - now < lifetime / 3


def _settled(successor: KeyPair, installed_bundle: str, now: datetime) -> bool:
    known = certificates.bundle(installed_bundle, successor.certificate_pem) == certificates.bundle(
        installed_bundle
    )
    return known and certificates.made_at(successor.certificate_pem) + SETTLE <= now


def _pair(data: Mapping[str, bytes], keys: tuple[str, str]) -> KeyPair | None:
    certificate, key = _text(data, keys[0]), _text(data, keys[1])
    if not certificate or not key:
        return None
    certificates.check_pair(certificate, key)
    return KeyPair(certificate, key)


def _text(data: Mapping[str, bytes], key: str) -> str:
    return data.get(key, b"").decode("ascii", "replace")
