"""``corewise explain pod`` of pods that the scheduler does not look at: ended, or with scheduling gates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from corewise.cli import corewise

AMOUNTS = {"cpu": "8", "memory": "16Gi", "pods": "110"}
NODE = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"capacity": AMOUNTS, "allocatable": AMOUNTS}}


def pod(name: str, phase: str, cpu: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"containers": [container], **spec},
        "status": {"phase": phase},
    }


GATES = {"schedulingGates": [{"name": "quota"}, {"name": "image"}], "priority": 1000}
ON_N1 = {"nodeName": "n1", "priority": 1000}


@pytest.mark.parametrize(
    ("phase", "spec", "heading", "node"),
    [
        ("Succeeded", ON_N1, "finished (Succeeded) on node n1, holds nothing", "n1"),
        ("Failed", {"priority": 1000}, "finished (Failed), holds nothing", None),
        ("Pending", GATES, "waits for gates: quota, image", None),
        ("Pending", {"priority": 1000}, "not bound", None),
    ],
)
def test_pods_out_of_scheduling_are_explained_so(
    phase: str, spec: dict[str, Any], heading: str, node: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "dump.json"
    lower = pod("lower", "Running", "6", nodeName="n1")
    file.write_text(json.dumps({"items": [NODE, lower, pod("asked", phase, "4", **spec)]}))
    arguments = ["explain", "pod", "asked", "--from", str(file)]
    text = CliRunner().invoke(corewise, arguments).stdout
    assert text.startswith(f"default/asked: {heading}\n")
    record = json.loads(CliRunner().invoke(corewise, [*arguments, "-o", "json"]).stdout)
    evicts = heading == "not bound"
    assert (record["node"], record["victims"] != {}, "evicting" in text) == (node, evicts, evicts)
