"""Run corewise for the golden tests. All that they import of it stands here."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import ssl
import sys
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from unittest.mock import patch

from click.testing import CliRunner

import machine_trees
from corewise.cli import main
from corewise.cli.profile_history import write_history
from golden.cluster import Cluster, until
from identities import kubeconfig_of
from interference.simulated_history import RANGES, Planted, planted_history


def run(
    arguments: list[str], stdin: bytes, environment: Mapping[str, str], *, on_terminal: bool = False
) -> tuple[int, bytes, bytes]:
    """Run ``corewise`` in this process; return its exit code, stdout and stderr."""
    with CliRunner().isolation(stdin, environment) as (out, err, _), ExitStack() as stack:
        if on_terminal:
            stack.enter_context(patch.object(sys.stdout, "isatty", return_value=True))
        try:
            main(arguments)
        except SystemExit as end:
            code = end.code
        sys.stdout.flush()
        sys.stderr.flush()
    return int(code or 0), out.getvalue(), err.getvalue()


def identity(cluster: Cluster, program: str) -> tuple[str, str]:
    """Return the option that gives a program the identity with which it is shipped."""
    return "--kubeconfig", str(asyncio.run(kubeconfig_of(program, cluster.kubeconfig)))


def make_machine(name: str, root: Path) -> None:
    """Write /proc and /sys of a machine below a directory."""
    machine_trees.MACHINES[name](root)


def make_history(file: Path) -> None:
    """Write a history of two types of Jobs, one of them sensitive to bandwidth, and a third that ran once."""
    sensitive, steady = (dict.fromkeys(RANGES, value) for value in (60, 0))
    history = planted_history(Planted({"sensitive": sensitive, "steady": steady}, runs=60, nodes=4))
    once = planted_history(Planted({"rare": steady}, runs=1, nodes=4)).pods
    write_history(file, dataclasses.replace(history, pods=[*history.pods, *once]))


@contextmanager
def working_in(directory: Path) -> Iterator[None]:
    """Have relative paths begin there."""
    before = Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


def with_client_certificate(cluster: Cluster) -> ssl.SSLContext:
    """Return the TLS context of kube-scheduler's calls to the extender, once the scheduler has made it."""
    path = "/api/v1/namespaces/corewise-system/secrets/corewise-scheduler-client"

    def made() -> dict[str, str]:
        found: dict[str, str] = cluster.call("GET", path)[1].get("data") or {}
        return found

    data = until(made, "no client certificate")
    context = unverified()
    with NamedTemporaryFile() as file:
        file.write(b64decode(data["tls.crt"]) + b64decode(data["tls.key"]))
        file.flush()
        context.load_cert_chain(file.name)
    return context


def unverified() -> ssl.SSLContext:
    """Return a context for a server whose certificate is its own."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
