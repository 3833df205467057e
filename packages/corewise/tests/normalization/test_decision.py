"""Which ratio a node has: the six rules of the decision, one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.config.configuration import (
    NO_NORMALIZATION,
    NormalizationConfig,
    NormalizationStrategy,
    RatioField,
    parse_normalization,
)
from corewise.config.facts import CPUFacts, parse_cpu_basic_info
from corewise.config.node_configs import Configuration
from corewise.normalization.decision import NormalizationVerdict, decide, nearest_model
from corewise.quantities import ONE, Ratio
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.names import NORMALIZATION_ENABLED
from corewise.vocabulary.reasons import Reason

FAST = CPUFacts("AMD EPYC 9654", hyper_threading=True, turbo=True)
CONFIG = """{
  "enable": true,
  "ratioModel": {
    "AMD EPYC 9654": {"baseRatio": 2.4, "hyperThreadEnabledRatio": 1.7, "turboEnabledRatio": 2.9,
                      "hyperThreadTurboEnabledRatio": 2.0},
    "Xeon E5-2682 v4": {"hyperThreadTurboEnabledRatio": 1.0}
  },
  "nodeConfigs": [{"name": "off", "nodeSelector": {"matchLabels": {"pool": "off"}}, "enable": false}]
}"""


@dataclass(frozen=True)
class Node:
    labels: Mapping[str, str]
    facts: CPUFacts | Finding | None
    annotations: Mapping[str, str] = field(default_factory=dict)


def config(text: str = CONFIG) -> NormalizationConfig:
    value = parse_normalization(text).value
    assert value is not None
    return value


def with_default(ratio: Ratio) -> NormalizationConfig:
    return Configuration(replace(config().cluster, default_ratio=ratio))


def enabled(text: str) -> dict[str, str]:
    return {NORMALIZATION_ENABLED: text}


@pytest.mark.parametrize(
    ("hyper_threading", "turbo", "field", "ratio"),
    [
        (True, True, "hyperThreadTurboEnabledRatio", 200),
        (True, False, "hyperThreadEnabledRatio", 170),
        (False, True, "turboEnabledRatio", 290),
        (False, False, "baseRatio", 240),
    ],
)
def test_models_ratio_follows_actual_ht_and_turbo_settings(
    hyper_threading: bool, turbo: bool, field: str, ratio: int
) -> None:
    verdict = decide(Node({}, CPUFacts("AMD EPYC 9654", hyper_threading, turbo)), config())
    assert verdict.ratio == Ratio(ratio)
    assert verdict.reason is Reason.RATIO_FROM_MODEL
    assert verdict.ratio_field == field
    assert verdict.message == f'{field} of "AMD EPYC 9654" is {verdict.ratio}'
    assert verdict.enabled_by == "strategy says enable: true"
    assert verdict.strategy_source == "cluster strategy (no nodeConfigs entry matches)"


@pytest.mark.parametrize("text", ["1", "t", "T", "TRUE", "true", "True"])
def test_a_true_label_enables_whatever_the_strategy_says(text: str) -> None:
    verdict = decide(Node({"pool": "off", **enabled(text)}, FAST), config())
    assert verdict.ratio == Ratio(200)
    assert verdict.enabled_by == f'label {NORMALIZATION_ENABLED}="{text}"'
    assert verdict.strategy_source == 'nodeConfigs[0] "off" over the cluster strategy'


@pytest.mark.parametrize("text", ["0", "f", "F", "FALSE", "false", "False"])
def test_a_false_label_disables_whatever_the_strategy_says(text: str) -> None:
    verdict = decide(Node(enabled(text), FAST), config())
    assert (verdict.ratio, verdict.reason) == (ONE, Reason.NORMALIZATION_DISABLED)


@pytest.mark.parametrize("text", ["", "yes", "on", "tRUE", " true", "2", "enabled"])
def test_unreadable_label_is_an_error_verdict_not_no(text: str) -> None:
    verdict = decide(Node(enabled(text), FAST), config())
    assert (verdict.ratio, verdict.reason) == (None, Reason.ENABLE_LABEL_INVALID)
    assert f'{NORMALIZATION_ENABLED}="{text}"' in verdict.message


def test_disabled_means_ratio_one_and_needs_no_facts() -> None:
    for labels, source in (({"pool": "off"}, config()), ({}, NO_NORMALIZATION)):
        verdict = decide(Node(labels, None), source)
        assert (verdict.ratio, verdict.reason) == (ONE, Reason.NORMALIZATION_DISABLED)
    assert decide(Node({}, None), NO_NORMALIZATION).enabled_by == "neither label nor strategy enables it"


def test_unknown_model_error_verdict_names_the_nearest_model() -> None:
    verdict = decide(Node({}, CPUFacts("AMD EPYC 9965")), config())
    assert (verdict.ratio, verdict.reason) == (None, Reason.UNKNOWN_CPU_MODEL)
    assert verdict.nearest_model == "AMD EPYC 9654"
    assert verdict.message == (
        'ratioModel has no entry for "AMD EPYC 9965"; nearest is "AMD EPYC 9654", '
        "and there is no defaultRatio"
    )


def test_models_are_compared_exactly() -> None:
    verdict = decide(Node({}, CPUFacts("amd epyc 9654", hyper_threading=True, turbo=True)), config())
    assert verdict.reason is Reason.UNKNOWN_CPU_MODEL
    assert verdict.nearest_model == "AMD EPYC 9654"


def test_missing_field_is_named_in_the_error_verdict() -> None:
    verdict = decide(Node({}, CPUFacts("Xeon E5-2682 v4", turbo=True)), config())
    assert (verdict.ratio, verdict.reason) == (None, Reason.RATIO_FIELD_MISSING)
    assert verdict.ratio_field == "turboEnabledRatio"
    assert "no turboEnabledRatio" in verdict.message


@pytest.mark.parametrize("facts", [CPUFacts("AMD EPYC 9965"), CPUFacts("Xeon E5-2682 v4", turbo=True)])
def test_default_ratio_replaces_a_missing_model_or_field(facts: CPUFacts) -> None:
    verdict = decide(Node({}, facts), with_default(Ratio(130)))
    assert (verdict.ratio, verdict.reason) == (Ratio(130), Reason.RATIO_FROM_DEFAULT)
    assert verdict.ratio_field == "defaultRatio"
    assert verdict.message.endswith("; defaultRatio is 1.30")


def test_default_ratio_does_not_replace_bad_facts() -> None:
    malformed = parse_cpu_basic_info("{")
    assert isinstance(malformed, Finding)
    for facts, reason in ((None, Reason.CPU_FACTS_MISSING), (malformed, Reason.CPU_FACTS_MALFORMED)):
        verdict = decide(Node({}, facts), with_default(Ratio(130)))
        assert (verdict.ratio, verdict.reason) == (None, reason)
        assert verdict.message


@pytest.mark.parametrize("hundredths", [0, 99, 501, 10_000])
def test_ratio_out_of_range_is_refused_never_clamped(hundredths: int) -> None:
    model = {FAST.model: {RatioField.HYPER_THREADING_TURBO: Ratio(hundredths)}}
    from_model = Configuration(NormalizationStrategy(enable=True, ratio_model=model))
    for facts, source in ((FAST, from_model), (CPUFacts("other"), with_default(Ratio(hundredths)))):
        verdict = decide(Node({}, facts), source)
        assert (verdict.ratio, verdict.reason) == (None, Reason.RATIO_OUT_OF_RANGE)
        assert "outside 1.00..5.00" in verdict.message


@pytest.mark.parametrize("hundredths", [100, 500])
def test_both_ends_of_the_range_are_allowed(hundredths: int) -> None:
    assert decide(Node({}, CPUFacts("other")), with_default(Ratio(hundredths))).ratio == Ratio(hundredths)


def test_nothing_near_is_no_model() -> None:
    assert nearest_model("Neoverse-N1", ("AMD EPYC 9654",)) is None
    assert nearest_model("x", ()) is None


def check(verdict: NormalizationVerdict) -> None:
    assert verdict.message
    assert verdict.enabled_by
    assert verdict.strategy_source
    if verdict.ratio is None:
        assert verdict.reason.warning
    else:
        assert not verdict.reason.warning
        assert ONE <= verdict.ratio <= Ratio(500)


texts = st.sampled_from(["true", "false", "maybe"])
ratios = st.integers(0, 700).map(Ratio)
models = st.sampled_from(["a", "b", "AMD EPYC 9654"])
strategies = st.builds(
    NormalizationStrategy,
    st.none() | st.booleans(),
    st.dictionaries(models, st.dictionaries(st.sampled_from(RatioField), ratios)),
    st.none() | ratios,
)
facts = st.none() | st.just(Finding(Reason.CPU_FACTS_MALFORMED, "bad")) | st.builds(CPUFacts, models)


@given(st.dictionaries(st.just(NORMALIZATION_ENABLED), texts), facts, strategies.map(Configuration))
def test_every_verdict_has_valid_ratio_or_a_warning(
    labels: dict[str, str], cpu: CPUFacts | Finding | None, source: NormalizationConfig
) -> None:
    check(decide(Node(labels, cpu), source))


WORKLOADS = """{
  "enable": true, "ratioModel": {"A": {"baseRatio": 2.0, "turboEnabledRatio": 2.5}}, "defaultRatio": 1.1,
  "workloadRatios": [
    {"name": "old", "podSelector": {}, "ratioModel": {"B": {"baseRatio": 1.3}}},
    {"name": "vector", "podSelector": {}, "ratioModel": {"A": {"baseRatio": 1.2}, "B": {"baseRatio": 1.4}}}
  ],
  "nodeConfigs": [{"nodeSelector": {"matchLabels": {"pool": "off"}}, "enable": false}]
}"""


@pytest.mark.parametrize(
    ("facts", "labels", "expected"),
    [
        (CPUFacts("A"), {}, [("vector", 120)]),
        (CPUFacts("B"), {}, [("old", 130), ("vector", 140)]),
        (CPUFacts("A", turbo=True), {}, []),
        (CPUFacts("C"), {}, []),
        (CPUFacts("A"), {"pool": "off"}, []),
        (None, {}, []),
    ],
)
def test_workloads_have_ratios_for_the_nodes_cpu(
    facts: CPUFacts | None, labels: dict[str, str], expected: list[tuple[str, int]]
) -> None:
    verdict = decide(Node(labels, facts), config(WORKLOADS))
    assert [(each.name, each.ratio.hundredths) for each in verdict.workloads] == expected
