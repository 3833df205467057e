"""``corewise agent`` as a process, its undoing, and the journal that tells about both."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import machine_trees
from agent.agent_world import NODE
from agent.fake_node import FakeNode, container, pod
from api_process import local_api_server
from corewise.agent.cgroups import NodeCgroups
from corewise.agent.kubelet import NO_POLICY
from corewise.agent.options import STATE_DIR
from corewise.agent.quotas import QuotaReconciler
from corewise.cli import corewise
from corewise.kernel.host_files import BOOT_ID
from corewise.kernel.writing.journal import Journal
from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.resources import NODES
from corewise.quantities import Ratio
from identities import command_of

WEB = pod("web", container("a", "1"), container("b", "500m"))
WITHIN = 120.0


def call(*arguments: str) -> Result:
    return CliRunner().invoke(corewise, arguments)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--metrics-listen", "nowhere"], "HOST:PORT"),
        (["--interval", "0.1s"], "at least 1s"),
        (["--interval", "soon"], "not a duration"),
        (["--evaluate-minutes", "nan"], "nan is not a number"),
        (["--evaluate-minutes", "0"], "not in the range"),
        (["--no-nri", "--nri-socket", "s"], "exclude each other"),
        (["--root", "/nonexistent"], "does not exist"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(arguments: list[str], said: str) -> None:
    result = call("agent", *arguments)
    assert result.exit_code == 2
    assert said in result.output


@pytest.fixture
def divided(tmp_path: Path) -> FakeNode:
    """A machine whose quotas an agent has divided; the agent is gone."""
    node = FakeNode(tmp_path)
    (tmp_path / BOOT_ID).parent.mkdir(parents=True)
    (tmp_path / BOOT_ID).write_text("b\n")
    node.start(WEB)
    with Journal.open(tmp_path / STATE_DIR, boot="b", now=time.time) as log:
        reconciler = QuotaReconciler(NodeCgroups(tmp_path, "/", log, now=time.time))
        reconciler.cycle([WEB], lambda _pod: Ratio(150), NO_POLICY, lambda _pod: False)
    assert node.quota(WEB, "a") == 66_667
    return node


def test_restore_returns_kubelet_quotas_without_an_api_server(divided: FakeNode) -> None:
    result = call("agent", "restore", "--root", str(divided.root))
    assert result.exit_code == 0
    assert "66667 -> 100000" in result.output
    assert [divided.quota(WEB, name) for name in ("", "a", "b")] == [150_000, 100_000, 50_000]
    again = call("agent", "restore", "--root", str(divided.root))
    assert "0 writes, 0 failures" in again.output


def test_restore_waits_for_the_agent_to_be_stopped(divided: FakeNode) -> None:
    with Journal.open(divided.root / STATE_DIR, boot="b", now=time.time):
        result = call("agent", "restore", "--root", str(divided.root))
    assert "held by process" in str(result.exception)
    assert "stop the other agent" in str(result.exception)
    assert divided.quota(WEB, "a") == 66_667


def test_restore_names_what_it_could_not_put_back(divided: FakeNode) -> None:
    divided.path(WEB, "a").write_text("nonsense\n")
    result = call("agent", "restore", "--root", str(divided.root))
    assert "unexpected content" in result.output
    assert "not everything" in str(result.exception)
    assert divided.quota(WEB, "b") == 50_000


def audited(node: FakeNode, *options: str) -> list[dict[str, Any]]:
    result = call("audit", "--root", str(node.root), "-o", "json", *options)
    assert result.exit_code == 0, result.output
    items: list[dict[str, Any]] = json.loads(result.stdout)["items"]
    return items


def test_audit_reports_old_and_new_values_and_reasons(divided: FakeNode) -> None:
    table = call("audit", "--root", str(divided.root)).output.splitlines()
    assert table[0].split() == ["TIME", "CGROUP", "FILE", "OLD", "NEW", "REASON", "WHY"]
    assert len(table) == 4
    wide = call("audit", "--root", str(divided.root), "-o", "wide").output
    assert "pod default/web container a: 100000 / 1.50" in wide
    entries = audited(divided)
    assert {(entry["old"], entry["new"]) for entry in entries} == {
        ("100000", "66667"),
        ("50000", "33334"),
        ("150000", "100000"),
    }
    assert {entry["reason"] for entry in entries} == {"QuotaNormalized"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--cgroup", "weba.scope"), 1),
        (("--cgroup", "nobody"), 0),
        (("--last", "2"), 2),
        (("--since", "1h"), 3),
        (("--reason", "QuotaRestored"), 0),
        (("--kind", "held"), 3),
        (("--kind", "opened"), 1),
    ],
)
def test_audit_can_be_narrowed_down(divided: FakeNode, options: tuple[str, ...], expected: int) -> None:
    assert len(audited(divided, *options)) == expected


def test_audit_tells_of_lines_that_it_cannot_read(divided: FakeNode) -> None:
    with (divided.root / STATE_DIR / "journal").open("a") as journal:
        journal.write('{"kind":"wro')
    result = call("audit", "--root", str(divided.root))
    assert result.exit_code == 0
    assert "1 line of the journal cannot be read" in result.output


def test_audit_without_a_journal_says_where_it_looked(tmp_path: Path) -> None:
    result = call("audit", "--root", str(tmp_path))
    assert str(tmp_path / STATE_DIR) in str(result.exception)


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + WITHIN
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


async def prepare(kubeconfig: Path) -> None:
    async with Client(load_config(str(kubeconfig))) as client:
        await client.create(NODES.typed(dict), {"metadata": {"name": NODE}})


@contextmanager
def running(kubeconfig: Path, root: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    arguments = ("--node-name", NODE, "--root", str(root), "--no-nri", "--log-format", "json", *options)
    started = asyncio.run(command_of("agent", kubeconfig, *arguments))
    with subprocess.Popen(started, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_sigterm_ends_it_in_order_and_changes_nothing(divided: FakeNode, tmp_path: Path) -> None:
    machine_trees.intel(divided.root)
    with local_api_server(tmp_path) as kubeconfig:
        asyncio.run(prepare(kubeconfig))
        with running(kubeconfig, divided.root) as process:
            wait_for(lambda: divided.quota(WEB, "a") == 100_000)
            divided.write(WEB, "a", 70_000)
            process.send_signal(signal.SIGTERM)
            _, talk = process.communicate(timeout=WITHIN)
        assert process.returncode == 0, talk
        assert divided.quota(WEB, "a") == 70_000
        assert "Traceback" not in talk


def test_dry_run_once_prints_what_it_would_write(divided: FakeNode, tmp_path: Path) -> None:
    machine_trees.intel(divided.root)
    with local_api_server(tmp_path) as kubeconfig:
        asyncio.run(prepare(kubeconfig))
        with running(kubeconfig, divided.root, "--once", "--dry-run") as process:
            printed, talk = process.communicate(timeout=WITHIN)
    actions = [json.loads(line)["action"] for line in printed.splitlines()]
    assert actions == ["CreateNodeResourceTopology"], talk
    assert process.returncode == 0


def test_a_second_agent_says_who_holds_the_journal(divided: FakeNode, tmp_path: Path) -> None:
    with (
        local_api_server(tmp_path) as kubeconfig,
        Journal.open(divided.root / STATE_DIR, boot="b", now=time.time),
        running(kubeconfig, divided.root) as process,
    ):
        _, talk = process.communicate(timeout=WITHIN)
    assert process.returncode == 6
    assert "held by process" in talk
    assert "Traceback" not in talk


def test_wrong_kubeconfig_prints_one_line_and_a_hint(tmp_path: Path) -> None:
    options = ["--kubeconfig", str(tmp_path / "none"), "--node-name", NODE, "--root", str(tmp_path)]
    command = [sys.executable, "-m", "corewise", "agent", *options]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN, check=False)
    talk = ended.stderr
    assert ended.returncode == 5
    assert "Traceback" not in talk
