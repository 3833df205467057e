"""The end of ``corewise up``: a picture of what a CPU is worth, and five lines, the headline last."""

from __future__ import annotations

import sys

import click
import pytest

from corewise.cli.output import Screen
from corewise.cli.up_story import picture, story
from corewise.simulation.measurement import ClusterMeasurement, Colocation, Delivered, NodeMeasurement
from corewise.simulation.report import Measurement, RunReport

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
                name, facts, "1.00", {}, 32_000, 32_000, 32_000, schedulable, requested, 9, worth, None
            )
        )
    return ClusterMeasurement(tuple(nodes))


OFFLINE = Colocation(32.0, 10.0, 12.3, 14.0, 1.0, [0.1, 0.2], 9.0, 10.0, 10.0)
REPORT = RunReport(
    "a scenario",
    (),
    off=Measurement(measured(on=False), colocation={"slow": OFFLINE}),
    on=Measurement(measured(on=True), colocation={"slow": OFFLINE}),
)


@pytest.fixture
def unicode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", type("Terminal", (), {"encoding": "utf-8"}))


@pytest.mark.usefixtures("unicode")
def test_the_picture_has_a_pair_of_bars_for_each_kind_of_machine() -> None:
    assert picture(REPORT, Screen()) == [
        "What one CPU in a request is worth, in baseline CPUs:",
        "                                 corewise off            corewise on",
        "Xeon E5-2682 v4                  ███████ 1.00            ███████ 1.00",
        "Xeon Platinum 8269CY, turbo off  ████████ 1.19           ███████ 1.01",
        "Xeon Platinum 8269CY             ██████████ 1.52         ███████ 1.01",
        "EPYC 9654                        █████████████████ 2.51  ███████ 0.99",
    ]


@pytest.mark.parametrize("width", [60, 80, 120, 200, None])
def test_no_bar_is_longer_than_the_terminal_or_80_columns(width: int | None) -> None:
    assert max(map(len, picture(REPORT, Screen(width)))) <= min(width or 80, 80)


@pytest.mark.usefixtures("unicode")
def test_only_a_cpu_that_is_worth_more_or_less_than_one_is_coloured() -> None:
    lines = picture(REPORT, Screen(80, colour=True))
    assert click.unstyle("\n".join(lines)) == "\n".join(picture(REPORT, Screen(80)))
    assert ["\x1b[33m" in line for line in lines] == [False, False, False, True, True, True]
    assert lines[-1].count("\x1b[33m") == 1


def test_a_terminal_that_prints_no_blocks_gets_plain_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", type("Terminal", (), {"encoding": "ascii"}))
    assert picture(REPORT, Screen())[2].split() == [
        "Xeon",
        "E5-2682",
        "v4",
        "#######",
        "1.00",
        "#######",
        "1.00",
    ]


def test_the_story_is_five_lines_that_fit_80_columns_and_ends_with_the_headline() -> None:
    lines = list(story(REPORT))
    assert lines == [
        "4 nodes, 3 CPU models: a requested CPU was worth 1.00 to 2.51 baseline CPUs.",
        "Nodes offer 258 CPUs, not 128 (+102%); pods request 240, not 120.",
        "Offline pods used 12.3 CPUs and slowed online pods by 15.0%;",
        "with corewise they use 12.3 CPUs and slow online pods by 15.0%.",
        "Now one CPU is worth 0.99 to 1.01 everywhere: a spread of 1.02 instead of 2.51.",
    ]
    assert max(map(len, lines)) <= 80


def test_without_a_part_that_was_off_it_compares_nothing() -> None:
    report = RunReport("a scenario", (), off=None, on=Measurement(measured(on=True)))
    assert "corewise off" not in "\n".join(picture(report, Screen()))
    assert list(story(report)) == [
        "4 nodes, 3 CPU models: corewise was on from the start; there is nothing to compare with.",
        "Nodes offer 258 CPUs; pods request 240.",
        "Now one CPU is worth 0.99 to 1.01 everywhere: a spread of 1.02.",
    ]
