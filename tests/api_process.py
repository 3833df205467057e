"""The local API server as a process of its own, for tests that see it from outside."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STARTED_WITHIN = 600.0


@contextmanager
def local_api_server(directory: Path, *options: str) -> Iterator[Path]:
    """Run it until the block ends; yields the path of an administrator's kubeconfig."""
    kubeconfig = directory / "kubeconfig"
    arguments = ["--listen", "127.0.0.1:0", "--kubeconfig-out", str(kubeconfig), *options]
    with (
        (directory / "apiserver.log").open("w") as log,
        subprocess.Popen(
            [sys.executable, "-m", "kubedouble", *arguments],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            _wait_for(kubeconfig, process, directory / "apiserver.log")
            yield kubeconfig
        finally:
            assert process.stdin
            process.stdin.close()
            process.wait(timeout=STARTED_WITHIN)


def _wait_for(kubeconfig: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + STARTED_WITHIN
    while not (kubeconfig.exists() and kubeconfig.stat().st_size):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise RuntimeError(f"the API server did not start:\n{log.read_text()}")
        time.sleep(0.02)
