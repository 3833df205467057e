"""Settings of oversubscription and suppression: defaults, nodes' own values, what is refused, and where."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from corewise.config.colocation import (
    NO_OVERSUBSCRIPTION,
    NO_RESOURCE_QOS,
    NO_SUPPRESSION,
    OVERSUBSCRIPTION_MEMBERS,
    RESOURCE_QOS_MEMBERS,
    SUPPRESSION_MEMBERS,
    Isolation,
    OversubscriptionSettings,
    ResctrlSettings,
    SuppressionMode,
    SuppressionSettings,
    is_suppression_yaml,
    not_honored,
    parse_oversubscription,
    parse_resource_qos,
    parse_suppression,
)
from corewise.config.decoding import Parsed
from corewise.config.json_text import beyond_limits
from corewise.config.node_configs import Configuration
from corewise.quantities import Seconds, Share
from corewise.vocabulary.names import OVERSUBSCRIPTION_KEY, RESOURCE_QOS_KEY, SUPPRESSION_KEY, TABLE


def told(parsed: Parsed[Any]) -> list[str]:
    return [f"{each.severity} {each}" for each in parsed.problems]


def suppression(text: str, labels: dict[str, str] | None = None) -> SuppressionSettings:
    config = parse_suppression(text).value
    assert config is not None
    return config.strategy_for(labels or {})[0]


def test_missing_keys_give_default_offer_and_no_suppression() -> None:
    offered = NO_OVERSUBSCRIPTION.strategy_for({})[0]
    assert offered == OversubscriptionSettings(Share.parse("0.60"), Seconds(10))
    assert not NO_SUPPRESSION.strategy_for({})[0].enabled


def test_empty_key_suppresses_with_the_design_defaults() -> None:
    assert suppression("{}") == SuppressionSettings(
        enabled=True,
        isolation=Isolation.IDLE,
        mode=SuppressionMode.BESTEFFORT_QUOTA,
        adjust_step=Share.parse("0.1"),
        restore_on_stop=False,
        high=Share.parse("0.8"),
        low=Share.parse("0.6"),
        recover=Share.parse("0.4"),
        quota_step=Share.parse("0.1"),
        pods_a_cycle=5,
    )
    assert parse_oversubscription("{}").value == NO_OVERSUBSCRIPTION


def test_every_value_can_be_written() -> None:
    text = """{"enabled": false, "isolation": "weights", "mode": "per-pod-quota", "adjustStep": 0.0001,
               "onAgentStop": "restore", "highThreshold": 1, "lowThreshold": 0.725,
               "recoverThreshold": 0.1, "adjustQuotaStep": 1.00, "adjustPodNum": 12}"""
    assert suppression(text) == SuppressionSettings(
        enabled=False,
        isolation=Isolation.WEIGHTS,
        mode=SuppressionMode.PER_POD_QUOTA,
        adjust_step=Share(1),
        restore_on_stop=True,
        high=Share(10_000),
        low=Share(7250),
        recover=Share(1000),
        quota_step=Share(10_000),
        pods_a_cycle=12,
    )
    config = parse_oversubscription('{"ratio": 0, "intervalSeconds": 60}').value
    assert config is not None
    assert config.cluster == OversubscriptionSettings(Share(0), Seconds(60))


def test_node_inherits_what_its_entry_omits() -> None:
    text = """{"adjustStep": 0.2, "onAgentStop": "restore", "nodeConfigs": [
        {"name": "a", "nodeSelector": {"matchLabels": {"pool": "a"}}, "enabled": false,
         "onAgentStop": "hold"},
        {"name": "b", "nodeSelector": {"matchLabels": {"pool": "b"}}, "lowThreshold": 0.7}]}"""
    a, b = suppression(text, {"pool": "a"}), suppression(text, {"pool": "b"})
    assert (a.enabled, a.restore_on_stop, a.adjust_step) == (False, False, Share(2000))
    assert (b.enabled, b.restore_on_stop, b.adjust_step, b.low) == (True, True, Share(2000), Share(7000))
    config = parse_oversubscription(
        '{"intervalSeconds": 5, "nodeConfigs": [{"nodeSelector": {}, "ratio": 0.8}]}'
    ).value
    assert config is not None
    strategy, source = config.strategy_for({})
    assert strategy == OversubscriptionSettings(Share(8000), Seconds(5))
    assert source == "nodeConfigs[0] over the cluster strategy"


BLOCKS = {
    "adjustStep: 0.2": (SuppressionMode.BESTEFFORT_QUOTA, Share(2000), Share(1000)),
    (
        "enabled: true, highThreshold: 0.8, lowThreshold: 0.6, recoverThreshold: 0.4, "
        "adjustQuotaStep: 0.3, adjustPodNum: 5"
    ): (SuppressionMode.PER_POD_QUOTA, Share(1000), Share(3000)),
}


@pytest.mark.parametrize("values", BLOCKS)
@pytest.mark.parametrize("form", ["yaml", "json"])
def test_cpu_suppression_block_is_read_with_a_warning(values: str, form: str) -> None:
    text = f"cpuSuppression: {{{values}}}"
    if form == "json":
        text = json.dumps(yaml.safe_load(text))
    parsed = parse_suppression(text)
    mode, step, quota_step = BLOCKS[values]
    found = suppression(text)
    assert (found.enabled, found.mode, found.adjust_step, found.quota_step) == (True, mode, step, quota_step)
    [warning] = parsed.problems
    assert warning.message == f"read as cpuSuppression without mode: mode is {mode}"


@pytest.mark.parametrize(
    "before", ["# copied\n", "---\n", "\n  # copied\n\n---\n# twice\n", "--- # copied\n"]
)
@pytest.mark.parametrize(
    "block", ["cpuSuppression:\n  adjustStep: 0.2\n", "cpuThrottlingConfig: {enable: true}\n"]
)
def test_comments_before_a_block_change_nothing(before: str, block: str) -> None:
    assert is_suppression_yaml(before + block)
    assert suppression(before + block) == suppression(block)


def test_volcano_block_leaves_isolation_to_be_chosen() -> None:
    block = {"cpuThrottlingConfig": {"enable": True}}
    found = suppression(json.dumps({**block, "isolation": "weights", "onAgentStop": "restore"}))
    assert (found.enabled, found.isolation, found.restore_on_stop) == (True, Isolation.WEIGHTS, True)
    found = suppression(json.dumps(block))
    assert (found.enabled, found.isolation, found.restore_on_stop) == (True, Isolation.IDLE, False)


@pytest.mark.parametrize(
    ("key", "members"),
    [
        (OVERSUBSCRIPTION_KEY, (*OVERSUBSCRIPTION_MEMBERS, "nodeConfigs")),
        (SUPPRESSION_KEY, (*SUPPRESSION_MEMBERS, "nodeConfigs")),
        (RESOURCE_QOS_KEY, RESOURCE_QOS_MEMBERS),
    ],
)
def test_reference_lists_every_member(key: str, members: tuple[str, ...]) -> None:
    (row,) = (each for each in TABLE if each.name == key)
    assert set(re.findall("`(.+?)`", row.value)) == set(members)


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_volcano_block_is_read_and_ignored_keys_named(form: str) -> None:
    text = (
        "cpuThrottlingConfig: {enable: true, cpuThrottlingThreshold: 80, cpuJitterLimitPercent: 1, "
        "cpuRecoverLimitPercent: 10}"
    )
    if form == "json":
        text = json.dumps(yaml.safe_load(text))
    found = suppression(text)
    assert (found.enabled, found.mode) == (True, SuppressionMode.BESTEFFORT_QUOTA)
    first, *others = parse_suppression(text).warnings
    assert first.message == "read as Volcano's: mode is besteffort-quota"
    assert [each.path for each in others] == [
        "cpuThrottlingConfig.cpuThrottlingThreshold",
        "cpuThrottlingConfig.cpuJitterLimitPercent",
        "cpuThrottlingConfig.cpuRecoverLimitPercent",
    ]
    assert all(each.message.startswith("not honored: ") for each in others)
    assert not suppression("cpuThrottlingConfig: {}").enabled
    [error] = parse_suppression('{"cpuThrottlingConfig": {"enable": true}, "adjustStep": 0.2}').errors
    assert error.message == "write cpuThrottlingConfig or adjustStep: together they contradict each other"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('{"enable": true, "cpuReclaimThresholdPercent": 60}', " (here: enable, cpuReclaimThresholdPercent)"),
        (
            '{"clusterStrategy": {"enable": true}, "nodeStrategies": [{"name": "a", "nodeSelector": {}}]}',
            " (here: clusterStrategy.enable, nodeStrategies[0].name, nodeStrategies[0].nodeSelector)",
        ),
        ("{}", ""),
        ("{", ""),
        ("", ""),
    ],
)
def test_foreign_keys_are_named_with_our_equivalent(text: str, named: str) -> None:
    what = "oversubscription-config says what is offered to offline pods"
    assert not_honored("colocation-config", text) == f"colocation-config is not honored{named}: {what}"


def test_non_rising_thresholds_are_refused_at_their_place() -> None:
    [error] = parse_suppression("cpuSuppression:\n  highThreshold: 0.5\n").errors
    assert (error.line, error.path) == (2, "cpuSuppression.highThreshold")
    assert "0.50 must be above lowThreshold" in error.message


def test_node_block_may_set_another_mode() -> None:
    text = """{"cpuSuppression": {"highThreshold": 0.9}, "nodeConfigs": [
        {"nodeSelector": {}, "cpuSuppression": {"adjustStep": 0.2}}]}"""
    found = suppression(text)
    assert (found.mode, found.high) == (SuppressionMode.BESTEFFORT_QUOTA, Share(9000))


STEP = "0.0001..1.00: without a step nothing is ever adjusted"
SUPPRESSION_PROBLEMS = {
    '{"cpuSuppression": {"adjustStep": 0.1, "highThreshold": 0.8}}': [
        (
            "error line 1, column 57: cpuSuppression.highThreshold: adjustStep belongs to besteffort-quota, "
            "highThreshold to per-pod-quota: write mode"
        ),
    ],
    '{"cpuSuppression": {"mode": "besteffort-quota", "nodeConfigs": []}}': [
        "warning line 1, column 20: cpuSuppression: read as cpuSuppression with mode",
        (
            "error line 1, column 64: cpuSuppression.nodeConfigs: move nodeConfigs out of cpuSuppression, "
            "and write it beside"
        ),
    ],
    '{"adjustStep": 0.1, "cpuSuppression": {"mode": "besteffort-quota"}}': [
        (
            "error line 1, column 39: cpuSuppression: move adjustStep into cpuSuppression, "
            "or write all values without it"
        ),
        "warning line 1, column 39: cpuSuppression: read as cpuSuppression with mode",
    ],
    '{"adjustStep": 0}': [f"error line 1, column 16: adjustStep: 0 is outside {STEP}"],
    '{"adjustStep": 1.5}': ["error line 1, column 16: adjustStep: 1.5 is outside 0.0001..1.00"],
    '{"adjustStep": -0.1}': [f"error line 1, column 16: adjustStep: -0.1 is outside {STEP}"],
    '{"adjustStep": "x"}': [
        (
            'error line 1, column 16: adjustStep: "x" is not a number: '
            "write one with at most four decimal places in 0.0001..1.00"
        )
    ],
    '{"adjustStep": "0,1"}': [
        (
            'error line 1, column 16: adjustStep: "0,1" is text, and has a comma: '
            "write the number 0.10, in 0.0001..1.00"
        )
    ],
    '{"adjustStep": 0.12345}': [
        "error line 1, column 16: adjustStep: 0.12345 has more than four decimal places: write 0.1234"
    ],
    '{"adjustQuotaStep": 0}': [f"error line 1, column 21: adjustQuotaStep: 0 is outside {STEP}"],
    '{"adjustPodNum": 0}': ["error line 1, column 18: adjustPodNum: 0 is outside 1..1000"],
    '{"adjustPodNum": 2.5}': ["error line 1, column 18: adjustPodNum: 2.5 is not a whole number: write 2"],
    '{"adjustPodNum": "5"}': [
        'error line 1, column 18: adjustPodNum: "5" is text: write the number without quotes, 5, in 1..1000'
    ],
    '{"adjustPodNum": "five"}': [
        'error line 1, column 18: adjustPodNum: "five" is not a number: write a whole one in 1..1000'
    ],
    '{"mode": "per-pod"}': [
        'error line 1, column 10: mode: "per-pod" is not a known value: did you mean "per-pod-quota"?'
    ],
    '{"isolation": "slice"}': [
        'error line 1, column 15: isolation: "slice" is not a known value: write idle or weights'
    ],
    '{"onAgentStop": "x"}': [
        'error line 1, column 17: onAgentStop: "x" is not a known value: write hold or restore'
    ],
    '{"enabled": "yes"}': [
        'error line 1, column 13: enabled: must be true or false, without quotes, not "yes"'
    ],
    '{"highThreshold": 80}': [
        "error line 1, column 19: highThreshold: 80 is outside 0.00..1.00: 80 % is 0.80"
    ],
    '{"enable": true}': ['warning line 1, column 2: enable: unknown key: did you mean "enabled"?'],
}


@pytest.mark.parametrize(("text", "problems"), SUPPRESSION_PROBLEMS.items())
def test_bad_suppression_value_is_reported_with_the_fix(text: str, problems: list[str]) -> None:
    assert told(parse_suppression(text)) == problems


OVERSUBSCRIPTION_PROBLEMS = {
    '{"ratio": 1.01}': ["error line 1, column 11: ratio: 1.01 is outside 0.00..1.00"],
    '{"ratio": 60}': ["error line 1, column 11: ratio: 60 is outside 0.00..1.00: 60 % is 0.60"],
    '{"ratio": 0.605}': [
        "error line 1, column 11: ratio: 0.605 has more than two decimal places: write 0.60"
    ],
    '{"ratio": 1e-400}': [
        "error line 1, column 11: ratio: 1E-400 has more than two decimal places: write 0.00"
    ],
    '{"ratio": 1e401}': [f"error line 1, column 11: ratio: {beyond_limits('1e401')}"],
    '{"ratio": "0.6"}': [
        'error line 1, column 11: ratio: "0.6" is text: write the number without quotes, 0.60, in 0.00..1.00'
    ],
    '{"intervalSeconds": 0}': ["error line 1, column 21: intervalSeconds: 0 is outside 1..60"],
    '{"intervalSeconds": 61}': ["error line 1, column 21: intervalSeconds: 61 is outside 1..60"],
    '{"intervalSeconds": 0.5}': ["error line 1, column 21: intervalSeconds: 0.5 is outside 1..60"],
    '{"intervalSeconds": 1.5}': [
        "error line 1, column 21: intervalSeconds: 1.5 is not a whole number: write 2"
    ],
    '{"ratio": 0E-999999999, "intervalSeconds": 1e1}': [
        "warning line 1, column 11: ratio: offers nothing to offline pods"
    ],
}


@pytest.mark.parametrize(("text", "problems"), OVERSUBSCRIPTION_PROBLEMS.items())
def test_bad_oversubscription_value_is_reported_with_the_fix(text: str, problems: list[str]) -> None:
    assert told(parse_oversubscription(text)) == problems


RISE = "thresholds rise, recoverThreshold < lowThreshold < highThreshold"
HERE = f"not written here): {RISE}"
POD = '"mode": "per-pod-quota"'
UNUSED = 'has no effect with mode besteffort-quota: write "mode": "per-pod-quota", or leave it out'
THRESHOLD_PROBLEMS = {
    # high is written, below the default of low
    f'{{"highThreshold": 0.5, {POD}}}': [
        f"error line 1, column 19: highThreshold: 0.50 must be above lowThreshold (0.60, {HERE}"
    ],
    f'{{"lowThreshold": 0.3, {POD}}}': [
        f"error line 1, column 18: lowThreshold: 0.30 must be above recoverThreshold (0.40, {HERE}"
    ],
    f'{{"recoverThreshold": 0.6, {POD}}}': [
        f"error line 1, column 22: recoverThreshold: 0.60 must be below lowThreshold (0.60, {HERE}"
    ],
    f'{{"highThreshold": 0.6, "lowThreshold": 0.8, "recoverThreshold": 0.4, {POD}}}': [
        f"error line 1, column 19: highThreshold: 0.60 must be above lowThreshold (0.80): {RISE}"
    ],
    # good for the cluster, and bad only where the entry's value meets the cluster's
    f'{{"highThreshold": 0.7, {POD}, "nodeConfigs": [{{"nodeSelector": {{}}, "lowThreshold": 0.7}}]}}': [
        (
            "error line 1, column 102: nodeConfigs[0].lowThreshold: 0.70 must be below highThreshold "
            f"(0.70, {HERE}"
        )
    ],
    # an entry that has no thresholds is not blamed for the cluster's
    f'{{"highThreshold": 0.5, {POD}, "nodeConfigs": [{{"nodeSelector": {{}}, "enabled": true}}]}}': [
        f"error line 1, column 19: highThreshold: 0.50 must be above lowThreshold (0.60, {HERE}"
    ],
    f'{{"recoverThreshold": 0, {POD}}}': [
        (
            "warning line 1, column 22: recoverThreshold: 0.00: no utilization is below it, "
            "so no pod's quota is ever raised again"
        )
    ],
    f'{{"highThreshold": 1, "lowThreshold": 0.9999, "recoverThreshold": 0.9998, {POD}}}': [],
    # values of the mode that no node has
    '{"adjustPodNum": 2}': [f"warning line 1, column 18: adjustPodNum: {UNUSED}"],
    '{"adjustPodNum": 2, "nodeConfigs": [{"nodeSelector": {}, "mode": "per-pod-quota"}]}': [],
    f'{{{POD}, "nodeConfigs": [{{"nodeSelector": {{}}, "adjustStep": 0.2}}]}}': [
        (
            "warning line 1, column 78: nodeConfigs[0].adjustStep: has no effect with mode per-pod-quota: "
            'write "mode": "besteffort-quota", or leave it out'
        )
    ],
}


@pytest.mark.parametrize(("text", "problems"), THRESHOLD_PROBLEMS.items())
def test_non_rising_merged_thresholds_blame_a_written_one(text: str, problems: list[str]) -> None:
    assert told(parse_suppression(text)) == problems


HONORED = "not honored: of this key only beClass.resctrlQOS is"
RESOURCE_QOS_PROBLEMS = {
    '{"clusterStrategy": {"beClass": {"resctrlQOS": {"enable": true, "catRangeEndPercent": 101}}}}': [
        (
            "error line 1, column 87: clusterStrategy.beClass.resctrlQOS.catRangeEndPercent: "
            "101 is outside 1..100"
        )
    ],
    '{"clusterStrategy": {"beClass": {"resctrlQOS": {"catRangeStartPercent": 40}}}}': [
        (
            "error line 1, column 73: clusterStrategy.beClass.resctrlQOS.catRangeStartPercent: the range of "
            "the cache is empty: from 40 % to 30 %; the end must be above the start"
        )
    ],
    '{"clusterStrategy": {"beClass": {"resctrlQOS": {"enable": true, "catRangeEndPercent": 100}}}}': [
        (
            "warning line 1, column 48: clusterStrategy.beClass.resctrlQOS: limits nothing: all of the cache "
            "and of memory bandwidth"
        )
    ],
    '{"clusterStrategy": {"lsClass": {"cpuQOS": {}}, "beClass": {"cpuQOS": {"enable": true}}}}': [
        f"warning line 1, column 33: clusterStrategy.lsClass: {HONORED}",
        f"warning line 1, column 71: clusterStrategy.beClass.cpuQOS: {HONORED}",
    ],
    '{"nodeStrategies": [{"beClass": {"resctrlQOS": {"mbaPercent": 0}}}]}': [
        (
            "warning line 1, column 21: nodeStrategies[0].nodeSelector: no nodeSelector, so the entry "
            "selects no node: {} selects all"
        ),
        "error line 1, column 63: nodeStrategies[0].beClass.resctrlQOS.mbaPercent: 0 is outside 1..100",
    ],
}


@pytest.mark.parametrize(("text", "problems"), RESOURCE_QOS_PROBLEMS.items())
def test_bad_resource_qos_value_is_reported_in_place(text: str, problems: list[str]) -> None:
    assert told(parse_resource_qos(text)) == problems


@pytest.mark.parametrize("member", ["catRangeStartPercent", "catRangeEndPercent", "mbaPercent"])
@pytest.mark.parametrize("value", ["-1", "101", "1e9", "1e400", "-1e-400", "0.5", "true", '"30"', "[]"])
def test_extreme_percentages_of_resctrl_are_refused(member: str, value: str) -> None:
    text = f'{{"clusterStrategy": {{"beClass": {{"resctrlQOS": {{"enable": true, "{member}": {value}}}}}}}}}'
    parsed = parse_resource_qos(text)
    assert parsed.value is None
    assert parsed.problems[0].path == f"clusterStrategy.beClass.resctrlQOS.{member}"


def test_cache_and_bandwidth_limits_merge_as_in_koordinator() -> None:
    text = """{"clusterStrategy": {"beClass": {"resctrlQOS": {"enable": true, "mbaPercent": 20}}},
      "nodeStrategies": [{"nodeSelector": {"matchLabels": {"pool": "a"}},
                          "beClass": {"resctrlQOS": {"catRangeEndPercent": 50}}}]}"""
    config = parse_resource_qos(text).value
    assert config is not None
    assert config.strategy_for({})[0] == ResctrlSettings(True, 0, 30, 20)
    assert config.strategy_for({"pool": "a"})[0] == ResctrlSettings(True, 0, 50, 20)
    assert parse_resource_qos("{}").value == NO_RESOURCE_QOS


def test_thresholds_are_not_compared_while_one_is_unreadable() -> None:
    (problem,) = parse_suppression('{"highThreshold": "0.5", "lowThreshold": 0.6}').problems
    assert problem.path == "highThreshold"
    assert "is text" in problem.message


KEYS = [
    *(
        "ratio",
        "intervalSeconds",
        "nodeConfigs",
        "nodeSelector",
        "enabled",
        "mode",
        "adjustStep",
    ),
    *("onAgentStop", "highThreshold", "lowThreshold", "recoverThreshold", "adjustQuotaStep", "adjustPodNum"),
]
trees = st.recursive(
    st.none() | st.booleans() | st.floats() | st.sampled_from([0, 1, 0.5, 0.7, 1.5, "hold", "per-pod-quota"]),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.sampled_from(KEYS), each, max_size=6),
    max_leaves=25,
)


@given(st.text() | trees.map(json.dumps) | trees.map(lambda tree: json.dumps(tree, indent=1)[:-1]))
def test_any_text_gives_consistent_settings_or_errors(text: str) -> None:
    offered, suppressed = parse_oversubscription(text), parse_suppression(text)
    assert (offered.value is None) is bool(offered.errors)
    assert (suppressed.value is None) is bool(suppressed.errors)
    if suppressed.value is not None:
        for settings in all_settings(suppressed.value):
            assert settings.recover < settings.low < settings.high
            assert settings.adjust_step > Share(0)
            assert settings.pods_a_cycle > 0


def all_settings(config: Configuration[Any]) -> list[SuppressionSettings]:
    entries = [entry.strategy for entry in config.node_configs]
    return [config.cluster, *entries]
