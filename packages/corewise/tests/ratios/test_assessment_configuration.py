"""Which configuration applies when the ConfigMap is bad."""

from __future__ import annotations

from corewise.config.colocation import NO_SUPPRESSION
from corewise.kube.objects import ConfigMap
from corewise.manager.reporting import events_about
from corewise.ratios.cluster import UNKNOWN, conflicts, read_configuration
from corewise.vocabulary.names import (
    AMPLIFICATION_KEY,
    NORMALIZATION_KEY,
    OVERSUBSCRIPTION_KEY,
    SUPPRESSION_KEY,
)


def test_bad_key_keeps_last_value_and_others_proceed() -> None:
    good = read_configuration(ConfigMap(data={NORMALIZATION_KEY: '{"enable":true}'})).configuration
    data = {NORMALIZATION_KEY: "{", AMPLIFICATION_KEY: '{"enable":true}'}
    reading = read_configuration(ConfigMap(data=data), good)
    assert reading.bad_keys == (NORMALIZATION_KEY,)
    assert reading.configuration.normalization == good.normalization
    assert reading.configuration.amplification
    assert reading.configuration.amplification.cluster.enable


def test_key_never_good_is_unknown_and_absent_empty() -> None:
    reading = read_configuration(ConfigMap(data={NORMALIZATION_KEY: "{"}), UNKNOWN)
    assert reading.configuration.normalization is None
    assert reading.configuration.amplification is not None


def test_blank_key_is_an_error_not_absent() -> None:
    good = read_configuration(ConfigMap(data={AMPLIFICATION_KEY: '{"enable":true}'})).configuration
    reading = read_configuration(ConfigMap(data={AMPLIFICATION_KEY: " \n"}), good)
    assert reading.bad_keys == (AMPLIFICATION_KEY,)
    assert reading.configuration.amplification == good.amplification


def test_bad_colocation_keys_and_entry_clashes_are_reported() -> None:
    two = '{"nodeConfigs":[{"nodeSelector":{}},{"nodeSelector":{}}]}'
    reading = read_configuration(ConfigMap(data={OVERSUBSCRIPTION_KEY: two, SUPPRESSION_KEY: two}))
    assert set(conflicts(reading.configuration, [("n1", {})])) == {OVERSUBSCRIPTION_KEY, SUPPRESSION_KEY}
    bad = {OVERSUBSCRIPTION_KEY: '{"ratio":2}', SUPPRESSION_KEY: '{"adjustStep":0}'}
    again = read_configuration(ConfigMap(data=bad), reading.configuration)
    assert again.bad_keys == (OVERSUBSCRIPTION_KEY, SUPPRESSION_KEY)
    assert again.configuration == reading.configuration
    assert read_configuration(None).configuration.suppression == NO_SUPPRESSION


def test_the_event_says_what_applies_instead() -> None:
    config_map = ConfigMap(data={NORMALIZATION_KEY: '{"enable":1}', SUPPRESSION_KEY: '{"adjustStep":0}'})
    reading = read_configuration(config_map)
    in_parts, whole = events_about(reading, config_map, (), was_bad=False)
    assert in_parts.message.endswith(
        "; entries without errors are applied, nodes that others may be meant for stay as they are"
    )
    assert whole.message.endswith("; the last good one stays in force")
