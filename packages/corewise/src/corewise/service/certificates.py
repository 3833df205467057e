"""The certificate that is served: from files, or of our own authority in a Secret; and one for callers.

A new certificate, and new authorities of callers' certificates, make a new TLS context: handshakes from then
on get it, connections that are open go on, nothing is dropped. What cannot be used never replaces what can.

All replicas share one Secret and run the same ``renewed``; whoever writes first wins and the others follow,
so a replica never serves what the webhook configurations do not trust:

1. An authority that is due gets a successor, which joins the trusted bundle. Nothing is signed by it yet.
2. Once the bundle with the successor has been installed in the webhook configurations and API servers have
   had ``SETTLE`` to read it, the successor signs a new serving certificate and takes over.
3. The old authority stays in the bundle until it expires, for replicas that still serve its certificate.

A serving certificate is renewed when a third of its life is left, or when it does not name the hosts it
should.

**For callers** that somebody configures by hand (kube-scheduler, which calls the extender), the same
authority signs a client certificate, kept with the bundle in a Secret of its own and renewed by the same
rule. Somebody copies both to the caller, and the copy may be as old as a client certificate lives: there, an
authority's successor is trusted that long before it signs (``Lifetimes.settle``).
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import tempfile
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeAlias

from corewise.kube import certificates
from corewise.kube.certificates import Authority, CertificateError, KeyPair, check_pair, not_after
from corewise.kube.client import Client
from corewise.kube.clock import Clock, to_beat
from corewise.kube.errors import Conflict, KubeError, NotFound
from corewise.kube.objects import Secret
from corewise.kube.resources import CLUSTER_ROLES, SECRETS
from corewise.prometheus.exposition import Exposition
from corewise.service.logs import fields
from corewise.service.options import Address, OptionsError, ReplicaOptions
from corewise.service.program import Heartbeats
from corewise.vocabulary.exit_codes import ExitCode
from corewise.vocabulary.metrics import CERTIFICATE_EXPIRY

log = logging.getLogger(__name__)

LOOP = "certificates"
_LOOK_EVERY = 10.0
_RETRY = 2.0
_BEAT_LIMIT = 120.0
SETTLE = timedelta(seconds=60)
AUTHORITY_NAME = "corewise webhook authority"
CLIENT_NAME = "corewise-extender-client"

_BUNDLE = "ca.crt"
_AUTHORITY = ("authority.crt", "authority.key")
_SUCCESSOR = ("next-authority.crt", "next-authority.key")
_SERVING = ("tls.crt", "tls.key")


class UnusableFilesError(OptionsError):
    """The files of the serving certificate cannot be used."""

    exit_code = ExitCode.BAD_INPUT


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """The validity of certificates.

    ``settle``: how long an authority's successor is trusted before it signs.
    """

    authority: timedelta = timedelta(days=3650)
    serving: timedelta = timedelta(days=90)
    client: timedelta = timedelta(days=365)
    settle: timedelta = SETTLE


@dataclass(frozen=True, slots=True)
class Certificates:
    """The certificates that replicas share: authority, serving pair, trusted bundle, next authority."""

    authority: KeyPair
    serving: KeyPair
    bundle: str
    successor: KeyPair | None = None


def certificates_in(data: Mapping[str, bytes]) -> Certificates:
    """Read the Secret's data.

    Raises:
        CertificateError: if something is missing or unreadable, or a key is not its certificate's.
    """
    authority, serving = _pair(data, _AUTHORITY), _pair(data, _SERVING)
    if authority is None or serving is None:
        raise CertificateError("the Secret holds no authority or no serving certificate")
    certificates.bundle(bundle := _text(data, _BUNDLE))
    return Certificates(authority, serving, bundle, _pair(data, _SUCCESSOR))


def secret_data(stored: Certificates) -> dict[str, str | None]:
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
    """Return the certificates to store now; the very same value if nothing is due."""
    hosts = tuple(hosts)
    if stored is None or stored.authority.not_after <= now:
        return _fresh(hosts, now, lifetimes)
    if _third_left(stored.authority, now, lifetimes.authority) and stored.successor is None:
        successor = Authority.create(AUTHORITY_NAME, now=now, lifetime=lifetimes.authority).key_pair
        trusted = certificates.bundle(stored.bundle, successor.certificate_pem)
        stored = replace(stored, successor=successor, bundle=certificates.without_expired(trusted, now=now))
    if stored.successor and _settled(stored.successor, installed_bundle, now, lifetimes.settle):
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


def _settled(successor: KeyPair, installed_bundle: str, now: datetime, settle: timedelta) -> bool:
    known = certificates.bundle(installed_bundle, successor.certificate_pem) == certificates.bundle(
        installed_bundle
    )
    return known and certificates.made_at(successor.certificate_pem) + settle <= now


def renewed_client(
    stored: KeyPair | None, authority: KeyPair, *, now: datetime, lifetimes: Lifetimes
) -> KeyPair:
    """Return the client certificate that should be stored now; the very same value if nothing is due."""
    if stored and certificates.is_issued_by(stored.certificate_pem, authority.certificate_pem):
        lifetime = min(lifetimes.client, stored.lifetime)
        if not _third_left(stored, now, lifetime):
            return stored
    signer = Authority.from_pem(authority.certificate_pem, authority.key_pem)
    return signer.issue_client(
        CLIENT_NAME, now=now, lifetime=min(lifetimes.client, authority.not_after - now)
    )


def _pair(data: Mapping[str, bytes], keys: tuple[str, str]) -> KeyPair | None:
    certificate, key = _text(data, keys[0]), _text(data, keys[1])
    if not certificate or not key:
        return None
    certificates.check_pair(certificate, key)
    return KeyPair(certificate, key)


def _text(data: Mapping[str, bytes], key: str) -> str:
    return data.get(key, b"").decode("ascii", "replace")


class ServingContext:
    """The TLS context of the webhooks, and the certificate in it.

    ``demand``: with authorities of callers' certificates, a handshake without a certificate fails; else it
    succeeds, and guards tell who showed one.
    """

    def __init__(self, *, demand: bool = True) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.loaded = asyncio.Event()
        self.expires: datetime | None = None
        self._demand = demand
        self._current: tuple[KeyPair, str] | None = None

    def load(self, pair: KeyPair, client_ca: str = "") -> bool:
        """Serve this certificate from the next handshake on; say whether anything is other than before.

        ``client_ca``: the authorities (PEM) that sign the certificates of callers; empty to ask for none.

        Raises:
            CertificateError: if certificate and key are unreadable or do not belong together, or the
                authorities are none.
        """
        if (pair, client_ca) == self._current:
            return False
        check_pair(pair.certificate_pem, pair.key_pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # A resumed session would outlive the authorities that its certificate was checked against.
        context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
        context.num_tickets = 0
        if client_ca:
            context.verify_mode = ssl.CERT_REQUIRED if self._demand else ssl.CERT_OPTIONAL
            try:
                context.load_verify_locations(cadata=client_ca)
            except ssl.SSLError as error:
                raise CertificateError(
                    f"--client-ca holds no certificate: {error.reason or error}"
                ) from error
        with tempfile.TemporaryDirectory(prefix="corewise-") as directory:
            path = Path(directory, "serving.pem")
            path.touch(mode=0o600)
            path.write_text(pair.certificate_pem + "\n" + pair.key_pem)
            context.load_cert_chain(path)
        self.context, self._current, self.expires = (
            context,
            (pair, client_ca),
            not_after(pair.certificate_pem),
        )
        self.loaded.set()
        return True

    def problem(self, now: datetime) -> str:
        """Return the reason that webhooks cannot be served with this certificate; empty if they can."""
        if self.expires is None:
            return "there is no serving certificate yet"
        if self.expires <= now:
            return f"the serving certificate expired at {self.expires:%Y-%m-%dT%H:%M:%SZ}: renew it"
        return ""


class FileCertificates:
    """A certificate and key in files that something else renews, such as a mounted Secret of cert-manager."""

    def __init__(self, certificate: str, key: str) -> None:
        self._certificate = Path(certificate)
        self._key = Path(key)

    async def current(self) -> KeyPair:
        """Return the certificate to serve now.

        Raises:
            CertificateError: if the files cannot be read.
        """
        return await asyncio.to_thread(self._read)

    def _read(self) -> KeyPair:
        try:
            return KeyPair(self._certificate.read_text(), self._key.read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise CertificateError(f"cannot read the certificate files: {error}") from error


class _Stored:
    """One Secret, written only as it was read, or where there is none; ``owner`` is as in ``Elector``."""

    def __init__(self, client: Client, namespace: str, name: str, owner: str) -> None:
        self._owner = owner
        self._client = client
        self._namespace = namespace
        self._name = name
        self._read: Secret | None = None

    async def data(self) -> Mapping[str, bytes]:
        """Read the Secret's data; there is none in one that does not exist."""
        try:
            self._read = await self._client.get(SECRETS, self._name, self._namespace)
        except NotFound:
            self._read = None
        return self._read.data if self._read else {}

    def unusable(self, error: CertificateError) -> None:
        """Log that the unusable value is replaced, unless there was none."""
        if self._read is not None:
            log.warning("Secret is unusable and is replaced", extra=fields(secret=self._name, error=error))

    async def write(self, texts: Mapping[str, str | None]) -> None:
        """Write keys, or remove those that are None.

        Raises:
            Conflict: if somebody has written it since it was read.
        """
        data = {
            key: None if text is None else b64encode(text.encode()).decode() for key, text in texts.items()
        }
        if self._read is None:
            present = {key: value for key, value in data.items() if value is not None}
            owners = await self._client.owners(CLUSTER_ROLES, self._owner)
            metadata = {"name": self._name, "namespace": self._namespace, "ownerReferences": owners}
            await self._client.create(SECRETS, {"metadata": metadata, "data": present}, self._namespace)
        else:
            version = {"resourceVersion": self._read.metadata.resource_version}
            patch = {"metadata": version, "data": data}
            await self._client.patch(SECRETS, self._name, patch, namespace=self._namespace)


