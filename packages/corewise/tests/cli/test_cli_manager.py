"""``corewise manager`` as a process: it starts, serves, and ends in order when told to."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from api_process import local_api_server
from corewise.cli import corewise
from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.resources import LEASES
from corewise.vocabulary.names import CONFIG_NAMESPACE, MANAGER_COMPONENT
from identities import command_of


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--webhook-listen", "nowhere"], "HOST:PORT"),
        (["--webhook-service", "nowhere"], "NAMESPACE/NAME"),
        (["--largest-amplification", "0.99"], "at least 1.00"),
        (["--largest-amplification", "1,2"], "not a ratio"),
        (["--tls-cert", "a"], "--tls-key"),
        (["--manage-webhooks", "--webhook-url", "https://127.0.0.1:1"], "needs --webhook-listen"),
        (["--webhook-listen", "127.0.0.1:0", "--webhook-url", "http://127.0.0.1:1"], "https://"),
        (["--kubelet-user", ""], "must not be empty"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(arguments: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("{}")
    result = CliRunner().invoke(corewise, ["manager", "--kubeconfig", str(tmp_path / "config"), *arguments])
    assert result.exit_code != 0
    assert said in result.output + str(result.exception)


async def holder(kubeconfig: Path) -> str:
    async with Client(load_config(str(kubeconfig))) as client:
        lease = await client.get(LEASES, MANAGER_COMPONENT, CONFIG_NAMESPACE)
        return lease.spec.holder_identity or ""


def test_sigterm_releases_the_lease_and_exits_cleanly(tmp_path: Path) -> None:
    with local_api_server(tmp_path) as kubeconfig:
        listen = ("--webhook-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0")
        options = ("--manage-webhooks", "--log-format", "json")
        started = asyncio.run(command_of("manager", kubeconfig, *listen, *options))
        with subprocess.Popen(started, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr
            messages = []
            for line in process.stderr:
                messages.append(json.loads(line)["message"])
                if messages[-1] == "configuration applied":
                    break
            assert asyncio.run(holder(kubeconfig))
            process.send_signal(signal.SIGTERM)
            process.stderr.read()
            assert process.wait(timeout=120) == 0
        assert not asyncio.run(holder(kubeconfig))
        assert any("listens on" in message for message in messages)
