"""The local API server as a process of its own, for tests that see it from outside."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STARTED_WITHIN = 600.0
_AUDITED = """
import runpy
from kubedouble.authorization import Authorizer
from kubedouble.errors import StatusError

require = Authorizer.require

def audited(authorizer, user, access):
    try:
        require(authorizer, user, access)
    except StatusError as refusal:
        if user.name.startswith("system:serviceaccount:corewise-system:corewise-"):
            print("refused:", refusal.message, flush=True)
        raise

Authorizer.require = audited
runpy.run_module("kubedouble", run_name="__main__", alter_sys=True)
"""
"""The local API server, which also prints what a program of corewise wanted and may not."""


@contextmanager
def local_api_server(directory: Path, *options: str) -> Iterator[Path]:
    """Run it until the block ends; yields the path of an administrator's kubeconfig.

    A program that wanted what its Roles do not grant fails the block.
    """
    kubeconfig = directory / "kubeconfig"
    arguments = ["--listen", "127.0.0.1:0", "--kubeconfig-out", str(kubeconfig), *options]
    said = directory / "apiserver.log"
    with (
        said.open("w") as log,
        subprocess.Popen(
            [sys.executable, "-c", _AUDITED, *arguments],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            _wait_for(kubeconfig, process, said)
            yield kubeconfig
        finally:
            assert process.stdin
            process.stdin.close()
            process.wait(timeout=STARTED_WITHIN)
    refused = {line for line in said.read_text().splitlines() if line.startswith("refused:")}
    assert not refused, "the Roles in deploy/ do not grant what a program does"


def _wait_for(kubeconfig: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + STARTED_WITHIN
    while not (kubeconfig.exists() and kubeconfig.stat().st_size):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise RuntimeError(f"the API server did not start:\n{log.read_text()}")
        time.sleep(0.02)
