"""``corewise report``: one page about a cluster, from a dump or live, as HTML and as Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from api_process import local_api_server
from cli.offline_world import CALM, aged, labeled
from corewise.cli import corewise
from corewise.cli.errors import Failure
from corewise.kube.clock import rfc3339
from corewise.vocabulary.names import (
    AMPLIFICATION_ORIGINAL,
    AMPLIFICATION_RATIO,
    CONFIG_NAME,
    CONFIG_NAMESPACE,
    CPU_BASIC_INFO,
    CPU_EVALUATION,
    NORMALIZATION_KEY,
    NORMALIZATION_RATIO,
    NORMALIZE_CPUSET,
)
from manager.world import FAST, SLOW, normalization
from node_records import recorded
from normalization.fleets import report

VOID = {"meta", "br", "img", "link", "hr", "input"}
FRESH = aged(CALM, -3600, datetime.now(UTC))


def node(name: str, cpu: str, **metadata: Any) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
    status = {"capacity": amounts, "allocatable": amounts}
    return {"kind": "Node", "metadata": {"name": name, **metadata}, "status": status}


def topology(name: str, model: str) -> dict[str, Any]:
    info = json.dumps({"cpuModel": model, "hyperThreadEnabled": False, "turboEnabled": False})
    meta = {"name": name, "annotations": {CPU_BASIC_INFO: info}}
    return {"kind": "NodeResourceTopology", "metadata": meta}


def pod(name: str, on: str, cpu: str) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    meta = {"name": name, "namespace": "default", "uid": name}
    return {
        "kind": "Pod",
        "metadata": meta,
        "spec": {"nodeName": on, "containers": [container]},
        "status": {"phase": "Running"},
    }


def objects() -> list[dict[str, Any]]:
    """Return a cluster: "fast" at its ratio of 2.00, "slow" with offline pods, "odd" of an unknown model."""
    fast = {
        NORMALIZATION_RATIO: "2.00",
        AMPLIFICATION_RATIO: '{"cpu":2.00}',
        AMPLIFICATION_ORIGINAL: "{}",
        **recorded({"cpu": ("8", "16")}),
    }
    offline = labeled(FRESH)
    offline["annotations"][NORMALIZATION_RATIO] = "1.00"
    return [
        {
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG_NAME, "namespace": CONFIG_NAMESPACE},
            "data": {NORMALIZATION_KEY: normalization()},
        },
        node("fast", "16", annotations=fast),
        node("slow", "16", **offline),
        node("odd", "8"),
        topology("fast", FAST),
        topology("slow", SLOW),
        topology("odd", "<Odd & CPU>"),
        *(pod(f"web-{place}", "fast", "2") for place in range(8)),
        *(pod(f"db-{place}", "slow", "4") for place in range(4)),
        pod("tool", "odd", "8"),
    ]


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"items": objects()}))
    return file


def call(*arguments: str) -> Result:
    return CliRunner().invoke(corewise, ["report", *arguments])


def text_of(dump: Path, *more: str) -> str:
    result = call("--from", str(dump), *more)
    assert result.exit_code == 0, result.output
    return result.stdout


class Tags(HTMLParser):
    """Checks that every tag is closed in order, and collects names, texts and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()
        self.values: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.values += [value or "" for _, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(html: str) -> Tags:
    tags = Tags()
    tags.feed(html)
    tags.close()
    assert tags.open == []
    return tags


def test_unread_label_of_a_namespace_is_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "dump.json"
    namespace = {"kind": "Namespace", "metadata": {"name": "jobs", "labels": {NORMALIZE_CPUSET: "yes"}}}
    file.write_text(json.dumps({"items": [*objects(), namespace]}))
    text = text_of(file, "-o", "md")
    assert "NormalizeLabelInvalid" in text
    assert f"kubectl label --overwrite namespace jobs {NORMALIZE_CPUSET}=true" in text


def test_dump_is_judged_by_its_own_time(tmp_path: Path) -> None:
    file, now = tmp_path / "dump.json", datetime.now(UTC)
    ages = {"late": 40_000, "last": 36_000}  # the dump is ten hours old
    items = [node(name, "16", **labeled(aged(CALM, age, now))) for name, age in ages.items()]
    file.write_text(json.dumps({"items": items}))
    text = text_of(file, "-o", "md")
    assert "| OfferReportOld | Node late |" in text
    assert "Node last" not in text


def test_unknown_raw_cpus_are_no_gain(tmp_path: Path) -> None:
    file = tmp_path / "dump.json"
    of_koordinator = {AMPLIFICATION_RATIO: '{"cpu":1.5}', NORMALIZATION_RATIO: "1.50"}
    items = [node("n", "72", annotations=of_koordinator)]
    file.write_text(json.dumps({"items": items}))
    assert "- **-** CPUs gained." in text_of(file, "-o", "md")
    file.write_text(json.dumps({"items": [*objects(), *items]}))
    text = text_of(file, "-o", "md")
    assert "- **+8** CPUs gained. Nodes offer 40 schedulable CPUs from 32 raw CPUs: 8 more" in text
    assert text.count("1 node whose raw CPUs are not known: in no sum.") == 2


def test_dump_without_pods_does_not_know_requests(tmp_path: Path) -> None:
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"items": [each for each in objects() if each["kind"] != "Pod"]}))
    text = text_of(file, "-o", "md")
    assert "Machines saved are not known" in text
    assert "| Slow | 1 | 16 | 16 | 16 | - | 1.00 | 1.00 |" in text
    assert text.count("- pods: there is none; what is requested is not known") == 1


