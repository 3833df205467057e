"""``corewise explain pod --file``: labels by which the workload selects its pods stay as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from corewise.cli import corewise

PROFILE = {
    "apiVersion": "config.koordinator.sh/v1alpha1",
    "kind": "ClusterColocationProfile",
    "metadata": {"name": "batch"},
    "spec": {"selector": {"matchLabels": {"app": "web"}}, "labelSuffixes": {"app": "-x", "team": "-x"}},
}
BY_APP = {"selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}}


@pytest.mark.parametrize(
    ("kind", "spec", "labels"),
    [
        ("Deployment", BY_APP, {"app": "web", "team": "a-x"}),
        ("Job", {}, {"app": "web-x", "team": "a-x"}),
        ("Strange", {}, {"app": "web", "team": "a"}),
        ("Strange", {"selector": {"matchLabels": "all"}}, {"app": "web", "team": "a"}),
    ],
)
def test_labels_that_the_workload_selects_by_are_kept(
    kind: str, spec: dict[str, Any], labels: dict[str, str], tmp_path: Path
) -> None:
    template = {
        "metadata": {"labels": {"app": "web", "team": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    file, dump = tmp_path / "workload.json", tmp_path / "dump.json"
    file.write_text(json.dumps({"kind": kind, "metadata": {}, "spec": {**spec, "template": template}}))
    dump.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [PROFILE]}))
    arguments = ["explain", "pod", "--file", str(file), "--from", str(dump)]
    done = CliRunner().invoke(corewise, [*arguments, "-o", "json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["pod"]["metadata"]["labels"] == labels
    shown = CliRunner().invoke(corewise, arguments).stdout
    assert ("leaves label app as it is" in shown) is (labels["app"] == "web")
