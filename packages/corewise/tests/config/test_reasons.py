"""Every reason code is explained, and every name is in the reference."""

from __future__ import annotations

import re

import pytest

from corewise.views.stored_config import check_command, fix_of
from corewise.vocabulary import names
from corewise.vocabulary.metrics import METRICS
from corewise.vocabulary.reasons import Reason


def test_every_reason_is_camel_case_like_its_constant() -> None:
    for reason in Reason:
        assert re.fullmatch(r"(?:[A-Z]+[a-z]+)+", reason.value), reason
        assert reason.value.lower() == reason.name.replace("_", "").lower()


@pytest.mark.parametrize("reason", Reason)
def test_reason_states_its_meaning_and_warning_its_fix(reason: Reason) -> None:
    assert reason.meaning.endswith(".")
    assert not reason.fix or reason.fix.endswith((".", " -"))  # a last argument - has no full stop
    assert bool(reason.fix) or not reason.warning


def test_fix_of_bad_key_ends_in_command() -> None:
    assert Reason.CONFIG_INVALID.fix.endswith(f": {check_command(names.SYSTEM_NAMESPACE)}")


def _is_constant(name: str, value: object) -> bool:
    return name.isupper() and not name.startswith("_") and isinstance(value, str)


def test_every_label_annotation_resource_and_key_has_row() -> None:
    constants = {value for name, value in vars(names).items() if _is_constant(name, value)}
    recorded = {
        name(field, resource)
        for name in (names.recorded_raw, names.recorded_applied)
        for field in ("capacity", "allocatable")
        for resource in ("cpu", "memory")
    }
    rows = {row.name for row in names.TABLE}
    constants -= {names.CONFIG_NAME, names.CONFIG_NAMESPACE, names.SYSTEM_NAMESPACE, names.MANAGER_COMPONENT}
    assert constants | recorded == rows


def test_a_name_stands_on_an_object_once() -> None:
    rows = [(row.name, row.on) for row in names.TABLE]
    assert len(rows) == len(set(rows))
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_remedy_names_the_namespace_of_the_configuration() -> None:
    fix = fix_of(Reason.CONFIG_INVALID, "own")
    assert fix.endswith(f": {check_command('own')}")
    assert "-n own get configmap" in fix
