"""Hosts whose ledgers are read and claimed over their agents' HTTPS API, and not in a shared directory.

The agent decides (:mod:`corewise_openstack.compute.ledger_server`); what was read here is only where a
scheduler looks first. An agent that does not answer before a claim is sent costs nothing: the next host is
tried. A request whose answer is lost is sent once more, which changes nothing if it was carried out. If that
answer is lost too, the outcome is unknown, and that is an error: another host might give the guest a second
claim.
"""

from __future__ import annotations

import http.client
import ssl
import time
import weakref
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar
from urllib.parse import quote, urlsplit

import msgspec

import corewise
from corewise.config.machine_file import parse_machine
from corewise.kube.auth import Identity, client_context
from corewise.kube.certificates import CertificateError, not_after
from corewise.kube.clock import SYSTEM_CLOCK
from corewise.kube.config import ClusterConfig
from corewise.kube.errors import ConfigError
from corewise.topology import CPUSet, CPUSetError
from corewise.vocabulary.errors import UNREADABLE, unreadable_text
from corewise.vocabulary.findings import Finding
from corewise_openstack.compute.errors import (
    AgentFailed,
    AgentIncompatible,
    AgentUnreachable,
    AgentUntrusted,
    ComputeError,
    FileUnusable,
)
from corewise_openstack.compute.hosts import ComputeHost, Hosts, settings_of
from corewise_openstack.compute.ledger import Change, GuestClaim, GuestRecord, HostRecord
from corewise_openstack.compute.ledger_api import (
    CLAIMS,
    GUESTS,
    HOST,
    LOCK,
    ClaimAnswer,
    FailureAnswer,
    HostAnswer,
    LedgerPatch,
)
from corewise_openstack.tracking import Compat, HostOptions

T = TypeVar("T")

READING, CLAIMING = 10.0, 150.0
"""Seconds that an answer may take. An agent waits up to 60 s each for its ledger's lock and for Placement."""

_AT_A_TIME = 16
_LARGEST = 64 << 20
_SHOWN = 300
_EXPIRED = 10
_OTHER_NAME = frozenset({62, 64})
"""OpenSSL's X509_V_ERR_CERT_HAS_EXPIRED, _HOSTNAME_MISMATCH and _IP_ADDRESS_MISMATCH."""


