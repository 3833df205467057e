"""The end of ``corewise up``: a picture of what a CPU is worth, and a few lines, the headline last.

What the last lines say about normalization:

    nodes                                   lines
    all at their ratios, alike              everywhere: the spread
    one without a ratio                     on N of M nodes; the node, its reason, the command to type
    one that could not be measured          on N of M nodes
    at their ratios, but not alike          never "everywhere"; the two nodes that differ most
    all at 1.00                             no conclusion; if not alike, that no node has a ratio
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import click
import pytest

from corewise.cli.output import Form, Screen
from corewise_lab.cli.report import Teller, print_report
from corewise_lab.cli.story import picture, story
from corewise_lab.measurement import (
    ClusterMeasurement,
    Colocation,
    Delivered,
    NodeMeasurement,
    Verdict,
)
from corewise_lab.report import Measurement, RunReport

MODELS = {
    "slow": ("Intel(R) Xeon(R) CPU E5-2682 v4 @ 2.50GHz", True, 1.00, 1.00),
    "fast": ("AMD EPYC 9654 96-Core Processor", True, 2.51, 0.99),
    "turbo": ("Intel(R) Xeon(R) Platinum 8269CY CPU @ 2.50GHz", True, 1.52, 1.01),
    "plain": ("Intel(R) Xeon(R) Platinum 8269CY CPU @ 2.50GHz", False, 1.19, 1.01),
}


def measured(*, on: bool) -> ClusterMeasurement:
    nodes = []
    for name, (model, turbo, off, with_corewise) in MODELS.items():
        facts = {"cpuModel": model, "hyperThreadEnabled": True, "turboEnabled": turbo}
        worth = Delivered(10.0, with_corewise if on else off)
        schedulable, requested = (64_500, 60_000) if on else (32_000, 30_000)
        nodes.append(
            NodeMeasurement(
                name, facts, "1.50", {}, 32_000, 32_000, 32_000, schedulable, requested, 9, worth, None
            )
        )
    return ClusterMeasurement(tuple(nodes))


OFFLINE = Colocation(32.0, 10.0, 12.3, 14.0, 1.0, [0.1, 0.2], 9.0, 10.0, 10.0)
LESS_OFFLINE = Colocation(32.0, 10.0, 8.2, 8.5, 1.0, [0.02, 0.04], 9.0, 10.0, 11.5)
REPORT = RunReport(
    "a scenario",
    (),
    off=Measurement(measured(on=False), colocation={"slow": OFFLINE}),
    on=Measurement(measured(on=True), colocation={"slow": LESS_OFFLINE}),
)


def with_nodes(on: list[NodeMeasurement], off: list[NodeMeasurement] | None = None) -> RunReport:
    before = ClusterMeasurement(tuple(off or measured(on=False).nodes))
    return RunReport("a scenario", (), Measurement(before), Measurement(ClusterMeasurement(tuple(on))))


def last_lines(report: RunReport) -> list[str]:
    return [line for line in story(report) if not line.startswith(("4 nodes", "Nodes offer"))]


@pytest.fixture
def unicode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", type("Terminal", (), {"encoding": "utf-8"}))


@pytest.mark.usefixtures("unicode")
def test_picture_has_two_bars_per_kind_of_machine() -> None:
    assert picture(REPORT, Screen()) == [
        "What one CPU in a request is worth, in baseline CPUs:",
        "                        corewise off                 corewise on",
        "Xeon E5-2682 v4         █████████ 1.00               █████████ 1.00",
        "Xeon 8269CY, turbo off  ██████████ 1.19              █████████ 1.01",
        "Xeon 8269CY             █████████████ 1.52           █████████ 1.01",
        "EPYC 9654               ██████████████████████ 2.51  █████████ 0.99",
    ]


@pytest.mark.parametrize("width", [60, 80, 120, 200, None])
def test_no_bar_exceeds_the_terminal_or_80_columns(width: int | None) -> None:
    assert max(map(len, picture(REPORT, Screen(width)))) <= min(width or 80, 80)


@pytest.mark.usefixtures("unicode")
def test_only_numbers_far_from_one_are_yellow() -> None:
    lines = picture(REPORT, Screen(80, color=True))
    assert click.unstyle("\n".join(lines)) == "\n".join(picture(REPORT, Screen(80)))
    assert ["\x1b[33m" in line for line in lines] == [False, False, False, True, True, True]
    assert lines[-1].count("\x1b[33m") == 1


@pytest.mark.usefixtures("unicode")
def test_each_model_has_a_color_off_and_on() -> None:
    colors = [re.findall(r"\x1b\[(\d+)m█", line) for line in picture(REPORT, Screen(80, color=True))[2:]]
    assert colors == [["36", "36"], ["32", "32"], ["32", "32"], ["35", "35"]]


def test_terminal_without_block_characters_gets_plain_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", type("Terminal", (), {"encoding": "ascii"}))
    assert picture(REPORT, Screen())[2].split() == [
        "Xeon",
        "E5-2682",
        "v4",
        "#########",
        "1.00",
        "#########",
        "1.00",
    ]


def test_story_fits_80_columns_and_ends_with_headline() -> None:
    lines = list(story(REPORT))
    assert lines == [
        "4 nodes, 3 CPU models: a requested CPU was worth 1.00 to 2.51 baseline CPUs.",
        "Nodes offer 258 CPUs, not 128 (+102%); pods request 240, not 120.",
        "Online pods ran 15.0% slower beside offline pods; with corewise, 3.0% slower.",
        "Offline pods use 8.2 of the 20.5 CPUs that online pods leave idle.",
        "Now one CPU is worth 0.99 to 1.01 everywhere: a spread of 1.02 instead of 2.51.",
    ]
    assert max(map(len, lines)) <= 80


def test_nothing_is_compared_without_an_off_phase() -> None:
    report = RunReport("a scenario", (), None, Measurement(measured(on=True), {"slow": LESS_OFFLINE}))
    assert "corewise off" not in "\n".join(picture(report, Screen()))
    assert list(story(report)) == [
        "4 nodes, 3 CPU models: corewise was on from the start; there is nothing to compare with.",
        "Nodes offer 258 CPUs; pods request 240.",
        "Online pods run 3.0% slower beside offline pods.",
        "Offline pods use 8.2 of the 20.5 CPUs that online pods leave idle.",
        "Now one CPU is worth 0.99 to 1.01 everywhere: a spread of 1.02.",
    ]


def test_node_without_ratio_shows_its_reason_and_fix() -> None:
    slow, fast, turbo, plain = measured(on=True).nodes
    unknown = Verdict("UnknownCPUModel", "ratioModel has no entry")
    odd = replace(fast, normalization_ratio=None, delivered=Delivered(10.0, 2.51), verdict=unknown)
    assert last_lines(with_nodes([slow, odd, turbo, plain])) == [
        "Now one CPU is worth 1.00 to 1.01 on 3 of 4 nodes: a spread of 1.01 instead of 1.52.",
        "fast has no ratio (UnknownCPUModel); one CPU is worth 2.51 there. To fix it:",
        "  corewise explain reason UnknownCPUModel",
    ]


def test_nodes_held_back_alike_share_one_line() -> None:
    slow, *others = measured(on=True).nodes
    missing = Verdict("CPUFactsMissing", "no facts")
    mute = [replace(each, normalization_ratio=None, delivered=None, verdict=missing) for each in others]
    assert last_lines(with_nodes([slow, *mute])) == [
        "Now one CPU is worth 1.00 on 1 of 4 nodes.",
        "fast, turbo, plain have no ratio (CPUFactsMissing). To fix it:",
        "  corewise explain reason CPUFactsMissing",
    ]


def test_node_keeping_earlier_ratio_is_not_called_ratioless() -> None:
    slow, fast, turbo, plain = measured(on=True).nodes
    refused = replace(fast, verdict=Verdict("UnsafeDecreaseRefused", "pods would not fit"))
    (_, line, _) = last_lines(with_nodes([slow, refused, turbo, plain]))
    assert line.startswith("fast keeps its ratio (UnsafeDecreaseRefused); one CPU is worth 0.99 there.")


def test_unmeasured_node_is_not_part_of_everywhere() -> None:
    slow, fast, turbo, plain = measured(on=True).nodes
    (line,) = last_lines(with_nodes([slow, replace(fast, delivered=None), turbo, plain]))
    assert line == "Now one CPU is worth 1.00 to 1.01 on 3 of 4 nodes: a spread of 1.01 instead of 1.52."


def test_uneven_nodes_are_never_reported_as_everywhere() -> None:
    slow, fast, turbo, plain = measured(on=True).nodes
    wrong = replace(fast, normalization_ratio="1.20", delivered=Delivered(10.0, 2.09))
    assert last_lines(with_nodes([slow, wrong, turbo, plain])) == [
        "Now one CPU is worth 1.00 to 2.09: a spread of 2.09 instead of 2.51.",
        "It is least on slow (ratio 1.50) and most on fast (ratio 1.20):",
        "their ratios do not match their speeds. Measure both with corewise calibrate.",
    ]


def test_unnormalized_story_ends_with_what_offline_pods_get() -> None:
    off = [replace(each, normalization_ratio="1.00") for each in measured(on=False).nodes]
    report = with_nodes(off, off)
    assert last_lines(report) == ["No node has a ratio above 1.00, so one CPU is still worth 1.00 to 2.51."]
    offline = {"slow": OFFLINE}
    beside = replace(report, on=replace(report.on, colocation=offline))
    assert last_lines(beside)[-1] == "Offline pods use 12.3 of the 22.0 CPUs that online pods leave idle."


def test_offline_pods_using_more_than_idle_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    greedy = {"slow": replace(OFFLINE, offline=25.0)}
    report = with_nodes([replace(each, normalization_ratio="1.00") for each in measured(on=False).nodes])
    beside = replace(report, on=replace(report.on, colocation=greedy))
    assert last_lines(beside)[-1] == "Offline pods use 25.0 CPUs, 3.0 more than online pods leave idle."
    Teller(Form.TABLE, tmp_path, open_ended=False).colocated(greedy, on=True)
    said = capsys.readouterr().out
    assert "; offline pods use 25.0 CPUs, more than the 22.0 idle ones; nodes" in said


@pytest.mark.parametrize(
    ("terminal", "term", "shown"),
    [
        (True, "xterm", "\r\033[Kwaiting for pod…\r\033[K"),
        (True, "dumb", ""),
        (False, "xterm", ""),
    ],
)
def test_progress_is_one_line_on_capable_terminals(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    terminal: bool,
    term: str,
    shown: str,
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("COLUMNS", "17")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    teller = Teller(Form.TABLE, tmp_path, open_ended=False)
    teller.progress("waiting for pods to start (3 s)")
    teller.clear()
    assert capsys.readouterr().err == shown


def test_progress_reports_online_losses_before_offline_gains(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    teller = Teller(Form.TABLE, tmp_path, open_ended=False)
    teller.colocated({"slow": OFFLINE}, on=False)
    teller.colocated({"slow": LESS_OFFLINE}, on=True)
    off, on = (line.split("; ") for line in capsys.readouterr().out.splitlines())
    assert off[0] == "corewise off  online pods 15.0% slower beside offline pods, at worst 20%"
    assert off[1:] == ["offline pods use 12.3 of 22.0 idle CPUs", "nodes 70% busy"]
    assert on[0] == "corewise on   online pods 3.0% slower beside offline pods, at worst 4%"
    assert on[1:] == ["offline pods use 8.2 of 20.5 idle CPUs", "nodes 57% busy"]


def test_progress_counts_nodes_that_miss_their_ratios(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    teller = Teller(Form.TABLE, tmp_path, open_ended=False)
    slow, fast, *others = measured(on=True).nodes
    odd = replace(fast, verdict=Verdict("UnknownCPUModel", "no entry"))
    teller.measured(ClusterMeasurement((slow, odd, *others)), on=True)
    assert capsys.readouterr().out.endswith("; 1 node not at its ratio\n")


def test_unknown_cpu_settings_are_not_shown_as_off(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    slow, *_ = measured(on=True).nodes
    mute = replace(slow, name="mute", facts={"hyperThreadEnabled": False, "vendorID": "unknown"})
    print_report(with_nodes([mute]), Form.TABLE)
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("mute ")]
    assert row.split()[1:4] == ["-", "-", "-"]
