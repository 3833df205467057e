"""Which CPU models in use get a ratio, and which configured name is another spelling of one."""

from __future__ import annotations

import pytest

from corewise.config.configuration import NormalizationConfig, RatioField, parse_normalization
from corewise.config.facts import CPUFacts
from corewise.normalization.decision import nearest_model, same_product
from corewise.normalization.models import CheckedNode, model_coverage
from corewise.quantities import Ratio
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.names import NORMALIZATION_ENABLED
from corewise.vocabulary.reasons import Reason

FAST = "Intel(R) Xeon(R) Platinum 8369B CPU @ 2.70GHz"
SLOW = "Intel(R) Xeon(R) CPU E5-2682 v4 @ 2.50GHz"


def config(text: str) -> NormalizationConfig:
    value = parse_normalization(text).value
    assert value is not None
    return value


CONFIG = f"""{{"enable": true, "ratioModel": {{"{FAST}": {{"hyperThreadTurboEnabledRatio": 1.5}}}},
  "nodeConfigs": [{{"nodeSelector": {{"matchLabels": {{"pool": "off"}}}}, "enable": false}}]}}"""


def node(name: str, model: str | None = FAST, *, turbo: bool = True, **labels: str) -> CheckedNode:
    return CheckedNode(name, labels, None if model is None else CPUFacts(model, True, turbo))


def test_nodes_sharing_model_and_setting_share_one_row() -> None:
    nodes = [node("b"), node("a"), node("c", turbo=False), node("d", SLOW)]
    coverage = model_coverage(nodes, config(CONFIG))
    assert [(each.facts.model, each.field, each.nodes, each.ratio) for each in coverage.models] == [
        (SLOW, RatioField.HYPER_THREADING_TURBO, ("d",), None),
        (FAST, RatioField.HYPER_THREADING, ("c",), None),
        (FAST, RatioField.HYPER_THREADING_TURBO, ("a", "b"), Ratio(150)),
    ]
    assert [each.is_named for each in coverage.models] == [False, True, True]
    assert coverage.in_use == {FAST, SLOW}


def test_model_matches_only_if_every_node_is_covered() -> None:
    assert model_coverage([node("a")], config(CONFIG)).matched == {FAST}
    assert model_coverage([node("a"), node("b", turbo=False)], config(CONFIG)).matched == frozenset()


def test_default_ratio_applies_but_is_not_a_match() -> None:
    with_default = config(CONFIG.replace('"enable": true', '"enable": true, "defaultRatio": 1.1', 1))
    coverage = model_coverage([node("a", SLOW), node("b", turbo=False)], with_default)
    assert [(each.ratio, each.is_matched, each.is_named) for each in coverage.models] == [
        (Ratio(110), False, False),
        (Ratio(110), False, True),
    ]


def test_nodes_without_usable_facts_are_named() -> None:
    torn = CheckedNode("torn", {}, Finding(Reason.CPU_FACTS_MALFORMED, "torn"))
    coverage = model_coverage([node("mute", None), torn, node("a")], config(CONFIG))
    assert coverage.without_facts == ("mute", "torn")
    assert coverage.in_use == {FAST}


def test_nodes_disabled_on_purpose_need_no_ratio() -> None:
    labeled = CheckedNode("l", {NORMALIZATION_ENABLED: "false"}, CPUFacts(SLOW))
    coverage = model_coverage([node("p", SLOW, pool="off"), labeled, node("a")], config(CONFIG))
    assert coverage.off == ("l", "p")
    assert coverage.matched == coverage.in_use == {FAST}


def test_enabling_label_overrides_the_disabling_entry() -> None:
    on = CheckedNode("on", {NORMALIZATION_ENABLED: "true", "pool": "off"}, CPUFacts(SLOW))
    assert model_coverage([on], config(CONFIG)).in_use == {SLOW}