class SharedCertificates:
    """Our own authority, kept in a Secret that all replicas share and any of them renews."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        hosts: tuple[str, ...],
        installed_bundle: Callable[[], str],
        *,
        clock: Clock,
        lifetimes: Lifetimes | None = None,
        owner: str = "",
    ) -> None:
        self._secret = _Stored(client, namespace, name, owner)
        self._hosts = hosts
        self._installed_bundle = installed_bundle
        self._clock = clock
        self._lifetimes = lifetimes or Lifetimes()
        self.bundle = ""
        self.authority: KeyPair | None = None

    async def current(self) -> KeyPair:
        """Return the shared certificate, after renewing what is due; who writes second reads again."""
        while True:
            try:
                stored = await self._agreed()
            except Conflict:
                continue
            self.bundle, self.authority = stored.bundle, stored.authority
            return stored.serving

    async def _agreed(self) -> Certificates:
        try:
            stored = certificates_in(await self._secret.data())
        except CertificateError as error:
            self._secret.unusable(error)
            stored = None
        due = renewed(
            stored,
            hosts=self._hosts,
            installed_bundle=self._installed_bundle(),
            now=self._clock.now(),
            lifetimes=self._lifetimes,
        )
        if due is not stored:
            await self._secret.write(secret_data(due))
            log.info("certificates renewed", extra=fields(serving_expires=due.serving.not_after))
        return due


class ClientCertificate:
    """The client certificate of callers, in a Secret of its own: ``tls.crt``, ``tls.key``, ``ca.crt``."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        source: SharedCertificates,
        *,
        clock: Clock,
        lifetimes: Lifetimes | None = None,
        owner: str = "",
    ) -> None:
        self._secret = _Stored(client, namespace, name, owner)
        self._clock = clock
        self._lifetimes = lifetimes or Lifetimes()
        self.source = source

    async def look(self) -> None:
        """Renew what is due, once there is an authority; what another replica has written meanwhile stays.

        Raises:
            KubeError: if the Secret cannot be read or written.
        """
        if self.source.authority is None:
            return
        data = await self._secret.data()
        try:
            stored = _pair(data, _SERVING)
        except CertificateError as error:
            self._secret.unusable(error)
            stored = None
        due = renewed_client(stored, self.source.authority, now=self._clock.now(), lifetimes=self._lifetimes)
        if due is stored and _text(data, _BUNDLE) == self.source.bundle:
            return
        texts = {_SERVING[0]: due.certificate_pem, _SERVING[1]: due.key_pem, _BUNDLE: self.source.bundle}
        with suppress(Conflict):
            await self._secret.write(texts)
            log.info("client certificate renewed", extra=fields(expires=due.not_after))


