"""``corewise explain suppression``: from a cluster, from a file, and the sentences about every situation."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from api_process import local_api_server
from cli.offline_world import CALM, NOW, REPORT, STEPPING, aged, changed, heartbeat, labeled
from corewise.agent.offline_cache import SampleHistory
from corewise.agent.offline_decision import NodeColocation
from corewise.agent.publication import report_of
from corewise.cli import corewise
from corewise.cli.errors import ExitCode, Failure
from corewise.config.colocation import OversubscriptionSettings, SuppressionSettings
from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.resources import CONFIG_MAPS, NAMESPACES, NODES, PODS
from corewise.quantities import Share
from corewise.suppression.offer import OfferHistory, OfflineAmounts, Pinned, Usage, compute
from corewise.views.node_listing import offline_state_of
from corewise.views.offline_reports import node_report
from corewise.views.offline_table import PLAIN, columns, row_of
from corewise.views.page.problems import of_report
from corewise.views.suppression_explanation import (
    Subject,
    adjustments_left,
    explain_suppression,
    formula,
    next_step,
)
from corewise.views.suppression_settings import settings_for
from corewise.vocabulary.names import (
    CONFIG_NAME,
    CONFIG_NAMESPACE,
    OFFLINE_REPORT,
    OVERSUBSCRIPTION,
    OVERSUBSCRIPTION_KEY,
    QOS_LEVEL,
    RESOURCE_QOS_KEY,
    RESOURCE_THRESHOLD_KEY,
    SUPPRESSION_KEY,
)
from corewise.vocabulary.offline_report import OfferState, OfflineReport, ShortfallReport, SuppressionReport
from corewise.vocabulary.reasons import Reason

CONFIG = {
    OVERSUBSCRIPTION_KEY: '{"ratio": 0.60, "intervalSeconds": 10}',
    SUPPRESSION_KEY: json.dumps(
        {
            "adjustStep": 0.1,
            "nodeConfigs": [
                {"name": "batch", "nodeSelector": {"matchLabels": {"pool": "batch"}}, "adjustStep": 0.25}
            ],
        }
    ),
}


def objects(report: OfflineReport | None = REPORT) -> dict[str, list[dict[str, Any]]]:
    """Return the objects of a cluster with one node, by plural."""
    meta = labeled(report)
    meta["labels"]["pool"] = "batch"
    container = {"name": "c", "image": "i"}
    batch = {**container, "resources": {"requests": {"kubernetes.io/batch-cpu": "2000"}}}

    def pod(name: str, spec: dict[str, Any], qos: str = "BestEffort") -> dict[str, Any]:
        return {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"nodeName": "n1", "containers": [spec]},
            "status": {"phase": "Running", "qosClass": qos},
        }

    amounts = {"cpu": "24", "memory": "64Gi", "kubernetes.io/batch-cpu": "3690"}
    return {
        "nodes": [
            {
                "metadata": {"name": "n1", **meta},
                "status": {"allocatable": amounts, "conditions": [heartbeat()]},
            }
        ],
        "configmaps": [{"metadata": {"name": CONFIG_NAME, "namespace": CONFIG_NAMESPACE}, "data": CONFIG}],
        "pods": [pod("native", container), pod("batch", batch), pod("web", container, "Burstable")],
    }


def dump(path: Path, **lists: list[dict[str, Any]]) -> Path:
    """Write what kubectl get nodes,pods,configmaps -o json prints."""
    kinds = {"nodes": "Node", "configmaps": "ConfigMap", "pods": "Pod"}
    items = [{"kind": kinds[plural], **item} for plural, listed in lists.items() for item in listed]
    file = path / "dump.json"
    file.write_text(json.dumps({"kind": "List", "items": items}))
    return file


def call(*arguments: str) -> Result:
    return CliRunner().invoke(corewise, ["explain", "suppression", *arguments])


def subject(report: OfflineReport | None, label: str | None = "true", **config: str) -> Subject:
    labels = {} if label is None else {OVERSUBSCRIPTION: label}
    annotations = {} if report is None else {OFFLINE_REPORT: report.encode()}
    node = node_report("n1", labels, annotations, NOW)
    data = {key.replace("_", "-"): text for key, text in config.items()} or CONFIG
    return Subject(node, label, settings_for(data, labels), 3750, None, ())


def text(subject: Subject) -> str:
    return explain_suppression(subject).text


def test_pods_requesting_cpus_instead_of_thousandths_are_named(tmp_path: Path) -> None:
    lists = objects()
    lists["pods"][1]["spec"]["containers"][0]["resources"]["requests"]["kubernetes.io/batch-cpu"] = "8"
    file = str(dump(tmp_path, **lists))
    shown = call("n1", "--from", file).stdout
    assert "  tiny pods      default/batch\n" in shown
    assert f"  problem        {Reason.BATCH_AMOUNT_TINY}: " in shown
    record = json.loads(call("n1", "--from", file, "-o", "json").stdout)
    assert record["tinyPods"] == ["default/batch"]
    assert (
        json.loads(call("n1", "--from", str(dump(tmp_path, **objects())), "-o", "json").stdout)["tinyPods"]
        == []
    )


def test_everything_is_said_with_its_numbers(tmp_path: Path) -> None:
    result = call("n1", "--from", str(dump(tmp_path, **objects(aged(REPORT, -3600, datetime.now(UTC))))))
    assert result.exit_code == 0
    shown = re.sub(r"20\d\d-\S+, ", "TIME, ", result.stdout)
    assert shown.splitlines() == [
        "n1: offers 2.5 of 16 CPU; offline pods are squeezed    SuppressionSteppedDown",
        "  switch         label volcano.sh/oversubscription is true",
        "  settings       oversubscription: ratio 0.60, every 10 s    cluster strategy",
        (
            "                 suppression: isolation idle, besteffort-quota, adjustStep 0.25    "
            'nodeConfigs[0] "batch" over the cluster strategy'
        ),
        "  last sample    TIME, 0s old (normal up to 2m); one every 10 s",
        "  allocatable    16 CPU, raw",
        "  node           13 CPU used, by everything",
        "  offline        3 CPU of that by the BestEffort slice",
        "  online         13 - 3 = 10 CPU, daemons of the system too",
        "  CPUSet pods    1.9 CPU owned and not used: cannot be lent",
        "  offer          (16 - 10 - 1.9) x 0.60 = 2.46 CPU by the last sample",
        "                 2.5 CPU smoothed over 10 samples, each weighs twice the one before",
        "                 memory: (64.0 - 20.0) x 0.60, smoothed 26.0 GiB",
        "  limited by     OfferLessPinned: " + Reason.OFFER_LESS_PINNED.meaning,
        (
            "  on the Node    kubernetes.io/batch-cpu 3690: offer 2.5 CPU x normalization ratio 1.50, "
            "in thousandths"
        ),
        "  quota          4 CPU, target 2.5 CPU, at most 1.6 CPU each adjustment",
        "  because        SuppressionSteppedDown: from 5.6 to 4.0 of 2.5 CPUs, by at most 1.6",
        "  next           1 adjustment to the target if the offer stays, about 10 s",
        "  repaired       2 times since the agent's start: somebody else had changed it",
        "  offline pods   5",
        "  native pods    2 BestEffort without kubernetes.io/batch-cpu, squeezed along: default/native",
    ]


def test_the_machine_form_holds_the_same(tmp_path: Path) -> None:
    file = dump(tmp_path, **objects(aged(REPORT, -3600, datetime.now(UTC))))
    document = json.loads(call("n1", "--from", str(file), "-o", "json").stdout)
    assert document["formula"] == "(16 - 10 - 1.9) x 0.60"
    assert document["adjustmentsToTarget"] == 1
    assert document["report"]["suppression"]["quotaMilli"] == 4000
    assert document["settings"]["suppression"]["adjustStep"] == "0.25"
    assert document["settings"]["suppression"]["source"].startswith('nodeConfigs[0] "batch"')
    assert document["published"]["batchCPUNormalizedMilli"] == 3690
    assert document["nativeBestEffortPods"] == ["default/native"]
    assert (document["state"], document["stale"], document["problems"]) == ("suppressing", False, [])


@given(
    st.integers(0, 128_000),
    st.integers(0, 128_000),
    st.integers(0, 128_000),
    st.integers(0, 20_000),
    st.integers(0, 100),
)
def test_the_formulas_numbers_give_the_offer(
    allocatable: int, node: int, offline: int, pinned: int, percent: int
) -> None:
    usage = Usage(node, offline, (Pinned(pinned, 0),), 0, 0)
    amounts, settings = OfflineAmounts(allocatable, 0), OversubscriptionSettings(ratio=Share(percent * 100))
    computed = compute(usage, amounts, settings.ratio)
    measured = SampleHistory()
    measured.add(0.0, usage, computed)
    report = report_of(
        measured,
        OfferHistory().with_sample(0.0, computed).offer(0.0),
        NodeColocation(settings, allocatable=amounts),
    )
    assert report
    inside, ratio = formula(report).split(" x ")
    numbers = re.findall(r"[0-9.]+", inside.removeprefix("max(0, "))
    total, *taken = (Fraction(number) for number in numbers)
    offered = max(Fraction(0), total - sum(taken)) * Fraction(ratio)
    assert report.raw_offer_milli == offered * 1000 // 1


def test_both_commands_show_cache_and_bandwidth_limits(tmp_path: Path) -> None:
    why = {"reason": Reason.RESCTRL_MBA_MISSING, "why": "L3:0=3f", "schemata": "L3:0=3f", "tasks": 12}
    file = str(dump(tmp_path, **objects(changed(REPORT, resctrl=why))))
    for command in ("suppression", "node"):
        result = CliRunner().invoke(corewise, ["explain", command, "n1", "--from", file])
        lines = result.stdout.splitlines()
        (at,) = (index for index, line in enumerate(lines) if line.split()[:1] == ["resctrl"])
        assert lines[at].endswith("ResctrlMBAMissing: L3:0=3f, 12 tasks in it")
        assert lines[at + 1].endswith(Reason.RESCTRL_MBA_MISSING.fix)


def test_both_commands_show_who_would_be_evicted(tmp_path: Path) -> None:
    eviction = {
        "reason": Reason.EVICTION_REFUSED,
        "why": "memory in use is 90 %",
        "next": "jobs/a",
        "order": "priority 5000, created 2026-01-01T00:00:00Z",
        "last": "jobs/b at 2026-01-02T00:00:00Z: EvictedForMemory",
        "dryRun": True,
    }
    file = str(dump(tmp_path, **objects(changed(REPORT, eviction=eviction))))
    for command in ("suppression", "node"):
        result = CliRunner().invoke(corewise, ["explain", command, "n1", "--from", file])
        lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
        at = next(index for index, line in enumerate(lines) if line.startswith("eviction "))
        assert lines[at : at + 4] == [
            "eviction EvictionRefused: memory in use is 90 %; a dry run: no pod is evicted",
            "goes next jobs/a: priority 5000, created 2026-01-01T00:00:00Z",
            "went last jobs/b at 2026-01-02T00:00:00Z: EvictedForMemory",
            f"to fix {Reason.EVICTION_REFUSED.fix}",
        ]


def stepping(quota: int, target: int, step: int, reason: Reason) -> SuppressionReport:
    changes = {"quota_milli": quota, "target_milli": target, "step_milli": step, "reason": reason}
    report = changed(REPORT, suppression=changes)
    assert report.suppression
    return report.suppression


@pytest.mark.parametrize(
    ("quota", "target", "step", "reason", "left"),
    [
        (14_400, 4_000, 1_600, Reason.SUPPRESSION_STEPPED_DOWN, 7),
        (4_000, 9_600, 1_600, Reason.SUPPRESSION_STEPPED_UP, 4),
        (4_000, 4_000, 1_600, Reason.SUPPRESSION_AT_TARGET, 0),
        (10, 0, 1_600, Reason.SUPPRESSION_AT_FLOOR, 0),
        (4_000, 3_999, 0, Reason.SUPPRESSION_STEPPED_DOWN, 1),
    ],
)
def test_adjustments_to_the_target_are_counted(
    quota: int, target: int, step: int, reason: Reason, left: int
) -> None:
    assert adjustments_left(stepping(quota, target, step, reason)) == left


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (
            Reason.UTILIZATION_HIGH,
            "the next 5 pods lose 0.10 of their limit each interval, until utilization is ",
        ),
        (
            Reason.UTILIZATION_LOW,
            "the next 5 pods gain 0.10 of their limit each interval, until utilization is ",
        ),
        (Reason.UTILIZATION_BETWEEN, "nothing, until utilization is above 0.80 or below 0.40"),
        (Reason.NOTHING_ADJUSTABLE, "nothing, until pods come and go"),
        (Reason.SLICE_MISSING, "tried again every 10 s"),
    ],
)
def test_what_comes_next_is_told_for_every_reason(reason: Reason, words: str) -> None:
    suppression = SuppressionReport(mode="per-pod-quota", reason=reason, why="")
    assert next_step(suppression, REPORT, SuppressionSettings()).startswith(words)


def test_disabled_oversubscription_tells_how_to_enable_it() -> None:
    shown = text(subject(None, None, cpu_suppression_config='{"enabled": false}'))
    assert shown.startswith("n1: oversubscription is off    OversubscriptionOff\n")
    assert "kubectl logs" not in shown
    assert 'to fix         Label the node volcano.sh/oversubscription: "true"' in shown


@pytest.mark.parametrize(
    ("config", "acting"),
    [
        ({}, ["isolation idle"]),
        ({"mode": "per-pod-quota"}, ["isolation idle", "per-pod-quota"]),
        ({"mode": "per-pod-quota", "isolation": "weights"}, ["per-pod-quota"]),
        ({"isolation": "weights"}, []),
        ({"enabled": False}, []),
    ],
)
def test_what_needs_no_label_is_told(tmp_path: Path, config: dict[str, Any], acting: list[str]) -> None:
    lists = objects()
    lists["nodes"][0]["metadata"] = {"name": "n1"}
    marked = {**lists["pods"][0], "metadata": {"name": "marked", "annotations": {QOS_LEVEL: "-1"}}}
    lists["pods"].append(marked)
    lists["configmaps"][0]["data"] = {SUPPRESSION_KEY: json.dumps(config)}
    file = str(dump(tmp_path, **lists))
    first, *lines = call("n1", "--from", file).stdout.splitlines()
    assert all(each in first for each in ("oversubscription is off", "OversubscriptionOff", *acting))
    assert ("offline pods back" in first) is bool(acting)
    natives = [line.split(": ")[1] for line in lines if "native pods" in line]
    assert natives == ["default/native"] * bool(acting)
    assert any("--field-selector spec.nodeName=n1 -o name)" in line for line in lines) is bool(acting)
    document = json.loads(call("n1", "--from", file, "-o", "json").stdout)
    assert document["settings"]["withoutLabel"] == acting


@pytest.mark.parametrize(
    ("key", "content"),
    [
        (OVERSUBSCRIPTION_KEY, {"ratio": 2}),
        (SUPPRESSION_KEY, {"adjustStep": 1.5}),
        (RESOURCE_QOS_KEY, {"clusterStrategy": {"beClass": {"resctrlQOS": {"mbaPercent": 200}}}}),
        (RESOURCE_THRESHOLD_KEY, {"clusterStrategy": {"memoryEvictThresholdPercent": 800}}),
    ],
)
def test_both_commands_name_each_key_with_errors(tmp_path: Path, key: str, content: dict[str, Any]) -> None:
    lists = objects()
    lists["configmaps"][0]["data"] = {key: json.dumps(content)}
    file = str(dump(tmp_path, **lists))
    for command in ("suppression", "node"):
        arguments = ["explain", command, "n1", "--from", file]
        shown = CliRunner().invoke(corewise, arguments).stdout
        assert f"{key} has errors" in shown
        assert "  problem " in shown
        found = json.loads(CliRunner().invoke(corewise, [*arguments, "-o", "json"]).stdout)["problems"]
        assert Reason.CONFIG_INVALID in {each["reason"] for each in found}


def test_label_without_a_report_points_at_the_agent() -> None:
    shown = text(subject(None))
    assert "its agent reports nothing yet" in shown
    assert "OfferReportMissing" in shown
    assert "See that corewise agent runs on the node" in shown


def test_a_label_of_another_value_is_a_problem() -> None:
    shown = text(subject(REPORT, "yes"))
    assert "problem        OversubscriptionLabelInvalid" in shown


def test_unsuppressed_node_tells_how_to_suppress_it() -> None:
    shown = text(subject(changed(CALM, suppression=None), oversubscription_config="{}"))
    assert shown.startswith("n1: offers 8.4 of 16 CPU; not suppressed    SuppressionOff\n")
    assert "suppression: off    defaults: there is no key cpu-suppression-config" in shown
    assert "quota          kubelet's own: offline pods are not held back" in shown
    assert "Set the key cpu-suppression-config" in shown


def test_bad_key_is_reported_and_agent_ratio_counts() -> None:
    shown = text(subject(REPORT, cpu_suppression_config='{"adjustStep": 1.5}'))
    assert "suppression: key cpu-suppression-config has errors; the agent keeps the last good one" in shown
    assert "problem        ConfigInvalid" in shown
    other = text(subject(REPORT, oversubscription_config='{"ratio": 0.5}'))
    assert "the agent still applies ratio 0.60" in other


@pytest.mark.parametrize(
    ("seconds", "old"), [(0, False), (84, False), (120, False), (121, True), (7200, True)]
)
def test_every_view_calls_the_same_reports_old(seconds: int, old: bool) -> None:
    asked = subject(aged(REPORT, seconds))
    node = asked.node
    assert (": OLD (" in text(asked)) is old
    assert (Reason.OFFER_REPORT_OLD in asked.problems) is old
    assert (Reason.OFFER_REPORT_OLD in {each.reason for each in of_report(asked)}) is old
    assert (offline_state_of(node).text == "offline data old") is old
    row = row_of(node)
    assert row is not None
    (age,) = [column.text(row) for column in columns(PLAIN) if column.title == "AGE"]
    assert age.endswith(" OLD") is old


def test_old_data_is_marked_and_missing_samples_reported() -> None:
    old = text(subject(aged(REPORT, 7200)))
    assert old.startswith("n1: offers 2.5 of 16 CPU, 2h ago;")
    assert ", 2h old: OLD (normal up to 2m); one every 10 s\n" in old
    assert "problem        OfferReportOld" in old
    assert "component=agent --field-selector spec.nodeName=n1\n" in old
    frozen = text(subject(changed(aged(REPORT, 300), state=OfferState.FROZEN, missing=30)))
    assert "frozen; 30 missed in a row\n" in frozen
    assert "problem        OfferFrozen" in frozen


def test_a_withdrawn_offer_has_no_formula() -> None:
    withdrawn = changed(REPORT, state=OfferState.WITHDRAWN, missing=90, offered_milli=0, samples=0)
    shown = text(subject(withdrawn))
    assert "offer          nothing: withdrawn, there was no sample for 15 minutes" in shown
    assert " x 0.60 = " not in shown


def test_shortfall_is_reported_with_both_amounts_and_meaning() -> None:
    short = changed(REPORT, shortfall=ShortfallReport(batch_cpu=6000, batch_memory=8 * 2**30))
    shown = text(subject(short))
    assert "shortfall      offline pods request 6000 kubernetes.io/batch-cpu and 8.0 GiB of" in shown
    assert "problem        OfferBelowRequests" in shown
    assert "shortfall " not in text(subject(REPORT))


def test_per_pod_quotas_show_thresholds_instead_of_target() -> None:
    per_pod = SuppressionReport(
        mode="per-pod-quota", reason=Reason.UTILIZATION_HIGH, why="utilization 0.85", task="suppressing"
    )
    shown = text(
        subject(changed(REPORT, suppression=per_pod), cpu_suppression_config='{"mode": "per-pod-quota"}')
    )
    assert "per-pod-quota, thresholds 0.40 0.60 0.80, adjustQuotaStep 0.10, adjustPodNum 5" in shown
    assert "  quota " not in shown
    assert "until utilization is below 0.60" in shown


def test_reason_of_another_version_is_shown_verbatim() -> None:
    report = changed(REPORT, limited_by="FromTheFuture", suppression={"reason": "FromTheFuture"})
    assert text(subject(report)).count("FromTheFuture") == 3
    assert STEPPING.reason not in text(subject(report))


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"items": 1}', '{"items": [{"kind": "Node", "metadata": 1}]}']
)
def test_file_not_from_kubectl_is_refused_with_instructions(tmp_path: Path, content: str) -> None:
    file = tmp_path / "dump.json"
    file.write_text(content)
    error = call("n1", "--from", str(file)).exception
    assert isinstance(error, Failure)
    assert "kubectl get nodes,pods,configmaps,mutatingwebhookconfigurations -A -o json" in error.hint
    assert error.exit_code == ExitCode.BAD_INPUT


def test_missing_file_or_node_is_reported(tmp_path: Path) -> None:
    missing = call("n1", "--from", str(tmp_path / "none")).exception
    assert isinstance(missing, Failure)
    assert missing.exit_code == ExitCode.BAD_INPUT
    other = call("n9", "--from", str(dump(tmp_path, **objects()))).exception
    assert isinstance(other, Failure)
    assert (other.exit_code, "n1" in other.hint) == (ExitCode.NOT_FOUND, True)


def test_a_single_node_in_a_file_will_do(tmp_path: Path) -> None:
    (node,) = objects()["nodes"]
    file = tmp_path / "node.json"
    file.write_text(json.dumps({"kind": "Node", **node}))
    result = call("n1", "--from", str(file))
    assert result.exit_code == 0
    assert "suppression: off    defaults" in result.stdout


def test_dump_without_pods_does_not_know_requests(tmp_path: Path) -> None:
    lists = objects()
    del lists["pods"]
    file = str(dump(tmp_path, **lists))
    results = [
        CliRunner().invoke(corewise, ["explain", subject, "n1", "--from", file, "-o", "json"])
        for subject in ("node", "suppression")
    ]
    of_node, of_suppression = (json.loads(each.stdout) for each in results)
    assert of_node["requested"] is of_suppression["nativeBestEffortPods"] is None
    assert results[0].stderr.count("pods: there is none; what is requested is not known\n") == 1
    assert results[1].stderr == "pods: there is none\n"


async def fill(kubeconfig: Path) -> None:
    async with Client(load_config(str(kubeconfig))) as client:
        held = objects()
        await client.create(NAMESPACES, {"metadata": {"name": CONFIG_NAMESPACE}})
        for node in held["nodes"]:
            await client.create(NODES, {"metadata": node["metadata"]})
            await client.patch(NODES, "n1", {"status": node["status"]}, subresource="status")
        for config in held["configmaps"]:
            await client.create(CONFIG_MAPS, config, CONFIG_NAMESPACE)
        for pod in held["pods"]:
            await client.create(PODS, pod, "default")
            name = pod["metadata"]["name"]
            body = {"status": pod["status"]}
            await client.patch(PODS, name, body, namespace="default", subresource="status")


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with local_api_server(tmp_path_factory.mktemp("cluster")) as path:
        asyncio.run(fill(path))
        yield path


def test_cluster_and_its_file_give_the_same_output(kubeconfig: Path, tmp_path: Path) -> None:
    of_cluster = json.loads(call("n1", "--kubeconfig", str(kubeconfig), "-o", "json").stdout)
    of_file = json.loads(call("n1", "--from", str(dump(tmp_path, **objects())), "-o", "json").stdout)
    assert of_cluster.pop("ageSeconds") is not None
    of_file.pop("ageSeconds")
    assert of_cluster == of_file
    assert of_cluster["nativeBestEffortPods"] == ["default/native"]


def test_node_missing_in_the_cluster_is_reported(kubeconfig: Path) -> None:
    error = call("n9", "--kubeconfig", str(kubeconfig)).exception
    assert isinstance(error, Failure)
    assert error.exit_code == ExitCode.NOT_FOUND


@pytest.mark.parametrize("subject", [("node", "n1"), ("pod", "default/native")])
def test_node_and_pod_are_explained_alike_from_files(
    kubeconfig: Path, tmp_path: Path, subject: tuple[str, str]
) -> None:
    places = (("--kubeconfig", str(kubeconfig)), ("--from", str(dump(tmp_path, **objects()))))
    results = [CliRunner().invoke(corewise, ["explain", *subject, *each, "-o", "json"]) for each in places]
    assert [each.exit_code for each in results] == [0, 0]
    of_cluster, of_file = (json.loads(each.stdout) for each in results)
    of_cluster["amplifiedBy"] = of_file["amplifiedBy"] = "a file of nodes and pods does not say"
    assert of_cluster == of_file


@pytest.mark.parametrize(("subject", "what"), [(("node", "n9"), "node n9"), (("pod", "x/y"), "pod x/y")])
def test_objects_missing_from_the_file_are_not_found(
    tmp_path: Path, subject: tuple[str, str], what: str
) -> None:
    file = str(dump(tmp_path, **objects()))
    found = CliRunner().invoke(corewise, ["explain", *subject, "--from", file])
    assert isinstance(found.exception, Failure)
    assert (found.exception.exit_code, f"there is no {what}" in str(found.exception)) == (
        ExitCode.NOT_FOUND,
        True,
    )
