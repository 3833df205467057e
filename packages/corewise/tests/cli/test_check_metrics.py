"""``corewise check metrics`` on the command line: what it takes, and what it says where no one answers."""

from __future__ import annotations

import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from corewise.cli import corewise
from corewise.cli.errors import ExitCode, Failure


def check(*arguments: str) -> Result:
    return CliRunner().invoke(corewise, ["check", "metrics", *arguments])


@pytest.fixture
def nodes(tmp_path: Path) -> str:
    (tmp_path / "nodes").write_text("n1\n")
    return str(tmp_path / "nodes")


def failure(answer: Result) -> Failure:
    assert isinstance(answer.exception, Failure), answer.output
    return answer.exception


def test_silent_server_gives_no_verdict_on_series(nodes: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        said = failure(check("--prometheus", url, "--nodes", nodes))
    assert said.exit_code == ExitCode.CONNECTION
    assert url in str(said)
    assert "that Prometheus is up" in str(said)


@pytest.mark.parametrize("url", ["localhost:9090", "ftp://x", "http://", "http://x:0", "http://x/?a=b"])
def test_an_address_that_is_none_is_refused(nodes: str, url: str) -> None:
    said = failure(check("--prometheus", url, "--nodes", nodes))
    assert said.exit_code == ExitCode.USAGE
    assert "http://HOST:9090" in said.hint


def test_a_password_in_the_address_is_not_shown(nodes: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://user:secret@127.0.0.1:{taken.getsockname()[1]}"
        assert "secret" not in str(failure(check("--prometheus", url, "--nodes", nodes)))
    assert "secret" not in str(failure(check("--prometheus", "http://u:secret@x/?a", "--nodes", nodes)))


def test_a_list_of_nodes_must_have_some(tmp_path: Path) -> None:
    (tmp_path / "none").write_text("\n \n")
    for name in ("none", "not-there"):
        said = failure(check("--prometheus", "http://127.0.0.1:1", "--nodes", str(tmp_path / name)))
        assert said.exit_code == ExitCode.BAD_INPUT


def test_file_and_preset_cannot_be_named_together(nodes: str) -> None:
    answer = check("--prometheus", "http://x", "--nodes", nodes, "--config", nodes, "--preset", "pcm")
    assert answer.exit_code == ExitCode.USAGE
    assert "leave out --preset" in answer.stderr


def test_missing_cluster_suggests_what_to_name_instead(tmp_path: Path) -> None:
    said = failure(check("--prometheus", "http://x", "--kubeconfig", str(tmp_path / "none")))
    assert said.exit_code == ExitCode.BAD_INPUT
    assert "--nodes FILE" in said.hint


def test_missing_credentials_exit_like_any_other_server(nodes: str) -> None:
    class Denies(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(403)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Denies)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        said = failure(check("--prometheus", f"http://127.0.0.1:{server.server_port}", "--nodes", nodes))
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert said.exit_code == ExitCode.UNAUTHORIZED
