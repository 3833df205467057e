"""The real kubectl, and objects to feed it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

KUBECTLS = tuple(filter(None, (shutil.which("kubectl"), os.environ.get("KUBEDOUBLE_TEST_KUBECTL"))))
"""The one on PATH, and another that the environment names: an old one tells what a new one forgives."""
PATIENCE = 120.0


class Kubectl:
    """The binary, with a kubeconfig and a home directory of its own."""

    def __init__(self, binary: str, kubeconfig: Path, home: Path) -> None:
        self.binary = binary
        self.environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(home)}
        self.environment |= {"NO_COLOR": "1", "GOGC": "off"}  # it ends before it has much garbage

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
        """What a command prints that must succeed."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def refused(self, *arguments: str, stdin: Any = None) -> str:
        """What a command says that must fail."""
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


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def a_node(name: str) -> dict[str, Any]:
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "kubelet is posting ready status",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "disk": "ssd"}},
        "status": {
            "capacity": amounts,
            "allocatable": {**amounts, "cpu": "7500m"},
            "conditions": [ready],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "b",
                "containerRuntimeVersion": "containerd://2.1.0",
                "kernelVersion": "6.1.0",
                "kubeProxyVersion": "v1.36.0",
                "kubeletVersion": "v1.36.0",
                "machineID": "m",
                "operatingSystem": "linux",
                "osImage": "Simulated",
                "systemUUID": "s",
            },
        },
    }


def a_pod(name: str, **spec: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "4"}}
    container = {"name": "main", "image": "example.invalid/app", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [container], **spec},
    }


def a_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
