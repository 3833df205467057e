"""``python -m kubedouble``: what its parent relies on."""

from __future__ import annotations

import asyncio
import os
import resource
import select
import socket
import ssl
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from api_process import local_api_server
from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.errors import KubeError
from corewise.kube.resources import NODES
from corewise_lab.control_plane import ClusterError, Folder, api_server
from kubedouble import serve

COMMAND = [sys.executable, "-m", "kubedouble"]


def test_it_says_where_it_listens_and_stops_when_stdin_closes(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with subprocess.Popen(
        [*COMMAND, "--kubeconfig-out", str(kubeconfig)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stdin
        url = process.stdout.readline().decode().strip()
        assert url.startswith("https://127.0.0.1:")
        assert url in kubeconfig.read_text()
        assert kubeconfig.stat().st_mode & 0o077 == 0
        process.stdin.close()
        assert process.wait(timeout=120) == 0


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
    with local_api_server(tmp_path) as kubeconfig:
        port = kubeconfig.read_text().partition("https://127.0.0.1:")[2].partition('"')[0]
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


async def test_a_full_disk_ends_the_server_and_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """A limit on the size of its files is to the server what a full disk is."""
    folder = Folder(tmp_path, state=tmp_path / "objects")
    acknowledged: list[str] = []
    with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012 - the server ends at some point of the block
        async with api_server(folder) as child, Client(load_config(str(folder.kubeconfig))) as client:
            size = (tmp_path / "objects/journal").stat().st_size + 5000
            resource.prlimit(child.process.pid, resource.RLIMIT_FSIZE, (size, size))
            with suppress(KubeError):
                for number in range(100):
                    await client.create(NODES.typed(dict), {"metadata": {"name": f"n{number}"}})
                    acknowledged.append(f"n{number}")
            await child.process.wait()
            assert child.process.returncode == os.EX_IOERR
            await asyncio.Event().wait()
    died = caught.value.subgroup(ClusterError)
    assert died is not None
    told = str(died.exceptions[0])
    assert f"it could not write to {folder.state}; make sure there is space" in told
    assert f"{folder.state}/journal: cannot be written: File too large" in told
    assert "Traceback" not in told
    assert 0 < len(acknowledged) < 100
    async with api_server(folder), Client(load_config(str(folder.kubeconfig))) as client:
        nodes = await client.list(NODES.typed(dict))
    assert sorted(node["metadata"]["name"] for node in nodes.items) == sorted(acknowledged)


async def test_the_end_of_a_server_ends_connections_whose_peers_do_not_close_tls() -> None:
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
