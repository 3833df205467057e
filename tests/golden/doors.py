"""The doors by which the golden tests enter corewise. All that they import of it stands here."""

from __future__ import annotations

import os
import ssl
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from click.testing import CliRunner

from corewise.cli import main
from kernel import machine_trees


def run(arguments: list[str], stdin: bytes, environment: Mapping[str, str]) -> tuple[int, bytes, bytes]:
    """Run ``corewise`` in this process; return its exit code, stdout and stderr."""
    with CliRunner().isolation(stdin, environment) as (out, err, _):
        try:
            main(arguments)
        except SystemExit as end:
            code = end.code
        sys.stdout.flush()
        sys.stderr.flush()
    return int(code or 0), out.getvalue(), err.getvalue()


def make_machine(name: str, root: Path) -> None:
    """Write /proc and /sys of a machine below a directory."""
    machine_trees.MACHINES[name](root)


@contextmanager
def working_in(directory: Path) -> Iterator[None]:
    """Have relative paths begin there."""
    before = Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


def unverified() -> ssl.SSLContext:
    """Return a context for a server whose certificate is its own."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
