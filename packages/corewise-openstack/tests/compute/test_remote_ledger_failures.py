"""What goes wrong between a scheduler and the agent of a host: a sentence each, which says what to do.

================================= =======================================================
what is wrong                     then
================================= =======================================================
another authority, either side    AgentUntrusted, naming --cacert or --cert
no certificate of the caller      AgentUntrusted (401)
an expired certificate, either    AgentUntrusted, naming which
the agent's is for another name   AgentUntrusted, naming the name
the agent does not speak TLS      AgentUnreachable
no answer in time                 AgentUnreachable; of a claim, the outcome is unknown
another program, another version  AgentIncompatible
another host                      AgentIncompatible, with the option to write
a body that is too large          AgentFailed (413)
another host's provider           a refusal: an agent claims of its own host alone
================================= =======================================================
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from compute.compute_world import World, guest, request
from compute.ledger_agents import ANOTHER, LOOPBACK, NOW, OURS, Certificates, Running, agent_options, running
from corewise.service.options import OptionsError
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.metrics import HTTP_REFUSED
from corewise.vocabulary.reasons import Reason
from corewise_openstack.compute.errors import AgentFailed, AgentIncompatible, AgentUnreachable, AgentUntrusted
from corewise_openstack.compute.ledger import GuestClaim, GuestRecord
from corewise_openstack.compute.remote import RemoteAgent, TLSFiles
from corewise_openstack.vocabulary.placement import DISK_GB, PCPU, VCPU
from placement_world import host

OLD = timedelta(days=2)


@pytest.fixture
def certificates(tmp_path: Path, world: World) -> Certificates:
    """Certificates, in front of a Placement without providers."""
    return Certificates(tmp_path)


@pytest.fixture
def agent(certificates: Certificates) -> Iterator[Running]:
    with running(certificates, agent_options(certificates, "a")) as running_agent:
        yield running_agent


@contextmanager
def asking(url: str, files: TLSFiles, **more: Any) -> Iterator[RemoteAgent]:
    made = RemoteAgent(url, files, **more)
    try:
        yield made
    finally:
        made.close()


def a_claim(**allocations: dict[str, int]) -> GuestClaim:
    cpus = request(2, {"hw:cpu_policy": "dedicated"}).cpus
    return GuestClaim(guest(1), cpus, allocations or {"": {PCPU: 2}}, next(iter(allocations), ""))


CALLERS: dict[str, tuple[Callable[[Certificates], TLSFiles], str]] = {
    "the agent is of another authority": (
        lambda of: of.caller(cacert="another"),
        r"is not signed by an authority of --cacert: self-signed|is not signed by an authority of --cacert",
    ),
    "the caller has no certificate": (lambda of: of.caller(""), "show a client certificate"),
    "the caller is of another authority": (
        lambda of: _caller(of, ANOTHER.issue_client("stranger", now=NOW)),
        "does not accept the certificate of --cert",
    ),
    "the caller's certificate has expired": (
        lambda of: _caller(of, OURS.issue_client("old", now=NOW - OLD, lifetime=timedelta(days=1))),
        r"--cert .*other\.crt has expired",
    ),
    "the caller shows a server's certificate": (
        lambda of: _caller(of, OURS.issue_server(["x"], now=NOW)),
        "does not accept the certificate of --cert",
    ),
}


def _caller(of: Certificates, pair: object) -> TLSFiles:
    of.put("other", pair)  # type: ignore[arg-type]
    return of.caller("other")


@pytest.mark.parametrize("what", CALLERS)
def test_who_is_not_trusted_is_told_why(certificates: Certificates, agent: Running, what: str) -> None:
    caller, words = CALLERS[what]
    with asking(agent.url, caller(certificates)) as asked:
        with pytest.raises(AgentUntrusted, match=words) as refused:
            asked.host()
        assert refused.value.hint


AGENTS = {
    "expired": (Certificates.server(LOOPBACK, age=OLD), "has expired", "renew --tls-cert"),
    "other name": (Certificates.server("n1.example"), f"is not for {LOOPBACK}", f"subjectAltName {LOOPBACK}"),
}


@pytest.mark.parametrize("what", AGENTS)
def test_agent_with_a_wrong_certificate_is_not_asked(certificates: Certificates, what: str) -> None:
    pair, words, hint = AGENTS[what]
    certificates.put("agent", pair)
    with running(certificates, agent_options(certificates, "a")) as agent:
        with (
            asking(agent.url, certificates.caller()) as asked,
            pytest.raises(AgentUntrusted, match=words) as refused,
        ):
            asked.host()
        assert hint in refused.value.hint


def test_claim_without_certificate_is_refused_trying_next_host(
    certificates: Certificates, agent: Running
) -> None:
    with asking(agent.url, certificates.caller("")) as asked:
        refusal = asked.take(a_claim())
    assert isinstance(refusal, Finding)
    assert refusal.reason is Reason.AGENT_UNTRUSTED
    assert agent.counted(HTTP_REFUSED, "ledger", "unauthenticated") == 1


def test_agent_without_a_usable_certificate_does_not_start(certificates: Certificates) -> None:
    (certificates.folder / "agent.key").write_text(OURS.issue_server(["x"], now=NOW).key_pem)
    with (
        pytest.raises(OptionsError, match="--tls-cert, --tls-key or --client-ca cannot be used"),
        running(certificates, agent_options(certificates, "a")),
    ):
        pass


@contextmanager
def listening(answer: Callable[[socket.socket], object]) -> Iterator[str]:
    """A server that accepts connections, and does this with each."""
    with socket.create_server((LOOPBACK, 0)) as server:
        server.settimeout(10)
        over = threading.Event()

        def serve() -> None:
            held = []
            while not over.is_set():
                try:
                    connection, _ = server.accept()
                except OSError:
                    break
                held.append(connection)
                answer(connection)
            for each in held:
                each.close()

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"https://{LOOPBACK}:{server.getsockname()[1]}"
        over.set()
        with socket.create_connection(server.getsockname()):
            thread.join()


def test_what_does_not_speak_tls_is_named(certificates: Certificates) -> None:
    with (
        listening(lambda each: each.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as url,
        asking(url, certificates.caller()) as asked,
        pytest.raises(AgentUnreachable, match="does not speak TLS"),
    ):
        asked.host()


def test_agent_too_slow_to_answer_is_given_up(certificates: Certificates) -> None:
    with (
        listening(lambda _each: None) as url,
        asking(url, certificates.caller(), reading=0.2) as asked,
    ):
        with pytest.raises(AgentUnreachable, match=r"no connection within 0\.2 s"):
            asked.host()
        refusal = asked.take(a_claim())
    assert isinstance(refusal, Finding)


class _Other(BaseHTTPRequestHandler):
    """Another program, or the agent of another version."""

    answers: tuple[int, bytes] = (404, b"404: Not Found\n")
    silent = False

    def do_GET(self) -> None:
        status, content = self.answers
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if not self.silent:
            self.close_connection = True  # dies with the request in its hands
        else:
            threading.Event().wait(1)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """No one reads it."""


@contextmanager
def other(certificates: Certificates, kind: type[_Other]) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.folder / "agent.crt", certificates.folder / "agent.key")
    with HTTPServer((LOOPBACK, 0), kind) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"https://{LOOPBACK}:{server.server_port}"
        server.shutdown()
        thread.join()


VERSIONS = {
    "without this path": ((404, b"404: Not Found\n"), "does not have /v1"),
    "with other fields": ((200, b'{"host": "a"}'), "missing required field `machine`"),
    "another program": ((200, b"<html>"), "is malformed"),
}


@pytest.mark.parametrize("what", VERSIONS)
def test_another_program_or_version_is_named(certificates: Certificates, what: str) -> None:
    answers, words = VERSIONS[what]
    kind = type("_Answering", (_Other,), {"answers": answers})
    with (
        other(certificates, kind) as url,
        asking(url, certificates.caller()) as asked,
        pytest.raises(AgentIncompatible, match=words),
    ):
        asked.host()


@pytest.mark.parametrize(
    ("silent", "words"), [(False, "closed the connection"), (True, "no answer within 0.2 s")]
)
def test_unanswered_claim_is_an_error_without_next_host(
    certificates: Certificates, words: str, *, silent: bool
) -> None:
    kind = type("_Dying", (_Other,), {"silent": silent})
    with (
        other(certificates, kind) as url,
        asking(url, certificates.caller(), claiming=0.2) as asked,
        pytest.raises(AgentUnreachable, match=words) as lost,
    ):
        asked.take(a_claim())
    assert f"it is unknown whether guest {guest(1)} has CPUs there" in str(lost.value)
    assert f"corewise compute delete {guest(1)}" in lost.value.hint


def test_agent_of_another_host_is_not_accepted(certificates: Certificates, agent: Running) -> None:
    made = RemoteAgent(agent.url, certificates.caller(), name="b")
    with pytest.raises(AgentIncompatible, match="is that of host a, not of b") as wrong:
        made.host()
    made.close()
    assert wrong.value.hint == f"write --agent a={agent.url}"


def test_a_body_that_is_too_large_is_refused(certificates: Certificates, agent: Running) -> None:
    with (
        asking(agent.url, certificates.caller()) as asked,
        pytest.raises(AgentFailed, match="answers 413: the body is larger than 1048576 bytes"),
    ):
        asked._send("POST", "/v1/claims", b"x" * (1 << 20) + b"x", wait=10)


def test_an_agent_claims_of_its_own_host_alone(
    world: World, certificates: Certificates, agent: Running
) -> None:
    other = host(world.client, PCPU=4, DISK_GB=10).uuid
    own = world.client.providers("a")[0].uuid
    with asking(agent.url, certificates.caller()) as asked:
        for allocations in ({other: {PCPU: 2}}, {own: {PCPU: 2}, other: {PCPU: 2}}):
            refused = asked.take(a_claim(**allocations))
            assert isinstance(refused, Finding)
            assert f"not of {other}" in refused.message
        assert world.client.consumer(guest(1)) is None
        shared_disk = {own: {PCPU: 2}, other: {DISK_GB: 5}}
        assert isinstance(asked.take(a_claim(**shared_disk)), GuestRecord)
    consumer = world.client.consumer(guest(1))
    assert consumer is not None
    assert consumer.allocations == shared_disk


FALSE: dict[str, tuple[dict[str, Any], str]] = {
    "no claim": ({"guest": None}, "the claim cannot be read: Expected `str`, got `null`"),
    "a name": ({"guest": "web-1"}, "guest 'web-1' is not a UUID"),
    "another path": ({"guest": "../usages"}, "is not a UUID"),
    "fewer CPUs than it owns": ({"allocations": {"": {PCPU: 1}}}, "fewer CPUs than the 2"),
    "fewer VCPUs than it owns": ({"allocations": {"": {VCPU: 1}}}, "fewer CPUs than the 2"),
    "no CPU": ({"cpus": {"vcpus": 0, "nodes": []}}, "contradict each other"),
    "CPUs without a node": ({"cpus": {"nodes": []}}, "contradict each other"),
    "negative memory": ({"cpus": {"nodes": [{"memory_mb": -1}]}}, "contradict each other"),
    "a CPU twice": ({"cpus": {"nodes": [{}, {}]}}, "contradict each other"),
    "more dedicated than it has": (
        {"cpus": {"nodes": [{"dedicated": {"cpus": [0, 1, 2]}}]}},
        "contradict each other",
    ),
    "a huge number": ({"cpus": {"vcpus": 10**15}}, "is not between 1 and 8192"),
    "a realtime CPU that it does not have": ({"cpus": {"realtime": {"cpus": [2]}}}, "contradict each other"),
}


@pytest.mark.parametrize("what", FALSE)
def test_a_claim_that_no_scheduler_makes_is_refused(
    world: World, certificates: Certificates, agent: Running, what: str
) -> None:
    changes, words = FALSE[what]
    claim = json.loads(msgspec.json.encode(a_claim()))
    (node,) = claim["cpus"]["nodes"]
    cpus = changes.get("cpus", {})
    if "nodes" in cpus:
        cpus = {**cpus, "nodes": [{**node, **each} for each in cpus["nodes"]]}
    body = json.dumps({**claim, **changes, "cpus": {**claim["cpus"], **cpus}})
    with asking(agent.url, certificates.caller()) as asked:
        with pytest.raises(AgentFailed, match=words):
            asked._send("POST", "/v1/claims", body.encode(), wait=10)
        assert asked.read().guests == {}
    assert world.client.consumer(guest(1)) is None
