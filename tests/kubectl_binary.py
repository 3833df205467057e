"""The real kubectl."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

KUBECTLS = tuple(filter(None, (shutil.which("kubectl"), os.environ.get("COREWISE_TEST_KUBECTL"))))
"""The one on PATH, and another that the environment names: an old one tells what a new one forgives."""
PATIENCE = 120.0


class Kubectl:
    """The binary, with a kubeconfig and a home directory of its own."""

    def __init__(self, binary: str, kubeconfig: Path, home: Path) -> None:
        self.binary = binary
        self.environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(home), "NO_COLOR": "1"}

    def run(self, *arguments: str, stdin: Any = None) -> subprocess.CompletedProcess[str]:
        text = stdin if stdin is None or isinstance(stdin, str) else json.dumps(stdin)
        return subprocess.run(
            [self.binary, *arguments],
            input=text,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def __call__(self, *arguments: str, stdin: Any = None) -> str:
        """Return the output of a command that must succeed."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def refused(self, *arguments: str, stdin: Any = None) -> str:
        """Return the error output of a command that must fail."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode != 0, f"{arguments}\n{done.stdout}"
        return done.stderr

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.binary, *arguments], env=self.environment, stdout=subprocess.PIPE, text=True
        )

    def needs(self, minor: int) -> None:
        """Skip the test with a client older than 1.minor, which has no such command."""
        if self.minor < minor:
            pytest.skip(f"kubectl 1.{self.minor} cannot do this; 1.{minor} can")

    @cached_property
    def minor(self) -> int:
        version = json.loads(self("version", "--client", "-o", "json"))["clientVersion"]
        return int(re.sub(r"\D.*", "", version["minor"]))

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "-o", "json"))
