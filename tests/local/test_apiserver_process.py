"""``python -m corewise.local.apiserver``: what its parent relies on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from api_process import local_api_server

COMMAND = [sys.executable, "-m", "corewise.local.apiserver"]


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
