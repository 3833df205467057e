"""``corewise nodes`` and ``corewise explain node`` against a local API server in a process of its own."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from api_process import local_api_server
from cli.offline_world import NOW, REPORT, aged, changed, labeled
from corewise.cli import corewise
from corewise.cli.errors import ExitCode, Failure
from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.errors import api_error
from corewise.kube.objects import ConfigMap
from corewise.kube.resources import CONFIG_MAPS, NAMESPACES, NODE_RESOURCE_TOPOLOGIES, NODES, PODS, Resource
from corewise.ratios.cluster import read_configuration
from corewise.views.node_listing import ListedCluster, NodeState, offline_state_of
from corewise.views.node_table import remarks
from corewise.views.offline_reports import node_report
from corewise.vocabulary.names import (
    AMPLIFICATION_KEY,
    AMPLIFICATION_ORIGINAL,
    AMPLIFICATION_RATIO,
    CONFIG_NAME,
    CONFIG_NAMESPACE,
    CPU_BASIC_INFO,
    NORMALIZATION_KEY,
    NORMALIZATION_RATIO,
    OFFLINE_REPORT,
    OVERSUBSCRIPTION_KEY,
    RESOURCE_QOS_KEY,
    RESOURCE_THRESHOLD_KEY,
    SUPPRESSION_KEY,
)
from corewise.vocabulary.offline_report import OfferState, OfflineReport
from manager.world import CRD, FAST, SLOW, normalization
from node_records import recorded

IN_PARTS = "entries without errors are applied, nodes that others may be meant for stay as they are"
LAST_GOOD = "the last good one stays in force"
FRESH = aged(REPORT, -3600, datetime.now(UTC))
AMPLIFIED_ANNOTATIONS = {
    OFFLINE_REPORT: FRESH.encode(),
    NORMALIZATION_RATIO: "2.00",
    AMPLIFICATION_RATIO: '{"cpu":2.00}',
    AMPLIFICATION_ORIGINAL: "{}",
    **recorded({"cpu": ("8", "16")}),
}


async def fill(kubeconfig: Path) -> None:
    async with Client(load_config(str(kubeconfig))) as client:
        await client.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body=CRD)
        await client.create(NAMESPACES, {"metadata": {"name": CONFIG_NAMESPACE}})
        data = {NORMALIZATION_KEY: normalization()}
        await client.create(CONFIG_MAPS, {"metadata": {"name": CONFIG_NAME}, "data": data}, CONFIG_NAMESPACE)
        for name, model, cpu, annotations in (
            ("fast", FAST, "16", AMPLIFIED_ANNOTATIONS),
            ("slow", SLOW, "8", {NORMALIZATION_RATIO: "1.00"}),
            ("odd", "Odd CPU", "8", {}),
        ):
            amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
            metadata = {"name": name, "annotations": annotations, "labels": {"pool": name}}
            await client.create(NODES, {"metadata": metadata})
            left = amounts | {"cpu": "7"} if name == "slow" else amounts
            status = {"capacity": amounts, "allocatable": left}
            await client.patch(NODES, name, {"status": status}, subresource="status")
            info = {CPU_BASIC_INFO: json.dumps({"cpuModel": model, "hyperThreadEnabled": False})}
            await client.create(NODE_RESOURCE_TOPOLOGIES, {"metadata": {"name": name, "annotations": info}})
        taint = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
        frozen = labeled(changed(FRESH, state=OfferState.FROZEN))
        info = {CPU_BASIC_INFO: json.dumps({"cpuModel": SLOW, "hyperThreadEnabled": False})}
        await client.create(NODE_RESOURCE_TOPOLOGIES, {"metadata": {"name": "tainted", "annotations": info}})
        await client.create(NODES, {"metadata": {"name": "tainted", **frozen}, "spec": {"taints": [taint]}})
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "4", "memory": "1Gi"}}}
        spec = {"nodeName": "fast", "containers": [container]}
        await client.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, "default")


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with local_api_server(tmp_path_factory.mktemp("cluster")) as path:
        asyncio.run(fill(path))
        yield path


def call(kubeconfig: Path, *arguments: str) -> Result:
    return CliRunner().invoke(corewise, [*arguments, "--kubeconfig", str(kubeconfig)])


def test_table_shows_every_cpu_unit_and_a_total(kubeconfig: Path) -> None:
    result = call(kubeconfig, "nodes")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line[:77].rstrip() for line in lines] == [
        "NODE  MODEL     RAW CPU  NORM  NORMALIZED   AMP  SCHEDULABLE  REQUESTED  FREE",
        "fast  Fast CPU        8  2.00          16  2.00           16    4 (25%)    12",
        "odd   Odd CPU         8     -           8  1.00            8     0 (0%)     8",
        "slow  Slow CPU        7  1.00           7  1.00            7     0 (0%)     7",
        "*     3 models       23                31                 31    4 (12%)    27",
    ]
    assert [" ".join(line[77:].split()) for line in lines] == [
        "USED LATELY OFFLINE OFFERED STATE",
        "13.0 (162%) █████ 2.50 suppressing",
        "- - UnknownCPUModel",
        "- -",
        "13.0 (162%) █████ 2.50",
    ]


def test_facts_left_out_of_the_table_reach_stderr(kubeconfig: Path) -> None:
    said = call(kubeconfig, "nodes").stderr.splitlines()
    assert said == [
        "1 node hidden by taint or cordon (--all shows it).",
        f"1 node has a problem: odd UnknownCPUModel (corewise explain node --kubeconfig {kubeconfig} odd)",
        (
            "Nodes are amplified by nothing that the API shows: no policy and no webhook is installed "
            "(corewise manager --manage-webhooks), unless a policy is in a file of the API server."
        ),
    ]
    shown = call(kubeconfig, "nodes", "--all")
    assert "tainted" in shown.stdout
    assert "hidden" not in shown.stderr
    command = f"corewise explain suppression --kubeconfig {kubeconfig} tainted"
    assert f"a problem: tainted OfferFrozen ({command})" in shown.stderr


@pytest.mark.parametrize(
    ("key", "text", "instead"),
    [
        (NORMALIZATION_KEY, '{"enable": 1}', IN_PARTS),
        (AMPLIFICATION_KEY, '{"enable": 1}', IN_PARTS),
        (NORMALIZATION_KEY, "{", LAST_GOOD),
        (OVERSUBSCRIPTION_KEY, "[]", LAST_GOOD),
        (SUPPRESSION_KEY, "[]", LAST_GOOD),
        (RESOURCE_QOS_KEY, "[]", LAST_GOOD),
        (RESOURCE_THRESHOLD_KEY, "[]", LAST_GOOD),
    ],
)
def test_key_with_errors_names_the_next_command(key: str, text: str, instead: str) -> None:
    reading = read_configuration(ConfigMap(data={key: text}))
    said = list(remarks(ListedCluster((), reading, True, ()), [], "koordinator-system"))
    assert said[-1] == (
        f"{key} has errors: {instead}. To see them: "
        f"kubectl -n koordinator-system get configmap {CONFIG_NAME} -o yaml | corewise config check -"
    )


def test_a_selector_narrows_the_list(kubeconfig: Path) -> None:
    assert call(kubeconfig, "nodes", "-l", "pool=fast", "-o", "name").stdout == "node/fast\n"
    nobody = call(kubeconfig, "nodes", "-l", "pool=nosuch")
    assert len(nobody.stdout.splitlines()) == 1
    assert nobody.stderr == "No nodes found.\n"


def test_machine_forms_name_units_and_hide_nothing(kubeconfig: Path) -> None:
    document = json.loads(call(kubeconfig, "nodes", "-o", "json").stdout)
    assert [item["name"] for item in document["items"]] == ["fast", "odd", "slow", "tainted"]
    fast = document["items"][0]
    assert fast["rawAllocatableCPUMilli"] == fast["rawCapacityCPUMilli"] == 8000
    assert fast["capacityCPUMilli"] == 16000
    slow = document["items"][2]
    assert (slow["rawAllocatableCPUMilli"], slow["rawCapacityCPUMilli"]) == (7000, 8000)
    assert fast["schedulableCPUMilli"] == 16000
    assert fast["freeCPUMilli"] == 12000
    assert fast["requestedMemoryBytes"] == 2**30
    assert fast["normalizationRatio"] == "2.00"
    assert document["items"][1]["problem"] == "UnknownCPUModel"
    assert yaml.safe_load(call(kubeconfig, "nodes", "-o", "yaml").stdout) == document
    rows = list(csv.DictReader(io.StringIO(call(kubeconfig, "nodes", "-o", "csv").stdout)))
    assert rows[0]["rawAllocatableCPUMilli"] == "8000"
    assert rows[0]["hyperThreading"] == "false"


def test_a_line_can_be_multiplied_along(kubeconfig: Path) -> None:
    document = json.loads(call(kubeconfig, "nodes", "-o", "json").stdout)
    for item in document["items"][:3]:
        raw = item["rawAllocatableCPUMilli"]
        assert item["schedulableCPUMilli"] == raw * float(item["amplificationRatio"])
        assert item["normalizedCPUMilli"] == raw * float(item["normalizationRatio"] or 1)
        assert item["freeCPUMilli"] == item["schedulableCPUMilli"] - item["requestedCPUMilli"]


def test_wide_adds_capacity_memory_and_cpu_settings(kubeconfig: Path) -> None:
    heading, *rows = call(kubeconfig, "nodes", "-o", "wide").stdout.splitlines()
    for column in ("TURBO", "RAW CAPACITY", "CAPACITY", "RAW MEM GiB", "NATIVE BE"):
        assert column in heading
    (slow,) = (row for row in rows if row.startswith("slow"))
    end = heading.index("RAW CAPACITY") + len("RAW CAPACITY")
    assert slow[:end].endswith(" 8")


def test_machine_forms_show_what_offline_pods_are_offered(kubeconfig: Path) -> None:
    document = json.loads(call(kubeconfig, "nodes", "-o", "json").stdout)
    fast, odd = document["items"][:2]
    assert (fast["offlineOfferedCPUMilli"], fast["nativeBestEffortPods"]) == (2500, 2)
    assert (odd["offlineOfferedCPUMilli"], odd["nativeBestEffortPods"]) == (None, None)


@pytest.mark.parametrize(
    ("report", "text", "problem"),
    [
        (aged(REPORT, 0), "suppressing", ""),
        (aged(REPORT, 3600), "offline data old", ""),
        (changed(REPORT, suppression={"reason": "SuppressionSteppedUp", "quota_milli": 9000}), "", ""),
        (changed(REPORT, suppression=None), "", ""),
        (changed(aged(REPORT, 3600), state=OfferState.WITHDRAWN), "OfferWithdrawn", "OfferWithdrawn"),
    ],
)
def test_the_state_of_offline_pods_is_one_word(report: OfflineReport, text: str, problem: str) -> None:
    node = node_report("n1", {}, labeled(report)["annotations"], NOW)
    assert offline_state_of(node) == NodeState(text, problem)


def test_explain_names_rule_facts_amounts_and_the_fix(kubeconfig: Path) -> None:
    text = call(kubeconfig, "explain", "node", "odd").stdout
    assert text.startswith("odd: ratio unchanged, none applied; amplification none    UnknownCPUModel")
    assert '"Odd CPU" HT off, turbo off    NodeResourceTopology odd' in text
    assert 'ratioModel has no entry for "Odd CPU"' in text
    assert "to fix         Add the model" in text


def test_explain_shows_the_amplification_of_a_healthy_node(kubeconfig: Path) -> None:
    text = call(kubeconfig, "explain", "node", "fast").stdout
    assert text.startswith("fast: normalization ratio 2.00; amplification cpu 2.00\n")
    assert "cpu: original 1.00 (default) x normalization 2.00 = 2.00" in text
    assert "raw            capacity 8 CPU, 16.0 GiB; allocatable 8 CPU, 16.0 GiB" in text
    assert "in status      capacity 16 CPU" in text
    assert "shows the ratio" in text


def test_explain_has_a_machine_form(kubeconfig: Path) -> None:
    document = json.loads(call(kubeconfig, "explain", "node", "fast", "-o", "json").stdout)
    assert document["normalization"]["ratio"] == "2.00"
    assert document["amplification"]["inForce"] == {"cpu": "2.00"}
    assert document["status"]["rawCapacity"]["cpuMilli"] == 8000
    assert document["status"]["allocatable"]["cpuMilli"] == 16000
    assert document["requested"] == {"cpuMilli": 4000, "memoryBytes": 2**30, "ownedCPUMilli": 0}
    assert document["problems"] == []
    assert document["events"] == []


def failure(kubeconfig: Path, *arguments: str) -> Failure:
    error = call(kubeconfig, *arguments).exception
    assert isinstance(error, Failure)
    return error


def test_missing_node_is_reported_with_the_next_step(kubeconfig: Path) -> None:
    error = failure(kubeconfig, "explain", "node", "nowhere")
    assert "there is no node nowhere" in str(error)
    assert "corewise nodes" in error.hint
    assert error.exit_code == ExitCode.NOT_FOUND


def test_unresponsive_cluster_is_reported(kubeconfig: Path, tmp_path: Path) -> None:
    document = json.loads(kubeconfig.read_text())
    document["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    other = tmp_path / "kubeconfig"
    other.write_text(json.dumps(document))
    assert failure(other, "nodes").exit_code == ExitCode.CONNECTION


def test_forbidden_config_map_is_not_an_empty_one(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, list_all = Client.get, Client.list

    async def refused(client: Client, resource: Resource[Any], *arguments: Any, **options: Any) -> Any:
        if resource.plural in {"configmaps", "pods"}:
            raise api_error(403, b"{}")
        return await (list_all if options or not arguments else read)(client, resource, *arguments, **options)

    monkeypatch.setattr(Client, "get", refused)
    monkeypatch.setattr(Client, "list", refused)
    fast = call(kubeconfig, "nodes").stdout.splitlines()[1]
    assert "ratio due" not in fast
    assert "(0%)" not in fast  # of REQUESTED, which is unknown
    explained = call(kubeconfig, "explain", "node", "fast").stdout
    assert "or may not be read, and no good one is known" in explained
    assert "normalization is off" not in explained


def test_missing_kubeconfig_is_bad_input(tmp_path: Path) -> None:
    assert failure(tmp_path / "none", "nodes").exit_code == ExitCode.BAD_INPUT


def test_help_of_nodes_loads_no_numpy_or_http() -> None:
    program = "import sys, corewise.cli.nodes; sys.exit(bool({'numpy', 'aiohttp'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
