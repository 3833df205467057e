"""``make bench COMPARE=REV`` and ``make bench-check``: intervals, verdicts, sentences. No time is asserted.

| samples | interval |
|---|---|
| 1 to 5 | lowest to highest: fewer than 95 % are possible |
| 6 to 8 | lowest to highest |
| 9 to 11 | without the lowest and the highest |
"""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.bench import comparing, pairs
from tools.bench.comparing import Spread, amount, interval, quartiles, ratios, slower, table, verdict
from tools.bench.headlines import HEADLINES
from tools.bench.pairs import NotMeasuredError, Tree, commit_of, spoken

FIRST, SECOND = HEADLINES[0].name, HEADLINES[1].name


@pytest.mark.parametrize(
    ("count", "left_out"),
    [(1, 0), (2, 0), (5, 0), (6, 0), (8, 0), (9, 1), (10, 1), (11, 1), (12, 2), (20, 5)],
)
def test_interval_leaves_out_as_many_as_it_may(count: int, left_out: int) -> None:
    found = interval(list(range(count, 0, -1)))
    assert (found.low, found.high) == (1 + left_out, count - left_out)
    assert found.value == (count + 1) / 2


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=30), st.floats(0.5, 2))
def test_interval_encloses_median_and_scales(samples: list[float], factor: float) -> None:
    found, scaled = interval(samples), interval([each * factor for each in samples])
    assert found.low <= found.value <= found.high
    assert (scaled.low, scaled.high) == pytest.approx((found.low * factor, found.high * factor))


@pytest.mark.parametrize(
    ("samples", "found"),
    [
        ([3.0], Spread(3, 3, 3)),
        ([1.0, 2.0, 3.0, 4.0, 5.0], Spread(3, 2, 4)),
        ([1.0, 3.0], Spread(2, 1.5, 2.5)),
    ],
)
def test_quartiles_of_few_and_many_samples(samples: list[float], found: Spread) -> None:
    assert quartiles(samples) == found


@pytest.mark.parametrize(
    ("ratio", "fails"),
    [
        (Spread(1.00, 0.98, 1.02), False),
        (Spread(1.20, 1.09, 1.30), False),  # it may be 9 %
        (Spread(1.20, 1.10, 1.30), False),  # exactly 10 %
        (Spread(1.20, 1.11, 1.30), True),
        (Spread(0.50, 0.40, 0.60), False),
    ],
)
def test_only_an_interval_wholly_above_fails(ratio: Spread, *, fails: bool) -> None:
    assert slower({FIRST: ratio}) == [FIRST] * fails


def test_ratio_is_the_median_of_pairs() -> None:
    here, there = {FIRST: [2.0, 30.0, 4.0]}, {FIRST: [1.0, 10.0, 4.0], SECOND: [1.0, 1.0, 1.0]}
    assert ratios(here, there) == {FIRST: Spread(2.0, 1.0, 3.0)}


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (0.01234, "0.0123"), (1.2345, "1.23"), (46.08, "46.1"), (12544.8, "12,545")],
)
def test_amount_has_three_digits(value: float, shown: str) -> None:
    assert amount(value) == shown


def test_table_has_both_trees_and_their_ratio() -> None:
    lines = table({FIRST: [20.0, 22.0]}, {FIRST: [10.0, 11.0]}, "1a2b3c4d").splitlines()
    assert re.split(r"  +", lines[0]) == ["FIGURE", "THIS TREE", "1a2b3c4d", "UNIT", "RATIO", "INTERVAL"]
    assert re.split(r"  +", lines[1]) == [FIRST, "21.0", "10.5", HEADLINES[0].unit, "2.00", "2.00 to 2.00"]
    assert len(lines) == 2


def test_verdict_names_figure_amount_and_next_step() -> None:
    told = verdict({FIRST: Spread(1.30, 1.20, 1.40), SECOND: Spread(1.0, 0.9, 1.05)}, "1a2b3c4d")
    assert f"{FIRST} costs 30 % more than at 1a2b3c4d (20 to 40 %): {HEADLINES[0].what}." in told
    assert "-m cProfile -s cumulative -m tools.bench.headlines engine" in told
    assert "make bench COMPARE=COMMIT" in told
    assert SECOND not in told


def test_verdict_names_figures_that_are_too_noisy() -> None:
    assert verdict({SECOND: Spread(1.0, 0.9, 1.2)}, "1a2b3c4d").splitlines() == [
        "No figure is shown to cost more than 10 % more than at 1a2b3c4d.",
        f"Too noisy to tell 10 %: {SECOND}. Repeat it while nothing else runs here.",
    ]


def test_ten_figures_have_reasons_and_runs() -> None:
    assert len({each.name for each in HEADLINES}) == len(HEADLINES) == 10
    for each in HEADLINES:
        assert each.reason
        assert inspect.iscoroutinefunction(importlib.import_module(f"tools.bench.{each.run}").sample)


def test_unknown_commit_is_answered_in_a_sentence() -> None:
    with pytest.raises(SystemExit, match=r"this repository has no commit no-such-commit. List some: git log"):
        commit_of("no-such-commit")


def test_history_without_release_asks_for_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(("git", "init", "--quiet", tmp_path), check=True)
    monkeypatch.setattr(pairs, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match=r"no release in this history.*make bench-check COMPARE=COMMIT"):
        pairs.last_release()


def test_failed_run_tells_its_last_line(tmp_path: Path) -> None:
    (tmp_path / "packages/corewise/src").mkdir(parents=True)
    with pytest.raises(NotMeasuredError, match=r"No module named 'tools.bench.nothing'"):
        Tree(tmp_path).take("nothing", 0)


def test_tree_without_packages_is_not_measured(tmp_path: Path) -> None:
    with pytest.raises(NotMeasuredError, match="it has no packages"):
        Tree(tmp_path).take("engine", 0)


def test_figures_another_tree_lacks_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = Tree(tmp_path / "here"), Tree(tmp_path / "there")

    def take(tree: Tree, run: str, seed: int) -> dict[str, float]:
        if tree is there and run == "watching":
            raise NotMeasuredError("ImportError: no Cache")
        return {"guest": 1.0 + seed}

    monkeypatch.setattr(Tree, "take", take)
    lacking = pairs.measure(("watching", "guests"), (here, there))
    assert here.samples == there.samples == {"guest": [1.0 + each for each in range(pairs.PAIRS)]}
    (told,) = spoken(lacking, "1a2b3c4d")
    assert told.startswith("event, pod-memory: not measured: ")
    assert "1a2b3c4d (ImportError: no Cache)" in told


def test_interval_of_ten_pairs_covers_enough() -> None:
    found = interval([float(each) for each in range(pairs.PAIRS)])
    assert (found.low, found.high) == (1, pairs.PAIRS - 2)
    assert 1 - 2 * (1 + pairs.PAIRS) / 2**pairs.PAIRS > comparing.COVERAGE
