"""A real Prometheus: the binary that the environment names or that is on PATH, and a server that scrapes.

``COREWISE_TEST_PROMETHEUS`` names the binary; promtool is taken from beside it, else from PATH.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from corewise_lab.control_plane import reserve_port

PROMETHEUS = os.environ.get("COREWISE_TEST_PROMETHEUS") or shutil.which("prometheus")
PROMTOOL = shutil.which(
    "promtool", path=str(Path(PROMETHEUS).parent) if PROMETHEUS else None
) or shutil.which("promtool")
_WHERE = "is not on PATH, and COREWISE_TEST_PROMETHEUS names none (apt-get install prometheus)"
needs_prometheus = pytest.mark.skipif(PROMETHEUS is None, reason=f"prometheus {_WHERE}")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason=f"promtool {_WHERE}")
PATIENCE = 120.0
_POLL = 0.1


@dataclass(frozen=True, slots=True)
class Target:
    """Something to scrape, and the labels that service discovery would give it."""

    job: str
    address: str
    path: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PrometheusServer:
    """A server that runs. Times it takes are the machine's: nothing here asserts one."""

    url: str
    process: subprocess.Popen[bytes]

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(self.url + path, timeout=PATIENCE) as answer:  # noqa: S310 - loopback
            body: bytes = answer.read()
            return body

    def query(self, promql: str) -> list[dict[str, Any]]:
        """Return the result of an instant query, by a client that is not ours."""
        path = f"api/v1/query?query={quote(promql)}"
        result: list[dict[str, Any]] = json.loads(self.get(path))["data"]["result"]
        return result

    def waits_for(self, promql: str, series: int) -> None:
        """Wait until a query returns at least so many series."""
        until = time.monotonic() + PATIENCE
        while len(self.query(promql)) < series:
            assert time.monotonic() < until, f"{promql} returns {self.query(promql)}"
            time.sleep(_POLL)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)


@contextmanager
def running(
    folder: Path, targets: Sequence[Target], *, every: str = "1s", rules: Sequence[Path] = ()
) -> Iterator[PrometheusServer]:
    """Run a server on loopback that scrapes these targets and evaluates the rules, until the block ends."""
    assert PROMETHEUS
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prometheus.yml").write_text(json.dumps(_configuration(targets, every, rules)))
    port = reserve_port()
    log = (folder / "log").open("wb")
    arguments = [
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
        "--web.enable-lifecycle",
        "--log.level=warn",
    ]
    process = subprocess.Popen([PROMETHEUS, *arguments], stdout=log, stderr=subprocess.STDOUT)
    server = PrometheusServer(f"http://127.0.0.1:{port}/", process)
    try:
        _wait_until_ready(server, folder / "log")
        yield server
    finally:
        server.kill()
        log.close()


def _configuration(targets: Sequence[Target], every: str, rules: Sequence[Path]) -> dict[str, Any]:
    jobs = [
        {
            "job_name": f"{target.job}-{number}",
            "metrics_path": target.path,
            "static_configs": [{"targets": [target.address], "labels": dict(target.labels)}],
        }
        for number, target in enumerate(targets)
    ]
    settings = {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every}
    return {"global": settings, "scrape_configs": jobs, "rule_files": [str(path) for path in rules]}


def _wait_until_ready(server: PrometheusServer, log: Path) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            server.get("-/ready")
        except (urllib.error.URLError, ConnectionError):
            assert server.process.poll() is None, log.read_text()
            time.sleep(_POLL)
        else:
            return
    raise AssertionError(log.read_text())