def test_an_entry_with_own_workload_ratios_counts_alone() -> None:
    workload = '"workloadRatios": [{"name": "%s", "podSelector": {}, "ratioModel": {"%s": {"%s": 2}}}]'
    whole = workload % ("web", FAST, "hyperThreadTurboEnabledRatio")
    part = workload % ("part", FAST, "bothDisabledRatio")
    other = workload % ("other", "Xeon Platinum 8369B", "hyperThreadTurboEnabledRatio")
    entries = "".join(
        f', {{"nodeSelector": {{"matchLabels": {{"pool": "{pool}"}}}}, {text}}}'
        for pool, text in (("part", part), ("other", other), ("also", whole))
    )
    text = CONFIG.replace('"enable": true', f'"enable": true, {whole}', 1).replace(
        "false}]", f"false}}{entries}]"
    )
    nodes = [node("a"), node("b", pool="part"), node("c", pool="other"), node("d", pool="also")]
    coverage = model_coverage(nodes, config(text))
    assert [(each.nodes, each.without_field, each.respelled) for each in coverage.models] == [
        (("a", "d"), (), ()),
        (("b",), ("part",), ()),
        (("c",), (), (("other", "Xeon Platinum 8369B"),)),
    ]


@pytest.mark.parametrize("enable", ['"enable": false', '"enable": null'])
def test_models_are_checked_before_normalization_is_on(enable: str) -> None:
    not_yet = config(CONFIG.replace('"enable": true', enable, 1))
    labeled = CheckedNode("off", {NORMALIZATION_ENABLED: "false"}, CPUFacts(SLOW))
    coverage = model_coverage([node("a"), node("b", SLOW), labeled], not_yet)
    assert coverage.matched == {FAST}
    assert coverage.in_use == {FAST, SLOW}
    assert coverage.off == ("off",)


def test_an_unreadable_label_says_nothing_about_the_model() -> None:
    odd = CheckedNode("odd", {NORMALIZATION_ENABLED: "yes"}, CPUFacts(FAST, True, True))
    coverage = model_coverage([odd], config(CONFIG))
    assert coverage.matched == {FAST}
    assert coverage.off == ()


@pytest.mark.parametrize(
    ("model", "configured"),
    [
        (FAST, "Intel(R) Xeon(R) Platinum 8369B"),
        (FAST, "xeon platinum 8369b"),
        (FAST, "Intel Xeon Platinum 8369B @ 2.7 GHz"),
        (SLOW, "Intel(R) Xeon(R) E5-2682 v4"),
        ("AMD EPYC 7763 64-Core Processor", "AMD EPYC 7763"),
        ("INTEL(R) XEON(R) PLATINUM 8592+", "Intel(R) Xeon(R) Platinum 8592+"),
        ("Neoverse-N1", "neoverse-n1"),
    ],
)
def test_another_spelling_of_a_model_is_found(model: str, configured: str) -> None:
    others = ("Intel(R) Xeon(R) Platinum 8369C CPU @ 2.70GHz", "AMD EPYC 7713 64-Core Processor")
    assert same_product(model, (*others, configured)) == configured


@pytest.mark.parametrize(
    ("model", "configured"),
    [
        ("Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz", "Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz"),
        ("Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz", "Intel(R) Xeon(R) Gold 6248R CPU @ 3.00GHz"),
        ("AMD EPYC 7713 64-Core Processor", "AMD EPYC 7763 64-Core Processor"),
        ("Intel(R) Xeon(R) CPU E5-2682 v4 @ 2.50GHz", "Intel(R) Xeon(R) CPU E5-2682 v3 @ 2.50GHz"),
        ("unknown", "Some CPU"),
        (FAST, FAST),
    ],
)
def test_another_product_is_not_taken_for_it(model: str, configured: str) -> None:
    assert same_product(model, (configured,)) is None


def test_nearest_model_prefers_same_product_over_closer_spelling() -> None:
    known = ("Intel(R) Xeon(R) Platinum 8369C CPU @ 2.70GHz", "Xeon 8369B")
    assert nearest_model(FAST, known) == "Xeon 8369B"
