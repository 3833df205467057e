"""Whatever stands between a program and Placement's answer is an error of its own, with a hint and a kind."""

from __future__ import annotations

import socket
from http.server import BaseHTTPRequestHandler

import pytest
from hypothesis import given
from hypothesis import strategies as st
from keystoneauth1 import session
from keystoneauth1.token_endpoint import Token

from corewise_openstack.openstack.embedded import served, start
from corewise_openstack.openstack.errors import (
    AnswerRefusing,
    PlacementDown,
    PlacementError,
    PlacementForbidden,
    PlacementServerError,
    PlacementUnauthorized,
    UnexpectedAnswer,
    VersionTooOld,
)
from corewise_openstack.openstack.placement_access import UncheckedAdmin, adapter_client, endpoint_client
from corewise_openstack.openstack.placement_client import PlacementClient
from corewise_openstack.openstack.placement_http import negotiate, refusal
from keystone_server import running_server
from placement_world import host


def answering(status: int, body: bytes) -> type[BaseHTTPRequestHandler]:
    """A server that gives everybody the same answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """No one reads it."""

    return Handler


def with_token(endpoint: str, token: str) -> PlacementClient:
    return adapter_client(session.Session(auth=Token(endpoint, token)), endpoint)


def test_without_a_token_placement_says_unauthorized() -> None:
    with served(start()) as endpoint:
        client = adapter_client(session.Session(), endpoint)
        with pytest.raises(PlacementUnauthorized) as caught:
            client.providers()
    assert "renew" in caught.value.hint


def test_a_user_without_the_role_is_forbidden(placement: PlacementClient) -> None:
    host(placement, PCPU=4)
    with served(start()) as endpoint, pytest.raises(PlacementForbidden) as caught:
        with_token(endpoint, "somebody").providers()
    assert "role" in caught.value.hint


def test_nobody_at_the_endpoint_is_placement_down() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        client = endpoint_client(f"http://127.0.0.1:{free.getsockname()[1]}")
        with pytest.raises(
            PlacementDown, match=r"connection to http://127\.0\.0\.1:\d+/: Connection refused$"
        ) as caught:
            client.providers()
    assert caught.value.retryable


@pytest.mark.parametrize("status", [502, 503, 504])
def test_proxy_without_a_backend_is_placement_down(status: int) -> None:
    broken = running_server(answering(status, b"<html>no backend</html>"))
    with broken as endpoint, pytest.raises(PlacementDown, match="no backend"):
        endpoint_client(endpoint).providers()


def test_truncated_answer_is_placement_down() -> None:
    class Cut(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"versions": [')

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """No one reads it."""

    with running_server(Cut) as endpoint, pytest.raises(PlacementDown):
        endpoint_client(endpoint).providers()


def test_placement_that_connects_but_stays_silent_is_down() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        endpoint = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        client = adapter_client(session.Session(auth=UncheckedAdmin(), timeout=0.2), endpoint)
        with pytest.raises(PlacementDown, match="timed out"):
            client.providers()


def test_another_service_at_endpoint_is_not_accepted() -> None:
    other = running_server(answering(200, b"<html>hello</html>"))
    with other as endpoint, pytest.raises(UnexpectedAnswer) as caught:
        endpoint_client(endpoint).providers()
    assert "root" in caught.value.hint


@pytest.mark.parametrize(
    ("versions", "used"),
    [(("1.0", "1.39"), (1, 39)), (("1.0", "1.60"), (1, 39)), (("1.0", "1.30"), (1, 30))],
)
def test_the_newest_version_known_to_both_is_chosen(versions: tuple[str, str], used: tuple[int, int]) -> None:
    root = f'{{"versions": [{{"min_version": "{versions[0]}", "max_version": "{versions[1]}"}}]}}'
    assert negotiate(root.encode()) == used


@pytest.mark.parametrize(("oldest", "newest"), [("1.0", "1.29"), ("1.40", "1.60"), ("2.0", "2.1")])
def test_a_placement_without_what_is_needed_is_refused(oldest: str, newest: str) -> None:
    root = f'{{"versions": [{{"min_version": "{oldest}", "max_version": "{newest}"}}]}}'
    with pytest.raises(VersionTooOld, match=newest):
        negotiate(root.encode())


@given(st.integers(300, 599), st.binary(max_size=200))
def test_every_refusing_answer_is_an_error_with_words(status: int, body: bytes) -> None:
    error = refusal(status, body, "GET /x")
    assert isinstance(error, PlacementError)
    assert str(error)
    if isinstance(error, AnswerRefusing):
        assert error.status == status
        assert isinstance(error, PlacementServerError) == (status >= 500)


@given(st.binary(max_size=200))
def test_foreign_root_is_an_error_with_words(body: bytes) -> None:
    with pytest.raises(UnexpectedAnswer):
        negotiate(body)
