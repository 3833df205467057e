"""``kubedouble``, the program: what its user and its parent rely on."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import select
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from urllib3.exceptions import HTTPError

from kubedouble import serve
from kubedouble.server import ListenError

COMMAND = [sys.executable, "-m", "kubedouble"]
PATIENCE = 120


@contextmanager
def running(*options: str, stdin: int = subprocess.PIPE) -> Iterator[subprocess.Popen[str]]:
    """Run the program; in the block it has printed the line for kubectl's user."""
    with subprocess.Popen(
        [*COMMAND, *options], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr
        assert "press Ctrl-C to stop" in process.stderr.readline()
        try:
            yield process
        finally:
            process.terminate()


def test_command_prints_export_line_and_ends_on_sigint() -> None:
    with running(stdin=subprocess.DEVNULL) as process:
        assert process.stdout
        assignment, _, path = process.stdout.readline().rstrip().partition("=")
        assert assignment == "export KUBECONFIG"
        kubeconfig = Path(path)
        assert "https://127.0.0.1:" in kubeconfig.read_text()
        assert kubeconfig.stat().st_mode & 0o077 == 0
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=PATIENCE) == ("", "")
        assert process.returncode == 0
    assert not kubeconfig.parent.exists()


def test_relative_path_with_a_space_is_exported_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with running("--kubeconfig-out", "a file") as process:
        assert process.stdout
        assert process.stdout.readline() == f"export KUBECONFIG='{tmp_path}/a file'\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, None])
def test_sigterm_or_a_closed_pipe_ends_it(number: signal.Signals | None) -> None:
    with running() as process:
        assert process.stdin
        if number:
            process.send_signal(number)
        else:
            process.stdin.close()
        assert process.wait(PATIENCE) == 0


def test_a_damaged_state_directory_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "snapshot").write_text("nonsense")
    options = ["--kubeconfig-out", str(tmp_path / "kubeconfig"), "--state", str(tmp_path)]
    done = subprocess.run(
        [*COMMAND, *options],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1
    assert "snapshot: damaged" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_address_in_use_is_one_clear_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        options = ["--kubeconfig-out", str(tmp_path / "other"), "--listen", f"127.0.0.1:{port}"]
        done = subprocess.run(
            [*COMMAND, *options],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("listen", "temporary", "message"),
    [
        ("ü:0", "", "cannot listen on ü:0: no such host"),
        ("127.0.0.1:0", "nothing", "there is no temporary directory; name one"),
    ],
)
def test_what_cannot_be_used_is_one_clear_line(listen: str, temporary: str, message: str) -> None:
    none = (
        f"import tempfile; tempfile._candidate_tempdir_list = lambda: [{temporary!r}]; " if temporary else ""
    )
    program = f"{none}from kubedouble.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "--listen", listen],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT])
async def test_host_without_ipv6_is_served_by_ipv4(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    create = socket.create_server

    def without_ipv6(address: Any, *, family: int, **options: Any) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(number, os.strerror(number))
        return create(address, family=family, **options)

    found = [
        (family, 0, 0, "", (host, 0))
        for family, host in ((socket.AF_INET6, "::1"), (socket.AF_INET, "127.0.0.1"))
    ]
    monkeypatch.setattr(socket, "create_server", without_ipv6)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_options: found)
    async with serve(listen="localhost:0") as server:
        assert server.url.startswith("https://127.0.0.1:")
    del found[1]
    with pytest.raises(ListenError, match=f"cannot listen on localhost:0: {os.strerror(number).lower()}"):
        await serve(listen="localhost:0").__aenter__()


def test_full_disk_stops_server_and_keeps_acknowledged_writes(tmp_path: Path) -> None:
    """A limit on the size of its files is to the server what a full disk is."""
    kubernetes: Any = pytest.importorskip("kubernetes")
    kubeconfig, state, acknowledged = tmp_path / "kubeconfig", tmp_path / "objects", list[str]()
    with running("--kubeconfig-out", str(kubeconfig), "--state", str(state)) as process:
        size = (state / "journal").stat().st_size + 5000
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, size))
        with kubernetes.config.new_client_from_config(str(kubeconfig)) as connection:
            core = kubernetes.client.CoreV1Api(connection)
            with suppress(kubernetes.client.ApiException, HTTPError):
                for number in range(100):
                    core.create_node({"metadata": {"name": f"n{number}"}})
                    acknowledged.append(f"n{number}")
            connection.rest_client.pool_manager.clear()
        _, told = process.communicate(timeout=PATIENCE)
        assert process.returncode == os.EX_IOERR
    assert f"{state}/journal: cannot be written: File too large" in told
    assert "Traceback" not in told
    assert 0 < len(acknowledged) < 100
    with (
        running("--kubeconfig-out", str(kubeconfig), "--state", str(state)),
        kubernetes.config.new_client_from_config(str(kubeconfig)) as connection,
    ):
        nodes = kubernetes.client.CoreV1Api(connection).list_node().items
        connection.rest_client.pool_manager.clear()
    assert sorted(node.metadata.name for node in nodes) == sorted(acknowledged)


async def test_stopping_server_closes_connections_despite_silent_tls_peers() -> None:
    """Until they do, asyncio would keep them for half a minute, or beyond the end of its loop."""
    async with serve() as server:
        address = ("127.0.0.1", int(server.url.rpartition(":")[2]))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        peer = await asyncio.to_thread(lambda: context.wrap_socket(socket.create_connection(address, 5)))
    with peer:
        data = b"what is left: tickets of the session, the end of TLS"
        while data:
            assert (await asyncio.to_thread(select.select, [peer], [], [], 5))[0], "the connection is open"
            data = os.read(peer.fileno(), 4096)