def test_dump_made_by_the_hint_misses_nothing(tmp_path: Path) -> None:
    file = tmp_path / "dump.json"
    file.write_text("{")
    error = CliRunner().invoke(corewise, ["report", "--from", str(file)]).exception
    assert isinstance(error, Failure)
    kinds = re.findall(r"kubectl get (\S+) -A -o json", error.hint)[-1]
    webhook = {"kind": "MutatingWebhookConfiguration", "metadata": {"name": "other"}, "webhooks": []}
    items = [each for each in (*objects(), webhook) if each["kind"].lower()[:-1] in kinds]
    file.write_text(json.dumps({"items": items}))
    assert "Not read" not in text_of(file, "-o", "md")


def off_ratios() -> Iterator[dict[str, Any]]:
    """Yield nodes of two kinds, the fast ones measured 1.50 times as fast as the others, not 2.00."""
    time = rfc3339(datetime.now(UTC))
    off = {"hyper_thread_enabled": False, "turbo_enabled": False, "time": time, "measured": time}
    for model, score in ((FAST, 1500), (SLOW, 1000)):
        for place in range(7):
            stated = topology(f"{model[:2]}-{place}".lower().replace(" ", ""), model)
            name = stated["metadata"]["name"]
            stated["metadata"]["annotations"][CPU_EVALUATION] = report(score, model, **off).encode()
            yield from (node(name, "16"), stated)


def test_configured_ratio_that_is_off_is_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"items": [*objects(), *off_ratios()]}))
    text = text_of(file, "-o", "md")
    assert "ModelRatioOff" in text
    assert f"{CONFIG_NAMESPACE}/{CONFIG_NAME}" in text
    assert "corewise config suggest --cluster" in text


def test_entries_that_share_a_node_are_a_problem(tmp_path: Path) -> None:
    entries = [{"name": name, "nodeSelector": {}} for name in "ab"]
    given = objects()
    given[0]["data"] = {NORMALIZATION_KEY: normalization(nodeConfigs=entries)}
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"items": given}))
    assert "ConflictingNodeConfigs" in text_of(file, "-o", "md")


def test_webhook_of_koordinator_is_one_problem(tmp_path: Path) -> None:
    rule = {"resources": ["nodes/status"], "apiGroups": [""], "operations": ["UPDATE"]}
    hook = {"name": "mnode-status.koordinator.sh", "rules": [rule]}
    webhook = {"kind": "MutatingWebhookConfiguration", "metadata": {"name": "koord"}, "webhooks": [hook]}
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"items": [*objects(), webhook]}))
    text = text_of(file, "-o", "md")
    assert text.count("| KoordinatorWebhookPresent |") == 1
    assert "koord/mnode-status.koordinator.sh" in text