CertificateSource: TypeAlias = FileCertificates | SharedCertificates


def certificate_source(
    options: ReplicaOptions,
    listen: Address,
    client: Client,
    secret: tuple[str, str],
    installed_bundle: Callable[[], str],
    *,
    clock: Clock,
    lifetimes: Lifetimes | None,
    owner: str,
) -> CertificateSource:
    """Return the source of the serving certificate; ``secret`` is the namespace and name of our own.
    ``listen``: where webhooks are served.

    Raises:
        OptionsError: if nothing says where.
    """
    if options.tls_cert and options.tls_key:
        return FileCertificates(options.tls_cert, options.tls_key)
    if not options.manage_webhooks:
        raise OptionsError("webhooks need a certificate: --tls-cert and --tls-key, or --manage-webhooks")
    return SharedCertificates(
        client,
        *secret,
        options.webhook_hosts(listen),
        installed_bundle,
        clock=clock,
        lifetimes=lifetimes,
        owner=owner,
    )


class CertificateKeeper:
    """Keeps the serving context current, and the certificate of ``clients`` if callers need one of ours."""

    def __init__(
        self,
        source: CertificateSource,
        serving: ServingContext,
        client_ca: str = "",
        *,
        clients: ClientCertificate | None = None,
        metrics: Exposition,
        heartbeats: Heartbeats,
        clock: Clock,
    ) -> None:
        self._clients = clients
        self._source = source
        self._serving = serving
        self._client_ca = Path(client_ca) if client_ca else None
        self._metrics = metrics
        self._heartbeats = heartbeats
        self._clock = clock
        self._told = ""

    async def run(self) -> None:
        """Look for a new certificate every ten seconds, until canceled."""
        while True:
            self._heartbeats.beat(LOOP, _BEAT_LIMIT)
            await self.look()
            await self._clock.sleep(to_beat(self._clock, _LOOK_EVERY if self._serving.expires else _RETRY))

    async def begin(self) -> None:
        """Load the certificate of a program that does not start without one.

        Raises:
            UnusableFilesError: if the files cannot be used.
        """
        try:
            await self._load()
        except CertificateError as error:
            options = "--tls-cert, --tls-key or --client-ca" if self._client_ca else "--tls-cert or --tls-key"
            raise UnusableFilesError(f"{options} cannot be used: {error}") from error

    async def _load(self) -> None:
        if self._serving.load(await self._source.current(), await asyncio.to_thread(self._authorities)):
            log.info("serving certificate loaded", extra=fields(expires=self._serving.expires))

    async def look(self) -> None:
        """Load the current certificate, if there is a usable one."""
        try:
            await self._load()
        except (CertificateError, KubeError) as error:
            self._tell(f"the serving certificate cannot be renewed: {error}")
        else:
            self._tell(self._serving.problem(self._clock.now()) or await self._look_after_clients())
        if self._serving.expires:
            self._metrics.set(CERTIFICATE_EXPIRY, self._serving.expires.timestamp())

    async def _look_after_clients(self) -> str:
        """Renew the certificate of callers; return why that fails, if it does."""
        try:
            if self._clients:
                await self._clients.look()
        except KubeError as error:
            return f"the client certificate cannot be renewed: {error}"
        return ""

    def _authorities(self) -> str:
        """Return the authorities of callers' certificates; an empty file has none."""
        if self._client_ca is None:
            return self._clients.source.bundle if self._clients else ""
        try:
            text = self._client_ca.read_text("ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise CertificateError(f"cannot read --client-ca: {error}") from error
        if not text.strip():
            raise CertificateError(f"--client-ca is empty: {self._client_ca}")
        return text

    def _tell(self, problem: str) -> None:
        if problem and problem != self._told:
            log.error(problem)
        self._told = problem
