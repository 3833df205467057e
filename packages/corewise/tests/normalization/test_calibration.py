"""Scores and ratios of a calibration are exact, and results that give no ratios are refused."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.config.configuration import RatioField, parse_normalization
from corewise.normalization.calibration import (
    Calibration,
    CalibrationScore,
    IncomparableError,
    decoded,
    geometric_mean,
    rate,
    ratio_model,
    scored,
)
from corewise.normalization.mix import KERNELS, Done
from corewise.quantities import ONE, Ratio


def result(
    model: str, score: int, *, threads: bool = True, turbo: bool = True, cpus: int = 8, python: str = "3.13.1"
) -> Calibration:
    of_all = CalibrationScore(cpus, score, score, score, score, 10)
    return Calibration(
        cpu_model=model,
        hyper_thread_enabled=threads,
        turbo_enabled=turbo,
        online_cpus=8,
        single_thread=CalibrationScore(1, score * 2, score, score, score, 10),
        all_cpus=of_all,
        repeats=5,
        python=python,
        zlib="1.3",
    )


def ratios(*results: Calibration) -> dict[str, dict[str, str]]:
    found = ratio_model(results).ratios
    return {model: {field.value: str(ratio) for field, ratio in of.items()} for model, of in found.items()}


def test_slowest_is_one_and_others_are_exact_hundredths() -> None:
    assert ratios(result("A", 100), result("B", 125), result("C", 333)) == {
        "A": {"hyperThreadTurboEnabledRatio": "1.00"},
        "B": {"hyperThreadTurboEnabledRatio": "1.25"},
        "C": {"hyperThreadTurboEnabledRatio": "3.33"},
    }


def test_half_hundredths_round_to_even() -> None:
    found = ratios(result("A", 1000), result("B", 1005), result("C", 1015))
    assert [list(of.values()) for of in found.values()] == [["1.00"], ["1.00"], ["1.02"]]


def test_models_settings_merge_and_unmeasured_are_not_guessed() -> None:
    found = ratios(
        result("A", 100, threads=True, turbo=False),
        result("A", 160, threads=False, turbo=False),
        result("A", 180, threads=False, turbo=True),
    )
    assert found == {
        "A": {"baseRatio": "1.60", "hyperThreadEnabledRatio": "1.00", "turboEnabledRatio": "1.80"}
    }


def test_median_of_conflicting_results_counts_with_a_warning() -> None:
    model = ratio_model([result("A", 100), result("B", 200), result("B", 240), result("B", 210)])
    assert str(model.ratios["B"][RatioField.HYPER_THREADING_TURBO]) == "2.10"
    assert model.warnings == (
        '3 results of "B" (hyperThreadTurboEnabledRatio) give from 2.00 to 2.40: the median counts',
    )
    agreeing = ratio_model([result("A", 10_000), result("B", 20_000), result("B", 20_001)])
    assert agreeing.warnings == ()


def test_even_number_of_results_uses_the_exact_middle() -> None:
    assert ratios(result("A", 100), result("B", 200), result("B", 205))["B"] == {
        "hyperThreadTurboEnabledRatio": "2.02"
    }


def test_what_makes_results_less_comparable_is_told() -> None:
    warnings = ratio_model([result("A", 100, python="3.11.7"), result("B", 100, cpus=4)]).warnings
    assert warnings[0].startswith("measured with several versions of Python (3.11.7, 3.13.1)")
    assert '"B": only 4 of 8 CPUs were measured' in warnings[1]
    assert "says nothing about other models" in ratio_model([result("A", 100)]).warnings[0]


REFUSED = {
    "no result": [],
    "above 5.00": [result("A", 100), result("B", 501)],
    "names no CPU model": [result("unknown", 100)],
    "has no score": [result("A", 0)],
    "cannot be compared": [result("A", 100), msgspec.structs.replace(result("B", 100), mix=2)],
}


@pytest.mark.parametrize("why", REFUSED)
def test_results_that_give_no_ratios_are_refused(why: str) -> None:
    with pytest.raises(IncomparableError, match=why):
        ratio_model(REFUSED[why])


RESULTS = st.lists(
    st.builds(
        result,
        st.sampled_from(['A "quoted" CPU', "B", "C"]),
        st.integers(10_000, 50_000),
        threads=st.booleans(),
        turbo=st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


@given(RESULTS)
def test_every_model_is_valid_configuration_including_a_one(results: list[Calibration]) -> None:
    model = ratio_model(results)
    parsed = parse_normalization(model.json())
    assert parsed.value is not None
    assert parsed.problems == ()
    assert parsed.value.cluster.ratio_model == model.ratios
    every = [ratio for of in model.ratios.values() for ratio in of.values()]
    assert min(every) == ONE
    assert all(f": {ratio}" in model.json() for ratio in every)


@given(st.lists(st.integers(0, 10**15), min_size=1, max_size=6))
def test_the_geometric_mean_is_exact(numbers: list[int]) -> None:
    mean, product = geometric_mean(numbers), 1
    for number in numbers:
        product *= number
    assert mean ** len(numbers) <= product < (mean + 1) ** len(numbers)


def test_rate_is_mean_worker_passes_per_thousand_seconds() -> None:
    assert rate([Done(10, 10**9, 10**9)]) == 10_000
    assert rate([Done(10, 10**9, 0), Done(20, 10**9, 0)]) == 15_000


def test_score_is_median_run_despite_one_bad_run() -> None:
    runs = [dict.fromkeys(KERNELS, each) for each in (1000, 1010, 1020, 1030, 5)]
    score = scored(4, runs)
    assert (score.cpus, score.score, score.integer) == (4, 1010, 1010)
    assert score.spread == 20 * 10_000 // 1010


def test_a_result_survives_its_line_of_json() -> None:
    one = result("A", 100)
    line = msgspec.json.encode(one)
    assert b"\n" not in line
    assert decoded(line) == [one]
    assert decoded(line + b"\n\n" + line + b"\n") == [one, one]
    assert decoded(msgspec.json.format(line, indent=2)) == [one]


BAD = [b"", b"{}", b"[]", b"\xff", b'{"format":"corewise.io/calibration/v2"}', b"{}\n{}\n"]


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_result_is_an_error(text: bytes) -> None:
    with pytest.raises((msgspec.MsgspecError, UnicodeDecodeError)):
        decoded(text)


def test_the_json_of_a_model_is_plain() -> None:
    text = ratio_model([result("A", 100), result("B", 120)]).json()
    assert json.loads(text)["ratioModel"]["B"] == {"hyperThreadTurboEnabledRatio": 1.2}
    assert str(Ratio(120)) in text
