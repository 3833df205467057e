"""``corewise scheduler`` as a process: it starts, answers, and ends in order; and the URL it is called by."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from pathlib import Path

import pytest
import yaml

from api_process import local_api_server
from corewise.cli import main
from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.resources import LEASES
from corewise.scheduler.program import COMPONENT
from corewise.vocabulary.names import CONFIG_NAMESPACE
from identities import command_of


async def holder(kubeconfig: Path) -> str:
    async with Client(load_config(str(kubeconfig))) as client:
        lease = await client.get(LEASES, COMPONENT, CONFIG_NAMESPACE)
        return lease.spec.holder_identity or ""


def test_scheduler_outside_the_cluster_leads_and_releases_lease(tmp_path: Path) -> None:
    """No NodeResourceTopology is installed: nodes then state no CPUs, and everything else works."""
    (tmp_path / "scheduler.yaml").write_text("scoring: MostAllocated\n")
    arguments = ["--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--log-format", "json"]
    arguments += ["--manage-webhooks", "--config", str(tmp_path / "scheduler.yaml")]
    with local_api_server(tmp_path) as kubeconfig:
        started = asyncio.run(command_of("scheduler", kubeconfig, *arguments))
        with subprocess.Popen(started, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr
            messages = []
            for line in process.stderr:
                messages.append(json.loads(line)["message"])
                if "this replica leads" in messages and any("listens on" in each for each in messages):
                    break
            assert asyncio.run(holder(kubeconfig))
            process.send_signal(signal.SIGTERM)
            process.stderr.read()
            assert process.wait(timeout=20) == 0
        assert not asyncio.run(holder(kubeconfig))
        assert any("listens on" in message for message in messages)


@pytest.mark.parametrize(
    "url",
    [
        "https://",
        "https:///filter",
        "https://:443",
        "https://host:",
        "https://host:0",
        "https://host:65536",
        "https://host:https",
        "https://host/path",
        "https://host?a=b",
        "https://host#",
        "https://user@host",
        "https://a host",
        "https://[::1",
        "https://host\n",
    ],
)
def test_url_that_kube_scheduler_cannot_call_is_refused(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["scheduler", "config", "--url", url])
    said = capsys.readouterr()
    assert (end.value.code, said.out) == (2, "")
    assert said.err.endswith(f"Error: Invalid value for --url: {url!r} is not https://HOST[:PORT]\n")


@pytest.mark.parametrize("url", ["", "nowhere", "http://host", "ftp://host"])
def test_url_of_another_scheme_is_refused_with_reason(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["scheduler", "config", "--url", url])
    assert end.value.code == 2
    assert (
        "--url: must begin with https://: the extender demands a client certificate"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    "url", ["https://host", "https://host/", "https://10.0.0.1:443", "https://[::1]:9443"]
)
def test_url_of_host_and_port_is_passed_on(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["scheduler", "config", "--url", url])
    assert end.value.code == 0
    (extender,) = yaml.safe_load(capsys.readouterr().out)["extenders"]
    assert extender["urlPrefix"] == url.rstrip("/")
