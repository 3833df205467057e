"""``corewise check metrics`` against a real Prometheus: what is well, and what to fix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from corewise.cli import corewise
from corewise.cli.errors import ExitCode
from prometheus_server.conftest import TRUTHS, Scraped


def check(scraped: Scraped, folder: Path, *arguments: str, nodes: tuple[str, ...] = tuple(TRUTHS)) -> Result:
    (folder / "nodes").write_text("".join(f"node/{name}\n" for name in nodes))
    options = ["--prometheus", scraped.server.url, "--nodes", str(folder / "nodes"), *arguments]
    return CliRunner().invoke(corewise, ["check", "metrics", *options])


def configured(folder: Path, metrics: str) -> tuple[str, str]:
    (folder / "scheduler.yaml").write_text(f"interference:\n  window: 10s\n  metrics: {metrics}\n")
    return "--config", str(folder / "scheduler.yaml")


def records(answer: Result) -> dict[str, Any]:
    return {each["metric"]: each for each in json.loads(answer.stdout)["items"]}


def test_check_passes_when_every_node_has_every_series(scraped: Scraped, tmp_path: Path) -> None:
    answer = check(scraped, tmp_path, *configured(tmp_path, "{preset: cadvisor}"))
    assert answer.exit_code == 0, answer.output
    lines = answer.stdout.splitlines()
    assert lines[0].split() == ["METRIC", "SERIES", "NODES", "USABLE", "LEAST", "MEDIAN", "MOST", "OLDEST"]
    (memory,) = [line for line in lines if line.startswith("memory_available")]
    assert memory.split()[1:5] == ["2", "2", "of", "2"]
    assert answer.stderr == ""


def test_nodes_without_series_are_named_and_relabeling_helps(scraped: Scraped, tmp_path: Path) -> None:
    options = [*configured(tmp_path, "{preset: pcm}"), "-o", "json"]
    answer = check(scraped, tmp_path, *options, nodes=("n1", "n2", "n3"))
    assert answer.exit_code == ExitCode.VERDICT
    assert records(answer)["memorybandwidth"]["matched"] == 2
    assert "memorybandwidth: 1 node has no series (n3)" in answer.stderr
    wrong = check(scraped, tmp_path, *configured(tmp_path, "{preset: pcm, nodeLabel: instance}"))
    assert wrong.exit_code == ExitCode.VERDICT
    assert 'no series names a node in its label "instance": set nodeLabel: node' in wrong.stderr


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        ("{memorybandwidth: {query: 'odd_bandwidth / 1e6'}}", "is the unit right?"),
        ("{memorybandwidth: {query: 'odd_bandwith'}}", "returns no series"),
        ("{memorybandwidth: {query: 'sum(odd_bandwidth)'}}", "could name a node: aggregate by (node)"),
        (
            "{memorybandwidth: {query: 'rate(odd_bandwidth)'}}",
            "interference.metrics.memorybandwidth): correct",
        ),
        ("{memorybandwidth: {query: 'odd_bandwidth'}}", "several series of one node (several)"),
        ("{memorybandwidth: {query: 'odd_bandwidth'}}", "no usable value (zero)"),
    ],
)
def test_what_to_fix_is_said(scraped: Scraped, tmp_path: Path, metrics: str, said: str) -> None:
    nodes = ("zero", "several", "frozen")
    scraped.server.waits_for("odd_bandwidth", 6)
    answer = check(scraped, tmp_path, *configured(tmp_path, metrics), nodes=nodes)
    assert answer.exit_code == ExitCode.VERDICT
    assert said in answer.stderr


def test_unmeasurable_metrics_are_reported_with_the_agents_reason(scraped: Scraped, tmp_path: Path) -> None:
    answer = check(
        scraped, tmp_path, *configured(tmp_path, "{preset: corewise}"), nodes=("n1", "this-machine")
    )
    assert "llc_mpki: the agent says on 1 of them: OtherKernel" in answer.stderr