class TLSFiles(msgspec.Struct, frozen=True):
    """PEM files: the authorities of agents' certificates, and the certificate to show them with its key."""

    cacert: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Return the TLS context for connections to agents.

        Raises:
            FileUnusable: if a file is not what it should be.
        """
        read = {name: _content(name, getattr(self, name)) for name in self.__struct_fields__}
        given = " ".join(f"--{name} {getattr(self, name)}" for name in read if read[name])
        config = ClusterConfig("", ca_pem=read["cacert"], source=given)
        try:
            return client_context(config, Identity(certificate=read["cert"], key=read["key"]))
        except ConfigError as error:
            raise FileUnusable(str(error)) from error

    @property
    def own_has_expired(self) -> bool:
        """Whether the certificate that agents are shown is too old."""
        try:
            return self.cert is not None and not_after(self.cert.read_text()) <= SYSTEM_CLOCK.now()
        except (OSError, CertificateError):
            return False


def _content(option: str, file: Path | None) -> bytes:
    try:
        return b"" if file is None else file.read_bytes()
    except OSError as error:
        raise FileUnusable(f"--{option} {file} cannot be read: {error.strerror}") from error


class RemoteAgent:
    """The agent of one host, and the ledger that it has. For one thread at a time."""

    def __init__(
        self,
        url: str,
        files: TLSFiles,
        *,
        name: str = "",
        reading: float = READING,
        claiming: float = CLAIMING,
    ) -> None:
        self.url = url.rstrip("/")
        parts = urlsplit(self.url)
        self._address = parts.hostname or "", parts.port or 443
        self._files = files
        self._context = files.context()
        self._reading, self._claiming = reading, claiming
        self._connection: http.client.HTTPSConnection | None = None
        self._locked = False
        self._last: tuple[bytes, HostRecord] | None = None
        self.name = name
        self.options = HostOptions()
        self.last_report: float | None = None

    def host(self) -> ComputeHost:
        """Return the host, as its agent describes it.

        Raises:
            AgentFailed: if the agent does not say, or is that of another host.
            OptionsUnusable: if the host's options have errors.
        """
        answer = self._read_host()
        if self.name and answer.host != self.name:
            raise AgentIncompatible(
                f"the agent at {self.url} is that of host {answer.host}, not of {self.name}",
                hint=f"write --agent {answer.host}={self.url}",
            )
        self.name, self.options = answer.host, answer.options
        machine = parse_machine(bytes(answer.machine).decode())
        if machine.value is None:
            raise AgentIncompatible(
                f"the agent at {self.url} describes its machine wrongly: {machine.errors[0]}"
            )
        try:
            nova_cpus = None if answer.nova_cpus is None else CPUSet.parse(answer.nova_cpus)
        except CPUSetError as error:
            raise AgentIncompatible(f"the agent at {self.url} names Nova's CPUs wrongly: {error}") from error
        rules = answer.compat if nova_cpus is None else Compat.NOVA
        settings = settings_of(self.name, answer.options, machine.value, rules)
        return ComputeHost(self.name, machine.value, settings, self, nova_cpus=nova_cpus, agent=self)

    def read(self) -> HostRecord:
        """Return the ledger's present record of the host.

        Raises:
            AgentFailed: if the agent does not say.
        """
        self._read_host()
        assert self._last is not None  # noqa: S101 - just read
        return self._last[1]

    @contextmanager
    def changing(self) -> Iterator[Change]:
        """Have the agent lock its ledger for this connection, and yield it; the agent checks what is written.

        Raises:
            AgentFailed: if the agent does not lock it, or refuses what is written.
        """
        locked = self._decoded(self._send("POST", LOCK, wait=self._claiming), HostRecord)
        self._locked = True
        written = locked.guests

        def write(_serial: int, host: HostRecord) -> None:
            nonlocal written
            now = host.guests
            changed = {
                uuid: now.get(uuid) for uuid in {**written, **now} if written.get(uuid) != now.get(uuid)
            }
            self._send("PATCH", LOCK, msgspec.json.encode(LedgerPatch(changed)), wait=self._claiming)
            written = now

        try:
            yield Change(write, 0, locked)
        finally:
            self._locked = False
            try:
                if self._connection is not None:
                    self._send("DELETE", LOCK, wait=self._reading)
            except AgentFailed:
                self.close()  # which releases the lock

    def take(self, claim: GuestClaim) -> GuestRecord | Finding:
        """Have the agent give the guest CPUs; or say why it does not.

        Raises:
            AgentUnreachable: if it is unknown whether it did.
            AgentFailed: if it could not.
        """
        try:
            content = self._send("POST", CLAIMS, msgspec.json.encode(claim), wait=self._claiming)
        except AgentUntrusted as error:
            return Finding(error.reason, str(error))
        except AgentUnreachable as error:
            if not error.sent:
                return Finding(error.reason, str(error))
            guest = f"it is unknown whether guest {claim.guest} has CPUs there"
            hint = f"see with corewise compute status; to release them: corewise compute delete {claim.guest}"
            raise AgentUnreachable(f"{error}: {guest}", hint=hint, sent=True) from error
        answer = self._decoded(content, ClaimAnswer)
        if answer.record is not None:
            return answer.record
        if answer.refusal is None:
            raise AgentIncompatible(f"the agent at {self.url} gives neither CPUs nor a reason")
        return answer.refusal

    def release(self, guest: str) -> None:
        """Have the agent release what a guest holds of the host.

        Raises:
            AgentFailed: if it does not.
        """
        self._send("DELETE", GUESTS + quote(guest, safe=""), wait=self._claiming)

    def _read_host(self) -> HostAnswer:
        answer = self._decoded(self._send("GET", HOST, wait=self._reading), HostAnswer)
        self.last_report = None if answer.silent is None else time.time() - answer.silent
        text = bytes(answer.ledger)
        if self._last is None or self._last[0] != text:
            self._last = text, self._decoded(text, HostRecord)
        return answer

    def _decoded(self, content: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(content, type=kind)
        except UNREADABLE as error:
            raise AgentIncompatible(
                f"the answer of the agent at {self.url} is not that of corewise {corewise.__version__}: "
                f"{unreadable_text(error)}"
            ) from error

    def _send(self, method: str, path: str, body: bytes | None = None, *, wait: float) -> bytes:
        """Send a request, and once more if the connection breaks; return the body of a good answer."""
        if self._locked and self._connection is None:
            raise self._lock_lost()
        for is_last in (self._locked, True):
            connection = self._connected(wait, sent=is_last)
            try:
                connection.request(method, path, body, {"Content-Type": "application/json"})
                response = connection.getresponse()
                content = response.read(_LARGEST)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if self._locked:
                    raise self._lock_lost() from error
                if is_last or isinstance(error, TimeoutError) or _is_alert(error):
                    raise self._no_answer(error, wait, reads=method == "GET") from error
                continue
            if response.will_close:
                self.close()
            break
        if response.status >= 300:
            raise self._failure(response.status, content, path)
        return content

    def _connected(self, wait: float, *, sent: bool) -> http.client.HTTPSConnection:
        """Return a connection; ``sent``: the request has been sent on another one already."""
        if self._connection is None:
            made = http.client.HTTPSConnection(*self._address, timeout=self._reading, context=self._context)
            try:
                made.connect()
            except OSError as error:
                made.close()
                raise self._not_connected(error, sent=sent) from error
            self._connection = made
            weakref.finalize(self, made.close)
        self._connection.sock.settimeout(wait)
        return self._connection

    def _lock_lost(self) -> AgentUnreachable:
        message = f"the connection to the agent at {self.url}, and with it the lock of its ledger, is lost"
        return AgentUnreachable(message, hint="run the same command again: it goes on from there", sent=True)

    def close(self) -> None:
        """End the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _not_connected(self, error: OSError, *, sent: bool) -> AgentFailed:
        its = f"the certificate of the agent at {self.url}"
        match error:
            case ssl.SSLCertVerificationError(verify_code=code) if code == _EXPIRED:
                return AgentUntrusted(f"{its} has expired", hint="renew --tls-cert of the agent")
            case ssl.SSLCertVerificationError(verify_code=code) if code in _OTHER_NAME:
                host = self._address[0]
                return AgentUntrusted(
                    f"{its} is not for {host}",
                    hint=f"connect by a name that it has, or issue it with subjectAltName {host}",
                )
            case ssl.SSLCertVerificationError():
                return AgentUntrusted(
                    f"{its} is not signed by an authority of --cacert: {error.verify_message}",
                    hint="name the authority that signed it with --cacert",
                )
            case ssl.SSLError() if _is_alert(error):
                return self._refused(error)
            case ssl.SSLError():
                words = f"it does not speak TLS as it should: {_words(error)}"
            case TimeoutError():
                words = f"no connection within {self._reading:g} s"
            case _:
                words = f"cannot connect: {error.strerror or error}"
        return AgentUnreachable(
            f"the agent at {self.url}: {words}", hint=AgentUnreachable.reason.fix, sent=sent
        )

    def _no_answer(self, error: Exception, wait: float, *, reads: bool) -> AgentFailed:
        """Return the error for a connection that was made, and then ended without an answer.

        With TLS 1.3 a caller learns only now that its certificate is not accepted.
        """
        if isinstance(error, ssl.SSLError) and _is_alert(error):
            return self._refused(error)
        if self._files.own_has_expired:
            return self._expired()
        closed = f"the agent at {self.url} closed the connection without an answer"
        if isinstance(error, TimeoutError):
            words = f"the agent at {self.url}: no answer within {wait:g} s"
            return AgentUnreachable(words, hint="look into the log of the agent", sent=True)
        if reads:
            return AgentUntrusted(
                f"{closed}, as it does when it does not accept the certificate of --cert",
                hint="have an authority of the agent's --client-ca sign --cert; the agent's log says more",
            )
        return AgentUnreachable(closed, hint="see whether the agent runs, and look into its log", sent=True)

    def _refused(self, error: ssl.SSLError) -> AgentUntrusted:
        """Return the error for a TLS alert: the agent does not accept our certificate."""
        if self._files.own_has_expired:
            return self._expired()
        return AgentUntrusted(
            f"the agent at {self.url} does not accept the certificate of --cert: {_words(error)}",
            hint="name a certificate that an authority of the agent's --client-ca has signed",
        )

    def _expired(self) -> AgentUntrusted:
        return AgentUntrusted(f"--cert {self._files.cert} has expired", hint="renew it")

    def _failure(self, status: int, content: bytes, path: str) -> AgentFailed:
        """Return the error that an answer means."""
        try:
            told = msgspec.json.decode(content, type=FailureAnswer)
        except UNREADABLE:
            words = " ".join(content[:_SHOWN].decode("utf-8", "replace").split())
            if status == 401:
                hint = "name it with --cert and its key with --key"
                return AgentUntrusted(f"the agent at {self.url}: {words}", hint=hint)
            if status in {404, 405}:
                return AgentIncompatible(
                    f"what answers at {self.url} does not have {path.rpartition('/')[0]}, so it is not the "
                    f"agent of corewise {corewise.__version__}"
                )
            return AgentFailed(f"the agent at {self.url} answers {status}: {words}")
        message = f"host {self.name or self.url}: {told.message}"
        return AgentFailed(message, hint=told.hint, reason=told.reason, exit_code=told.exit_code)


def _words(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).lower().replace("_", " ")


def _is_alert(error: Exception) -> bool:
    """Whether the other side of TLS says why it ends the connection."""
    return isinstance(error, ssl.SSLError) and " alert " in f" {_words(error)} "


def remote_hosts(named: Iterable[tuple[str, str]], files: TLSFiles) -> Hosts:
    """Ask agents for their hosts, many at a time; each is its host's name, or "", and its URL.

    A host without a name whose agent does not answer goes by the host name in its URL.

    Raises:
        FileUnusable: if a file of a certificate cannot be used.
    """
    agents = [RemoteAgent(url, files, name=name) for name, url in named]

    def described(agent: RemoteAgent) -> ComputeHost | ComputeError:
        try:
            return agent.host()
        except ComputeError as error:
            return error

    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        found = list(zip(agents, pool.map(described, agents), strict=True))
    known = {each.name: each for _, each in found if isinstance(each, ComputeHost)}
    unusable = {
        agent.name or urlsplit(agent.url).hostname or agent.url: each
        for agent, each in found
        if isinstance(each, ComputeError)
    }
    return Hosts(MappingProxyType(known), MappingProxyType(unusable))