def test_bad_key_is_reported_with_its_errors(tmp_path: Path) -> None:
    given = objects()
    given[0]["data"] = {NORMALIZATION_KEY: normalization(defaultRatio=0.5)}
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"items": given}))
    text = text_of(file, "-o", "md")
    assert "defaultRatio: 0.5 is outside 1.00..5.00" in text


def test_page_is_well_formed_and_needs_nothing_else(dump: Path) -> None:
    html = text_of(dump)
    assert html.startswith('<!DOCTYPE html>\n<html lang="en">')
    tags = parsed(html)
    assert not tags.names & {"script", "link", "img", "iframe", "object"}
    assert not [each for each in tags.values if "//" in each]
    assert "url(" not in html
    assert "@import" not in html
    for scheme in ("prefers-color-scheme: dark", "@media print"):
        assert scheme in html
    pictures = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
    assert len(pictures) == 3
    for picture in pictures:
        assert ET.fromstring(picture).get("aria-label")  # noqa: S314 - made here


def test_both_forms_state_the_same_key_figures(dump: Path) -> None:
    said = parsed(text_of(dump)).text
    markdown = text_of(dump, "-o", "md")
    for sentence in (
        "one CPU in a request is worth 1.00 to 2.00 baseline CPUs without corewise, and 1.00 with it.",
        "Nodes offer 40 schedulable CPUs from 32 raw CPUs: 8 more (25%).",
        "All of that is the speed of fast CPUs.",
        "The 13 online pods fit on 3 nodes with these ratios, and on 4 without any",
        "Offline pods use 1.50 of the 14.0 raw CPUs that online pods leave idle, on 1 of 3 nodes.",
        "UnknownCPUModel",
        "corewise explain node odd",
    ):
        assert sentence in said
        assert sentence in markdown


def test_names_are_escaped_in_both_forms(dump: Path) -> None:
    html, markdown = text_of(dump), text_of(dump, "-o", "md")
    assert "<Odd" not in html
    assert "&lt;Odd &amp; CPU&gt;" in html
    rows = [line for line in markdown.splitlines() if line.startswith("|")]
    assert not [line for line in rows if "<Odd" in line]


def test_report_without_facts_or_ratios_says_so(tmp_path: Path) -> None:
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"items": [node("n1", "4"), node("n2", "4")]}))
    said = parsed(text_of(file)).text
    assert "the configuration has no ratios for them" in said
    assert "2 nodes without CPU facts" in said
    assert "No node reports offline pods." in said
    assert "Nodes offer 8 schedulable CPUs from 8 raw CPUs: 0 more (0%)." in said


def test_nodes_that_are_not_normalized_have_no_worth(tmp_path: Path) -> None:
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"items": [node("n1", "4"), topology("n1", FAST)]}))
    row = next(line for line in text_of(file, "-o", "md").splitlines() if line.startswith("| Fast |"))
    assert row.split("|")[-3:-1] == [" - ", " - "]


@pytest.mark.parametrize("arguments", [(), ("--cluster", "--from", "FILE")])
def test_exactly_one_source_has_to_be_named(arguments: tuple[str, ...], dump: Path) -> None:
    result = call(*(str(dump) if each == "FILE" else each for each in arguments))
    assert result.exit_code == 2
    assert "either --cluster or --from FILE" in result.stderr


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    with local_api_server(tmp_path) as path:
        yield path


def test_an_empty_cluster_has_a_page(kubeconfig: Path) -> None:
    result = call("--cluster", "--kubeconfig", str(kubeconfig))
    assert result.exit_code == 0
    assert "cluster, 0 nodes" in parsed(result.stdout).text
    assert call("--cluster", "--kubeconfig", str(kubeconfig), "-o", "md").exit_code == 0
