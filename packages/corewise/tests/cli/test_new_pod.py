"""``corewise explain pod --file``: its file, the labels that stay as they are, and how the pod owns CPUs.

| the pod owns CPUs, and | they are |
|---|---|
| the Namespace in the file has normalize-cpuset: true | normalized, whatever the cluster's says |
| the cluster's Namespace has it | as it says |
| there is no Namespace | not known to be |
| the pod has it as a label | not: on pods it is an annotation |
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from corewise.cli import corewise
from corewise.vocabulary.names import NORMALIZE_CPUSET, QOS_CLASS

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


def owner(**labels: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    meta = {"name": "db", "namespace": "jobs", "labels": {QOS_CLASS: "LSR", **labels}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}


def namespace(**labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "jobs", "labels": labels}}


def explained(tmp_path: Path, dump: list[dict[str, Any]], *arguments: str) -> str:
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": dump}))
    done = CliRunner().invoke(corewise, ["explain", "pod", "--from", str(file), *arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


YES, NO = {NORMALIZE_CPUSET: "true"}, {NORMALIZE_CPUSET: "false"}
OF_JOBS = f"normalized: the label {NORMALIZE_CPUSET} of namespace jobs is"
MISPLACED = f'the label {NORMALIZE_CPUSET}="true" of the pod has no effect: on pods it is an annotation'


@pytest.mark.parametrize(
    ("file", "dump", "texts", "record"),
    [
        ([namespace(**YES), owner()], [namespace(**NO)], [f"owned CPUs {OF_JOBS} true"], True),
        ([owner()], [namespace(**NO)], [f"owned CPUs not {OF_JOBS} false"], False),
        ([owner()], [], ["there is no Namespace jobs", "not known whether they are normalized"], None),
        ([owner(**YES)], [namespace()], [MISPLACED, "not normalized, unless normalizeCPUSet"], None),
    ],
)
def test_new_pod_knows_whether_its_cpus_are_normalized(
    file: list[dict[str, Any]],
    dump: list[dict[str, Any]],
    texts: list[str],
    record: bool | None,
    tmp_path: Path,
) -> None:
    manifest = tmp_path / "pod.yaml"
    manifest.write_text("\n---\n".join(map(json.dumps, file)))
    shown = explained(tmp_path, dump, "--file", str(manifest))
    assert all(text in " ".join(shown.split()) for text in texts)
    stated = json.loads(explained(tmp_path, dump, "--file", str(manifest), "-o", "json"))
    assert stated["normalizesCPUs"] is record


def test_misplaced_label_of_a_pod_is_shown(tmp_path: Path) -> None:
    assert MISPLACED in explained(tmp_path, [namespace(), owner(**YES)], "jobs/db")


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("spec: {containers: [{name: c, resources: {requests: {cpu: 2, memory: 1073741824}}}]}", ""),
        ("spec: {containers: [{name: c, resources: {limits: {cpu: 0.5}}}], overhead: {cpu: 0.25}}", ""),
        ("spec: {containers: [{name: c, resources: {limits: {cpu: much}}}]}", "limits.cpu: "),
        ("metadata: {name: p}", "spec is missing"),
    ],
)
def test_amounts_may_be_numbers(text: str, refused: str, tmp_path: Path) -> None:
    file, dump = tmp_path / "pod.yaml", tmp_path / "dump.json"
    file.write_text(f"kind: Pod\n{text}\n")
    dump.write_text('{"kind": "List", "items": []}')
    done = CliRunner().invoke(corewise, ["explain", "pod", "--file", str(file), "--from", str(dump)])
    assert done.exit_code == bool(refused)
    assert refused in str(done.exception)
