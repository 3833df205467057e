"""A server in a thread, and the fixture: what a test of another project relies on."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kubedouble.testing import run_server

kubernetes: Any = pytest.importorskip("kubernetes")
CoreV1Api, ApiException = kubernetes.client.CoreV1Api, kubernetes.client.ApiException
README = Path(__file__).parents[2] / "README.md"


def test_two_servers_know_nothing_of_each_other() -> None:
    with run_server() as one, run_server() as other:
        CoreV1Api(one.client()).create_node({"metadata": {"name": "a"}})
        assert CoreV1Api(other.client()).list_node().items == []


def test_a_user_may_do_what_rbac_grants() -> None:
    with run_server() as server:
        for groups in (["developers"], [], None):
            with pytest.raises(ApiException) as refused:
                CoreV1Api(server.client("alice", groups)).list_node()
            assert refused.value.status == 403
        kubernetes.client.RbacAuthorizationV1Api(server.client()).create_cluster_role_binding(
            {
                "metadata": {"name": "developers"},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": "cluster-admin",
                },
                "subjects": [
                    {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "developers"}
                ],
            }
        )
        CoreV1Api(server.client("alice", ["developers"])).list_namespaced_pod("default")


def test_without_authorization_everybody_may_do_everything() -> None:
    with run_server(authorize=False) as server:
        assert CoreV1Api(server.client("alice", [])).list_node().items == []


def test_client_passes_by_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with run_server() as server:
        assert CoreV1Api(server.client()).list_node(_request_timeout=60).items == []


def test_nothing_is_left_when_the_block_ends() -> None:
    with run_server() as server:
        files = [server.kubeconfig, server.kubeconfig_for("alice")]
        assert all(file.stat().st_mode & 0o077 == 0 for file in files)
    assert not any(file.exists() for file in files)
    host, _, port = server.url.removeprefix("https://").partition(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))


def test_startup_error_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubedouble.server.bootstrap", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError), run_server():
        pass


def run_pytest(folder: Path, test: str) -> str:
    """Run one file with no plugin but kubedouble's; return what it prints."""
    (folder / "test_it.py").write_text(test)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "kubedouble.pytest_plugin", "--rootdir", folder, folder],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.stdout + done.stderr


def test_the_first_example_of_the_readme_passes(tmp_path: Path) -> None:
    example = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert example
    assert "1 passed" in run_pytest(tmp_path, example[1])


def test_run_without_the_fixture_never_imports_the_server(tmp_path: Path) -> None:
    test = "def test_it(): import sys; assert not {'kubedouble.server', 'aiohttp'} & {*sys.modules}\n"
    assert "1 passed" in run_pytest(tmp_path, test)
