"""The time by which ages in a dump are judged: the newest one in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cli.offline_world import CALM, NOW, aged, heartbeat, labeled
from corewise.cli import corewise
from corewise.kube.clock import SystemClock, rfc3339
from corewise.vocabulary.interference_report import InterferenceReport
from corewise.vocabulary.names import CPU_BASIC_INFO, CPU_EVALUATION, INTERFERENCE_REPORT
from manager.world import SLOW
from normalization.fleets import report

LATER = timedelta(days=8)


def objects(agent_age: int = 0) -> Iterator[dict[str, Any]]:
    """Yield a pod, and nodes that report everything; all agents stopped so long before the dump."""
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    yield {
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "uid": "u"},
        "spec": {"nodeName": "n0", "containers": [container]},
        "status": {"phase": "Running"},
    }
    time = rfc3339(NOW - timedelta(seconds=agent_age))
    info = json.dumps({"cpuModel": SLOW, "hyperThreadEnabled": False, "turboEnabled": False})
    off = {"hyper_thread_enabled": False, "turbo_enabled": False}
    stated = {
        CPU_BASIC_INFO: info,
        CPU_EVALUATION: report(1000, SLOW, **off, time=time, measured=time).encode(),
        INTERFERENCE_REPORT: InterferenceReport(time=time, watched=1).encode(),
    }
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [heartbeat(NOW)]}
    for name in ("n0", "n1", "n2", "n3", "n4"):
        meta = labeled(aged(CALM, agent_age))
        yield {"kind": "Node", "metadata": {"name": name, **meta}, "status": status}
        yield {"kind": "NodeResourceTopology", "metadata": {"name": name, "annotations": stated}}


def read(file: Path, command: str, at: datetime, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(SystemClock, "now", lambda _: at)
    result = CliRunner().invoke(corewise, [*command.split(), "--from", str(file)])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize(
    ("command", "fresh", "agent_age", "old"),
    [
        ("explain node n0", "median 1000 of 4 other nodes", 8 * 86_400, "peers          not compared"),
        ("explain suppression n0", "0s old (normal", 150, "2m old: OLD"),
        ("explain interference default/web", "WaitsLittle", 1900, "31m old: its agent does not run"),
        ("report -o md", "on 5 of 5 nodes", 150, "OfferReportOld"),
    ],
)
def test_a_dump_reads_the_same_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, fresh: str, agent_age: int, old: str
) -> None:
    file = tmp_path / "dump.json"
    for age, said in ((0, fresh), (agent_age, old)):
        file.write_text(json.dumps({"items": list(objects(age))}))
        at_once = read(file, command, NOW, monkeypatch)
        assert said in at_once
        assert read(file, command, NOW + LATER, monkeypatch) == at_once


@pytest.mark.parametrize("sign", ["a pod made", "a condition changed"])
def test_agents_and_kubelets_that_stopped_are_not_fresh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sign: str
) -> None:
    late = rfc3339(NOW + timedelta(hours=1))
    made = list(objects())
    if sign == "a pod made":
        made.append({"kind": "Pod", "metadata": {"name": "new", "namespace": "d", "creationTimestamp": late}})
    else:
        node = next(each for each in made if each["kind"] == "Node")
        node["status"]["conditions"].append({"type": "Ready", "lastTransitionTime": late})
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"items": made}))
    said = read(file, "explain interference default/web", NOW + LATER, monkeypatch)
    assert "its agent does not run" in said


def test_a_dump_is_never_of_the_future(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"items": list(objects())}))
    early = NOW - timedelta(hours=1)
    assert rfc3339(early) in read(file, "report -o md", early, monkeypatch)
