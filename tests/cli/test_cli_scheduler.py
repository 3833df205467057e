"""``corewise scheduler`` as a process: it starts, answers, and ends in order when told to."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

from api_process import local_api_server
from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.resources import LEASES, NAMESPACES
from corewise.scheduler.program import COMPONENT
from corewise.vocabulary.names import CONFIG_NAMESPACE


async def holder(kubeconfig: Path) -> str:
    async with Client(load_config(str(kubeconfig))) as client:
        lease = await client.get(LEASES, COMPONENT, CONFIG_NAMESPACE)
        return lease.spec.holder_identity or ""


async def prepare(kubeconfig: Path) -> None:
    async with Client(load_config(str(kubeconfig))) as client:
        await client.create(NAMESPACES, {"metadata": {"name": CONFIG_NAMESPACE}})


def test_from_outside_the_cluster_it_leads_and_on_sigterm_gives_the_lease_back(tmp_path: Path) -> None:
    """No NodeResourceTopology is installed: nodes then state no CPUs, and everything else works."""
    (tmp_path / "scheduler.yaml").write_text("scoring: MostAllocated\n")
    arguments = ["--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--log-format", "json"]
    arguments += ["--manage-webhooks", "--config", str(tmp_path / "scheduler.yaml")]
    with local_api_server(tmp_path) as kubeconfig:
        asyncio.run(prepare(kubeconfig))
        command = [sys.executable, "-m", "corewise", "scheduler", "--kubeconfig", str(kubeconfig)]
        with subprocess.Popen([*command, *arguments], stderr=subprocess.PIPE, text=True) as process:
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
