"""Configuration is read whole or refused with every problem at its place; nodes get merged strategies."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.config.configuration import (
    NO_AMPLIFICATION,
    NO_NORMALIZATION,
    AmplifiableResource,
    NormalizationConfig,
    RatioField,
    node_config_conflicts,
    parse_amplification,
    parse_normalization,
)
from corewise.config.decoding import Parsed, Severity
from corewise.quantities import Ratio

NORMALIZATION = """{
  "enable": true,
  "ratioModel": {
    "Xeon 8269CY": {"baseRatio": 1.5, "hyperThreadEnabledRatio": 1.0, "turboEnabledRatio": 1.80,
                    "hyperThreadTurboEnabledRatio": 1.200},
    "EPYC 9654": {"baseRatio": 2}
  },
  "defaultRatio": 1.1,
  "nodeConfigs": [
    {"name": "slow", "nodeSelector": {"matchLabels": {"pool": "slow"}}, "enable": false},
    {"nodeSelector": {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a", "b"]}]},
     "ratioModel": {"EPYC 9654": {"turboEnabledRatio": 2.5}}, "defaultRatio": 1.3},
    {"name": "unselective"}
  ]
}"""


def normalization(text: str = NORMALIZATION) -> NormalizationConfig:
    config = parse_normalization(text).value
    assert config is not None
    return config


def told(parsed: Parsed[Any]) -> list[str]:
    return [f"{each.severity} {each}" for each in parsed.problems]


def test_the_cluster_strategy_is_read_with_exact_ratios() -> None:
    strategy, source = normalization().strategy_for({})
    assert source == "cluster strategy (no nodeConfigs entry matches)"
    assert strategy.enable is True
    assert strategy.default_ratio == Ratio(110)
    assert strategy.ratio_model["Xeon 8269CY"] == {
        RatioField.BASE: Ratio(150),
        RatioField.HYPER_THREADING: Ratio(100),
        RatioField.TURBO: Ratio(180),
        RatioField.HYPER_THREADING_TURBO: Ratio(120),
    }


def test_absent_keys_of_an_override_inherit() -> None:
    strategy, source = normalization().strategy_for({"pool": "slow"})
    assert source == 'nodeConfigs[0] "slow" over the cluster strategy'
    assert strategy.enable is False
    assert strategy.default_ratio == Ratio(110)
    assert set(strategy.ratio_model) == {"Xeon 8269CY", "EPYC 9654"}


def test_ratio_model_override_replaces_each_model_whole() -> None:
    strategy, source = normalization().strategy_for({"pool": "b"})
    assert source == "nodeConfigs[1] over the cluster strategy"
    assert strategy.ratio_model["EPYC 9654"] == {RatioField.TURBO: Ratio(250)}
    assert RatioField.BASE in strategy.ratio_model["Xeon 8269CY"]
    assert strategy.default_ratio == Ratio(130)


def test_first_matching_entry_wins_missing_selector_matches_nothing() -> None:
    text = """{"nodeConfigs": [{"enable": false}, {"nodeSelector": {}, "defaultRatio": 1.2},
                               {"nodeSelector": {}, "defaultRatio": 1.4}]}"""
    parsed = parse_normalization(text)
    assert parsed.value is not None
    strategy, _ = parsed.value.strategy_for({"any": "label"})
    assert strategy.enable is None
    assert strategy.default_ratio == Ratio(120)
    assert all(problem.severity is Severity.WARNING for problem in parsed.problems)
    nowhere, shadowed = (problem.message for problem in parsed.problems)
    assert "no nodeSelector, so the entry selects no node" in nowhere
    assert "never used: nodeConfigs[1] comes first" in shadowed


def test_amplification_merges_by_resource_and_counts_when_enabled() -> None:
    config = parse_amplification(
        """{"enable": true, "resourceAmplificationRatio": {"cpu": 1.5, "memory": 1.2},
            "nodeConfigs": [
              {"nodeSelector": {"matchLabels": {"a": "1"}}, "resourceAmplificationRatio": {"cpu": 2.00},
               "amplifyCapacity": false},
              {"nodeSelector": {"matchLabels": {"a": "2"}}, "enable": false}]}"""
    ).value
    assert config is not None
    cluster, _ = config.strategy_for({})
    assert cluster.originals == {AmplifiableResource.CPU: Ratio(150), AmplifiableResource.MEMORY: Ratio(120)}
    assert cluster.amplifies_capacity
    first, _ = config.strategy_for({"a": "1"})
    assert first.originals == {AmplifiableResource.CPU: Ratio(200), AmplifiableResource.MEMORY: Ratio(120)}
    assert not first.amplifies_capacity
    second, _ = config.strategy_for({"a": "2"})
    assert second.originals == {}


def test_no_configuration_enables_nothing() -> None:
    assert parse_normalization("{}").value == NO_NORMALIZATION
    assert parse_amplification('{"enable": null, "nodeConfigs": null}').value == NO_AMPLIFICATION
    assert NO_AMPLIFICATION.strategy_for({})[0].originals == {}
    assert NO_NORMALIZATION.strategy_for({}) == (NO_NORMALIZATION.cluster, "cluster strategy")


RATIO_MESSAGES = {
    "0.99": "0.99 is outside 1.00..5.00: the slowest CPU model is the baseline",
    "5.01": "5.01 is outside 1.00..5.00",
    "-1": "-1 is outside 1.00..5.00",
    "1e400": "1E+400 is outside 1.00..5.00",
    "1e-400": "1E-400 is outside 1.00..5.00",
    "1e-999999999": "the number 1e-999999999 is out of range",
    "NaN": "NaN is not a JSON number: write a decimal number such as 1.20",
    "1,2": "1,2 is not a JSON number: write a point, not a comma, as in 1.2",
    '"1,2"': '"1,2" is text, and has a comma: write the number 1.20, in 1.00..5.00',
    '"1.2"': '"1.2" is text: write the number without quotes, 1.20, in 1.00..5.00',
    '"NaN"': '"NaN" is not a number: write one with at most two decimal places in 1.00..5.00',
    "true": "must be a number, not true: write one in 1.00..5.00",
    "[1.2]": "must be a number, not a list",
}


@pytest.mark.parametrize(("ratio", "message"), RATIO_MESSAGES.items())
def test_bad_ratio_is_refused_with_range_and_place(ratio: str, message: str) -> None:
    parsed = parse_normalization('{"ratioModel": {"Xeon": {\n  "baseRatio": ' + ratio + "}}}")
    assert parsed.value is None
    (problem,) = parsed.problems
    assert message in problem.message
    assert (problem.line, problem.column) == (2, 16)
    assert problem.path == 'ratioModel["Xeon"].baseRatio'
    assert str(problem).startswith('line 2, column 16: ratioModel["Xeon"].baseRatio: ')


@pytest.mark.parametrize(
    ("ratio", "counts"), [("1.239", "1.23"), ("1." + "0" * 40 + "1", "1.00"), ("5.009", "5.00")]
)
def test_more_than_two_decimals_are_cut_with_warning(ratio: str, counts: str) -> None:
    parsed = parse_normalization('{"defaultRatio": ' + ratio + "}")
    assert parsed.value is not None
    assert parsed.value.cluster.default_ratio == Ratio.parse(counts)
    (problem,) = parsed.warnings
    assert problem.message.endswith(f"has more than two decimal places: it counts as {counts}")


BAD_ENTRY = """{"enable": true, "resourceAmplificationRatio": {"cpu": "fast", "memory": 1.2, "gpu": 2},
 "nodeConfigs": [
  {"name": "lost", "nodeSelector": {"matchLabels": {"a": 1}}, "resourceAmplificationRatio": {"cpu": 3}},
  {"name": "good", "nodeSelector": {"matchLabels": {"b": "1"}}, "resourceAmplificationRatio": {"cpu": 2}}]}"""


def test_faultless_entries_are_read_beside_faulty_ones() -> None:
    parsed = parse_amplification(BAD_ENTRY)
    assert parsed.value is None
    assert len(parsed.errors) == 3
    config = parsed.rest
    assert config is not None
    assert config.cluster.originals == {AmplifiableResource.MEMORY: Ratio(120)}
    assert config.cluster.unreadable == {AmplifiableResource.CPU}
    good, _ = config.strategy_for({"b": "1"})
    assert good.originals == {AmplifiableResource.CPU: Ratio(200), AmplifiableResource.MEMORY: Ratio(120)}
    assert (good.unreadable, config.is_undecided({"b": "1"})) == (frozenset(), False)
    assert config.is_undecided({"a": "1"})


def test_bad_ratio_spoils_only_its_own_model() -> None:
    text = '{"ratioModel": {"A": {"baseRatio": 9}, "B": {"baseRatio": 1.5}}}'
    config = parse_normalization(text).rest
    assert config is not None
    assert config.cluster.unreadable == {"A"}
    assert config.cluster.ratio_model["B"]
    enable = parse_normalization('{"enable": "yes"}').rest
    assert enable is not None
    assert enable.cluster.is_unreadable


@pytest.mark.parametrize("text", ["", "{", '{"enable": NaN}', '{"enable": true, "enable": false}'])
def test_unsound_json_is_not_read_at_all(text: str) -> None:
    assert parse_amplification(text).rest is None


@pytest.mark.parametrize("ratio", ["1", "1.0", "1.00", "1.2", "1.20", "1.2000", "5", "5.00", "12e-1"])
def test_good_ratio_may_have_any_number_of_zeros(ratio: str) -> None:
    assert parse_normalization('{"defaultRatio": ' + ratio + "}").problems == ()


def test_the_largest_amplification_ratio_can_be_configured() -> None:
    text = '{"resourceAmplificationRatio": {"cpu": 10.01}}'
    assert "10.01 is outside 1.00..10.00" in told(parse_amplification(text))[0]
    assert parse_amplification(text, Ratio(2000)).problems == ()


def test_the_limit_holds_for_what_counts() -> None:
    """As in the annotation, and in the policy (packages/corewise/tests/amplification)."""
    parsed = parse_amplification('{"enable": true, "resourceAmplificationRatio": {"cpu": 10.009}}')
    assert parsed.value is not None
    assert parsed.value.cluster.originals == {"cpu": Ratio(1000)}
    assert "it counts as 10.00" in parsed.warnings[0].message


PROBLEMS = {
    "[]": ["error line 1, column 1: must be an object {...}, not a list"],
    '{"enabel": true}': ['warning line 1, column 2: enabel: unknown key: did you mean "enable"?'],
    '{"Enable": true}': ['warning line 1, column 2: ["Enable"]: unknown key: did you mean "enable"?'],
    '{"zzz": [1, {"a": null}]}': ["warning line 1, column 2: zzz: unknown key"],
    '{"enable": "true"}': [
        'error line 1, column 12: enable: must be true or false, without quotes, not "true"'
    ],
    '{"ratioModel": {"m": {"baseratio": 1}}}': [
        'warning line 1, column 23: ratioModel.m.baseratio: unknown key: did you mean "baseRatio"?'
    ],
    '{"ratioModel": {"M": 1.5}}': [
        'error line 1, column 22: ratioModel["M"]: must be an object {...}, not 1.5'
    ],
    '{"ratioModel": {"M": {}, "M": {}}}': [
        'error line 1, column 26: ratioModel["M"]: the key is given twice, first on the same line'
    ],
    '{"nodeConfigs": {}}': ["error line 1, column 17: nodeConfigs: must be a list [...], not an object"],
    '{"nodeConfigs": [{"nodeSelector": {}, "name": 1}]}': [
        "error line 1, column 47: nodeConfigs[0].name: must be a string in double quotes, not 1"
    ],
}

SELECTOR_PROBLEMS = {
    '{"matchLabel": {}}': [' .matchLabel: unknown key: did you mean "matchLabels"?'],
    '{"matchLabels": {"a": 1}}': [".matchLabels.a: must be a string in double quotes, not 1"],
    '{"matchLabels": {"a": null}}': [".matchLabels.a: must be a string in double quotes, not null"],
    '{"matchLabels": {"a b": "x"}}': ['.matchLabels["a b"]: not a label key: a label name has 1 to 63'],
    '{"matchLabels": {"a": "x y"}}': [".matchLabels.a: not a label value"],
    '{"matchExpressions": [{}]}': [
        ".matchExpressions[0].key: is missing",
        ".matchExpressions[0].operator: is missing",
    ],
    '{"matchExpressions": [{"key": "a", "operator": "in", "values": ["x"]}]}': [
        '.matchExpressions[0].operator: "in" is not an operator: did you mean "In"?'
    ],
    '{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}': [
        '"Gt" is not an operator: write In, NotIn, Exists, DoesNotExist'
    ],
    '{"matchExpressions": [{"key": "a", "operator": "NotIn"}]}': ["operator NotIn needs at least one value"],
    '{"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}': [
        ".matchExpressions[0].values: operator Exists takes no values"
    ],
    '{"matchExpressions": [{"key": "", "operator": "Exists"}]}': [".key: not a label key"],
    '"pool=fast"': ["must be an object {...}"],
}


@pytest.mark.parametrize(("text", "problems"), PROBLEMS.items())
def test_every_problem_has_line_column_and_path(text: str, problems: list[str]) -> None:
    assert told(parse_normalization(text)) == problems


@pytest.mark.parametrize(("selector", "parts"), SELECTOR_PROBLEMS.items())
def test_selector_the_api_would_refuse_is_refused(selector: str, parts: list[str]) -> None:
    parsed = parse_normalization('{"nodeConfigs": [{"nodeSelector": ' + selector + "}]}")
    assert len(parsed.problems) == len(parts)
    for problem, part in zip(parsed.problems, parts, strict=True):
        assert problem.path.startswith("nodeConfigs[0].nodeSelector")
        assert part.strip() in f"{problem.path}: {problem.message}"


@pytest.mark.parametrize("resource", ["CPU", "nvidia.com/gpu", "ephemeral-storage"])
def test_only_cpu_and_memory_can_be_amplified(resource: str) -> None:
    parsed = parse_amplification(json.dumps({"resourceAmplificationRatio": {resource: 2, "memory": 1.5}}))
    (problem,) = parsed.errors
    assert "only cpu and memory can be amplified" in problem.message
    assert ('did you mean "cpu"' in problem.message) is (resource == "CPU")


def test_all_problems_are_reported_in_text_order() -> None:
    parsed = parse_normalization(
        """{"enable": 1, "x": NaN,
            "ratioModel": {"M": {"baseRatio": 0.5, "turboEnabledRatio": 1,5}},
            "nodeConfigs": [{"nodeSelector": {"matchLabels": {"a": 1}}}],
            "defaultRatio": 6"""
    )
    assert parsed.value is None
    assert [problem.path for problem in parsed.errors] == [
        "enable",
        "x",
        'ratioModel["M"].baseRatio',
        'ratioModel["M"].turboEnabledRatio',
        "nodeConfigs[0].nodeSelector.matchLabels.a",
        "defaultRatio",
        "",
    ]
    assert [problem.path for problem in parsed.warnings] == ["x"]


@pytest.mark.parametrize(
    ("first", "second", "never_used"),
    [
        ("{}", "{}", True),
        ("{}", '{"matchLabels": {"a": "1"}}', True),
        ('{"matchLabels": {"a": "1"}}', '{"matchLabels": {"b": "2", "a": "1"}}', True),
        ('{"matchLabels": {"a": "1"}}', "{}", False),
        ('{"matchLabels": {"a": "1"}}', '{"matchLabels": {"a": "2"}}', False),
    ],
)
def test_entry_shadowed_by_an_earlier_one_is_reported(first: str, second: str, never_used: bool) -> None:
    parsed = parse_normalization(
        '{"nodeConfigs": [{"name": "x", "nodeSelector": ' + first + '}, {"nodeSelector": ' + second + "}]}"
    )
    assert [problem.path for problem in parsed.warnings] == (["nodeConfigs[1]"] if never_used else [])
    assert all('nodeConfigs[0] "x" comes first' in problem.message for problem in parsed.warnings)


def test_warnings_alone_do_not_refuse() -> None:
    parsed = parse_normalization('{"enable": true, "colour": "red"}')
    assert parsed.value is not None
    assert parsed.errors == ()
    assert len(parsed.warnings) == 1


def test_entries_selecting_one_node_conflict_and_name_it() -> None:
    config = normalization(
        """{"nodeConfigs": [
              {"name": "all", "nodeSelector": {}},
              {"nodeSelector": {"matchLabels": {"a": "1"}}},
              {"nodeSelector": {"matchLabels": {"a": "2"}}}]}"""
    )
    nodes = [("n2", {"a": "1"}), ("n1", {"a": "1"}), ("n3", {})]
    (conflict,) = node_config_conflicts(config, nodes)
    assert (conflict.line, conflict.column, conflict.path) == (3, 15, "nodeConfigs[1]")
    assert conflict.message.startswith('selects node n1 and 1 more, as nodeConfigs[0] "all" does')
    assert node_config_conflicts(config, [("n3", {})]) == ()
    assert node_config_conflicts(NO_NORMALIZATION, nodes) == ()


KEYS = [
    *("enable", "ratioModel", "defaultRatio", "nodeConfigs", "name", "nodeSelector", "matchLabels", "key"),
    *("matchExpressions", "operator", "values", "baseRatio", "cpu", "memory", "resourceAmplificationRatio"),
    *("amplifyCapacity", "In", "x"),
]
trees = st.recursive(
    st.none() | st.booleans() | st.floats() | st.sampled_from([1.0, 1.25, 5.0, *KEYS]),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.sampled_from(KEYS), each, max_size=4),
    max_leaves=25,
)


@given(st.text() | trees.map(json.dumps) | trees.map(lambda tree: json.dumps(tree, indent=1)[:-1]))
def test_any_text_gives_configuration_or_errors_never_both(text: str) -> None:
    lines = text.split("\n")
    for parsed in (parse_normalization(text), parse_amplification(text)):
        assert (parsed.value is None) is bool(parsed.errors)
        for problem in parsed.problems:
            assert 1 <= problem.line <= len(lines)
            assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1
        if parsed.value is not None:
            parsed.value.strategy_for({"x": "x"})
