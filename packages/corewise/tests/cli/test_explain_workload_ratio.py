"""``corewise explain``: which ratio divides the quotas of a pod, and of which pods on a node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from corewise.cli import corewise
from corewise.vocabulary.names import (
    CONFIG_NAME,
    CONFIG_NAMESPACE,
    CPU_BASIC_INFO,
    NORMALIZATION_KEY,
    NORMALIZATION_RATIO,
    QOS_CLASS,
    WORKLOAD_RATIOS,
)

ENCODER = {"app": "encoder"}
CLAIMS = [{"resourceClaimName": "c", "direct": [{"name": "cpu", "quantity": "1"}]}]
ENTRY = {
    "name": "vector",
    "podSelector": {"matchLabels": ENCODER},
    "ratioModel": {"Fast": {"baseRatio": 1.2}},
}
CONFIG = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": CONFIG_NAME, "namespace": CONFIG_NAMESPACE},
    "data": {
        NORMALIZATION_KEY: json.dumps(
            {"enable": True, "ratioModel": {"Fast": {"baseRatio": 1.5}}, "workloadRatios": [ENTRY]}
        )
    },
}
SELECTOR = '{"matchExpressions":[{"key":"app","operator":"In","values":["encoder"]}]}'
STATED = f'[{{"name":"vector","selector":{SELECTOR},"ratio":"1.20"}}]'
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "annotations": {NORMALIZATION_RATIO: "1.50", WORKLOAD_RATIOS: STATED}},
    "status": {
        "capacity": {"cpu": "8", "memory": "16Gi", "pods": "110"},
        "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"},
    },
}
TOPOLOGY = {
    "apiVersion": "topology.node.k8s.io/v1alpha1",
    "kind": "NodeResourceTopology",
    "metadata": {"name": "n1", "annotations": {CPU_BASIC_INFO: '{"cpuModel":"Fast"}'}},
    "topologyPolicies": [],
    "zones": [],
}


def pod(labels: dict[str, str], node: str = "n1", **status: object) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "uid": "u1", "labels": labels},
        "spec": {"containers": [container], **({"nodeName": node} if node else {})},
        "status": {"phase": "Running" if node else "Pending", **status},
    }


def explain(tmp_path: Path, what: str, name: str, *items: dict[str, Any], form: str = "table") -> str:
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    done = CliRunner().invoke(corewise, ["explain", what, name, "--from", str(dump), "-o", form])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize(
    ("which", "told"),
    [
        (pod(ENCODER), True),
        (pod({"app": "web"}), False),
        (pod(ENCODER, ""), False),
        (pod(ENCODER | {QOS_CLASS: "BE"}), False),
        (pod(ENCODER, nodeAllocatableResourceClaimStatuses=CLAIMS), False),
    ],
    ids=["selected", "not selected", "not bound", "never divided", "with claimed CPU"],
)
def test_explain_pod_names_the_workload_that_counts(
    tmp_path: Path, which: dict[str, Any], told: bool
) -> None:
    items = which, NODE, TOPOLOGY
    text = explain(tmp_path, "pod", "default/p", *items)
    line = 'divided by 1.20, the ratio of workload "vector" on n1; the ratio of the node itself is 1.50'
    assert (line in " ".join(text.split())) is told
    record = json.loads(explain(tmp_path, "pod", "default/p", *items, form="json"))
    assert (record.get("workload"), record.get("workloadRatio")) == (
        ("vector", "1.20") if told else (None, None)
    )


def test_explain_node_lists_the_ratios_of_workloads(tmp_path: Path) -> None:
    text = explain(tmp_path, "node", "n1", NODE, TOPOLOGY, CONFIG)
    assert 'quotas of "vector" are divided by 1.20' in text
    record = json.loads(explain(tmp_path, "node", "n1", NODE, TOPOLOGY, CONFIG, form="json"))
    assert record["normalization"]["workloadRatios"] == [{"name": "vector", "ratio": "1.20"}]
