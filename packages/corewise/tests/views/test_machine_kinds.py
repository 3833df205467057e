"""Short names of CPU models and kinds of machines, with the names that real machines report."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.views.machine_kinds import kind_names, short_model, whole_names

MODELS: list[tuple[str, str]] = [
    ("Intel(R) Xeon(R) Platinum 8269CY CPU @ 2.50GHz", "Xeon 8269CY"),
    ("Intel(R) Xeon(R) CPU E5-2682 v4 @ 2.50GHz", "Xeon E5-2682 v4"),
    ("Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz", "Xeon 6130"),
    ("INTEL(R) XEON(R) PLATINUM 8592+", "XEON 8592+"),
    ("Intel(R) Xeon(R) Processor", "Xeon"),
    ("Intel(R) Xeon(R) Processor @ 2.90GHz", "Xeon @ 2.90GHz"),
    ("Intel(R) Xeon(R) CPU @ 2.20GHz", "Xeon @ 2.20GHz"),
    ("Intel(R) Xeon(R) CPU @ 2.30GHz", "Xeon @ 2.30GHz"),
    ("Intel Xeon Processor (Skylake, IBRS)", "Xeon (Skylake, IBRS)"),
    ("AMD EPYC 9654 96-Core Processor", "EPYC 9654"),
    ("AMD EPYC 7B13", "EPYC 7B13"),
    ("AMD EPYC-Milan Processor", "EPYC-Milan"),
    ("AMD EPYC Processor (with IBPB)", "EPYC (with IBPB)"),
    ("ARM Neoverse-N1", "Neoverse-N1"),
    ("Neoverse-N1", "Neoverse-N1"),
    ("Ampere", "Ampere"),
    ("Ampere(R) Altra(R) Processor", "Ampere Altra"),
    ("Kunpeng-920", "Kunpeng-920"),
    ("CPU", "CPU"),
    ("", ""),
]


@pytest.mark.parametrize(("model", "short"), MODELS)
def test_a_model_keeps_what_tells_it_apart(model: str, short: str) -> None:
    assert short_model(model) == short


@given(st.text(max_size=60))
def test_short_name_is_never_longer_nor_empty(model: str) -> None:
    assert len(short_model(model)) <= len(model)
    assert bool(short_model(model)) == bool(model)


def test_settings_are_named_where_they_differ() -> None:
    xeon, epyc = "Intel(R) Xeon(R) Platinum 8269CY CPU @ 2.50GHz", "AMD EPYC 7B13"
    kinds = [(xeon, True, True), (xeon, True, False), (xeon, False, False), (epyc, False, True)]
    assert kind_names(kinds) == dict(
        zip(
            kinds,
            ["Xeon 8269CY", "Xeon 8269CY, turbo off", "Xeon 8269CY, HT off, turbo off", "EPYC 7B13"],
            strict=True,
        )
    )
    assert whole_names(kinds)[kinds[2]] == f"{xeon}, HT off, turbo off"


def test_models_that_would_be_alike_stay_whole() -> None:
    gold, bare = "Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz", "Intel Xeon 6130"
    assert kind_names([(gold, True, True), (bare, True, True)]) == {
        (gold, True, True): gold,
        (bare, True, True): bare,
    }


@given(st.sets(st.tuples(st.sampled_from([model for model, _ in MODELS]), st.booleans(), st.booleans())))
def test_no_two_kinds_have_one_name(kinds: set[tuple[str, bool, bool]]) -> None:
    for names in (kind_names(kinds), whole_names(kinds)):
        assert len({*names.values()}) == len(kinds)
