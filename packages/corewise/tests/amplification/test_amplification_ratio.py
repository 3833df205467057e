"""Which ratio applies, and whose annotation it is.

node says             -original  configured  normalization  ratio            -original afterwards
--------------------  ---------  ----------  -------------  ---------------  --------------------
nothing               -          -           1.00           -                -
nothing               -          -           1.50           1.50             {}
nothing               -          1.20        1.50           1.80             {}
1.20 (a user's)       -          -           1.00           1.20, untouched  -
1.20 (a user's)       -          1.50        1.00           1.20, untouched  -
1.20 (a user's)       -          -           1.50           1.80             the user's text
1.80                  1.20       -           1.50           1.80, untouched  1.20
nothing (removed)     1.20       -           1.50           1.80 again       1.20
1.80                  1.20       -           1.00           1.20             1.20
1.50                  {}         -           1.00           -                -
1.50                  {}         -           undecided      1.50, untouched  {}
0.90 (a user's)       -          -           1.50           0.90, untouched  -; memory goes on
not JSON              -          1.50        1.50           untouched        -
8.00 (a user's)       -          -           1.50           8.00, untouched  12.00 is above 10.00

Koordinator writes ratio = configured ratio x normalization ratio, and no -original. Here the node states the
normalization ratio 1.50:

node says    configured  normalization  ratio             -original afterwards
-----------  ----------  -------------  ----------------  -----------------------------------
1.50         -           1.50           1.50              {}
1.80         -           1.50           1.80              1.20
1.80         1.20        1.50           1.80              {}: configuration states it
1.80         1.10        1.50           1.80              1.20
1.50         1.20        1.50           1.80              {}
1.20         -           1.50           1.50              {}: it holds no ratio beside 1.50
1.50         -           1.30           1.30              {}
1.50         -           1.00           -                 -
1.50         -           undecided      1.50, untouched   {}
any          unknown     undecided      as it is          -
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.amplification import RatioVerdict, decide_ratio
from corewise.amplification.ratio import StatedBy
from corewise.quantities import ONE, Ratio, ratio_product
from corewise.vocabulary import names
from corewise.vocabulary.reasons import Reason

RATIO = names.AMPLIFICATION_RATIO
ORIGINAL = names.AMPLIFICATION_ORIGINAL


def run(
    notes: dict[str, str], norm: str | None = "1.00", **configured: str
) -> tuple[dict[str, str], RatioVerdict]:
    """Return the annotations after the changes, and the verdict."""
    verdict = decide_ratio(
        notes,
        configured={name: Ratio.parse(text) for name, text in configured.items()},
        normalization=None if norm is None else Ratio.parse(norm),
    )
    after = {**notes, **verdict.changes}
    return {name: text for name, text in after.items() if text is not None}, verdict


def test_node_with_nothing_to_amplify_is_not_written() -> None:
    after, verdict = run({})
    assert (after, verdict.changes, verdict.ratios) == ({}, {}, {})


def test_normalization_alone_sets_the_ratio_without_a_user() -> None:
    after, verdict = run({}, "1.50")
    assert after == {RATIO: '{"cpu":1.50}', ORIGINAL: "{}"}
    assert verdict.ratios == {"cpu": Ratio(150)}
    assert not verdict.adopted


def test_configured_ratio_multiplies_for_cpu_not_for_memory() -> None:
    after, verdict = run({}, "1.50", cpu="1.20", memory="1.30")
    assert after[RATIO] == '{"cpu":1.80,"memory":1.30}'
    assert verdict.sources["cpu"].stated_by is StatedBy.CONFIGURATION


def test_user_ratio_already_as_wanted_is_left_alone() -> None:
    notes = {RATIO: '{ "cpu": 1.2 }'}
    assert run(notes)[0] == notes
    assert run(notes, cpu="1.50")[0] == notes


def test_user_ratio_is_moved_verbatim_before_corewise_writes() -> None:
    notes = {RATIO: '{ "cpu": 1.2, "nvidia.com/gpu": 2 }'}
    after, verdict = run(notes, "1.50")
    assert after == {RATIO: '{"cpu":1.80}', ORIGINAL: notes[RATIO]}
    assert verdict.adopted
    assert verdict.sources["cpu"].stated_by is StatedBy.ANNOTATION


def test_a_user_overrides_configuration_resource_by_resource() -> None:
    after, _ = run({RATIO: '{"cpu":1.00}'}, cpu="1.50", memory="1.30")
    assert after == {RATIO: '{"memory":1.30}', ORIGINAL: '{"cpu":1.00}'}


def test_ratio_written_by_corewise_is_never_multiplied_again() -> None:
    notes, _ = run({RATIO: '{"cpu":1.2}'}, "1.50")
    assert run(notes, "1.50")[1].changes == {}


def test_a_ratio_that_somebody_removed_is_written_again() -> None:
    after, _ = run({ORIGINAL: '{"cpu":1.20}'}, "1.50")
    assert after[RATIO] == '{"cpu":1.80}'


def test_user_ratio_stays_in_force_without_normalization() -> None:
    notes, _ = run({RATIO: '{"cpu":1.2}'}, "1.50")
    after, _ = run(notes, "1.00")
    assert after == {RATIO: '{"cpu":1.20}', ORIGINAL: '{"cpu":1.2}'}


def test_when_nobody_wants_a_ratio_both_annotations_go() -> None:
    notes, _ = run({}, "1.50", memory="1.20")
    assert run(notes, "1.00") == ({}, run(notes, "1.00")[1])


def test_moved_user_ratio_of_1_00_stays_there() -> None:
    notes = {RATIO: '{"memory":1.30}', ORIGINAL: '{"cpu":1.00}'}
    assert run(notes)[0] == {ORIGINAL: '{"cpu":1.00}'}


def test_undecided_normalization_leaves_cpu_entry_while_memory_continues() -> None:
    notes = {RATIO: '{"cpu":1.50}', ORIGINAL: "{}"}
    after, verdict = run(notes, None, memory="1.30")
    assert after == {RATIO: '{"cpu":1.50,"memory":1.30}', ORIGINAL: "{}"}
    assert verdict.hold_normalization
    assert verdict.ratios["cpu"] == Ratio(150)
    assert [finding.reason for finding in verdict.findings] == [Reason.NORMALIZATION_UNDECIDED]


def test_undecided_normalization_does_not_adopt_a_user_ratio() -> None:
    assert run({RATIO: '{"cpu":1.2}'}, None)[1].changes == {}


def test_original_below_one_stays_and_holds_normalization_back() -> None:
    notes = {RATIO: '{"cpu":0.9}'}
    after, verdict = run(notes, "1.50")
    assert (after, verdict.hold_normalization, verdict.ratios) == (notes, True, {})
    after, verdict = run(notes, "1.50", memory="1.30")
    assert after == {RATIO: '{"cpu":0.9,"memory":1.30}', ORIGINAL: '{"cpu":0.9}'}
    assert verdict.findings[0].reason is Reason.AMPLIFICATION_ORIGINAL_BELOW_ONE


def test_original_that_turns_bad_keeps_last_good_entry() -> None:
    after, verdict = run({RATIO: '{"cpu":1.80}', ORIGINAL: '{"cpu":"fast"}'}, "2.00")
    assert after[RATIO] == '{"cpu":1.80}'
    assert verdict.ratios == {"cpu": Ratio(180)}
    assert verdict.findings[0].about == "cpu"


@pytest.mark.parametrize("notes", [{RATIO: "{"}, {RATIO: '{"cpu":1.50}', ORIGINAL: "{"}, {RATIO: ""}])
def test_unreadable_text_is_never_overwritten(notes: dict[str, str]) -> None:
    after, verdict = run(notes, "1.50", cpu="2.00", memory="2.00")
    assert (after, verdict.hold_normalization) == (notes, True)
    assert verdict.findings[0].reason is Reason.AMPLIFICATION_RATIO_INVALID


def test_damaged_ratio_of_corewise_is_rewritten() -> None:
    after, _ = run({RATIO: "{", ORIGINAL: "{}"}, "1.50")
    assert after[RATIO] == '{"cpu":1.50}'


def test_damaged_ratio_stays_while_an_entry_is_kept() -> None:
    assert run({RATIO: "{", ORIGINAL: "{}"}, None, memory="1.30")[1].changes == {}


def test_product_above_the_largest_ratio_is_refused() -> None:
    notes = {RATIO: '{"cpu":8.00}'}
    after, verdict = run(notes, "1.50")
    assert (after, verdict.hold_normalization) == (notes, True)
    assert "8.00 (annotation) x normalization 1.50 = 12.00" in verdict.findings[0].message


@pytest.mark.parametrize(("ratio", "reason"), [("0.99", "OriginalBelowOne"), ("10.01", "RatioOutOfRange")])
def test_bad_configured_ratio_is_reported_for_its_resource(ratio: str, reason: str) -> None:
    after, verdict = run({}, "1.00", memory=ratio, cpu="1.20")
    assert after[RATIO] == '{"cpu":1.20}'
    assert verdict.findings[0].reason.endswith(reason)


def test_other_resources_of_the_configuration_are_refused() -> None:
    verdict = decide_ratio({}, configured={"nvidia.com/gpu": Ratio(200)}, normalization=ONE)
    assert (verdict.changes, verdict.findings[0].reason) == ({}, Reason.AMPLIFICATION_RESOURCE_REFUSED)


def test_held_resource_keeps_entry_and_cpu_holds_normalization() -> None:
    notes = {RATIO: '{"cpu":3.00,"memory":1.30}', ORIGINAL: "{}"}
    verdict = decide_ratio(
        notes, configured={"memory": Ratio(120)}, normalization=Ratio(150), held=frozenset({"cpu"})
    )
    assert verdict.changes == {RATIO: '{"cpu":3.00,"memory":1.20}'}
    assert verdict.ratios == {"cpu": Ratio(300), "memory": Ratio(120)}
    assert verdict.hold_normalization


def test_a_held_back_removal_keeps_corewise_the_owner() -> None:
    notes = {RATIO: '{"cpu":1.50}', ORIGINAL: "{}"}
    verdict = decide_ratio(notes, configured={}, normalization=ONE, held=frozenset({"cpu"}))
    assert verdict.changes == {}


def test_products_are_rounded_half_even() -> None:
    assert run({}, "1.15", cpu="1.10")[1].ratios == {"cpu": Ratio(126)}  # 1.2650
    assert run({}, "1.25", cpu="1.10")[1].ratios == {"cpu": Ratio(138)}  # 1.3750


KOORDINATOR = {names.NORMALIZATION_RATIO: "1.50"}


@pytest.mark.parametrize(
    ("written", "configured", "norm", "ratio", "original"),
    [
        ('{"cpu":1.50}', {}, "1.50", '{"cpu":1.50}', "{}"),
        ('{"cpu":1.80}', {}, "1.50", '{"cpu":1.80}', '{"cpu":1.20}'),
        ('{"cpu":1.80}', {"cpu": "1.20"}, "1.50", '{"cpu":1.80}', "{}"),
        ('{"cpu":1.80}', {"cpu": "1.10"}, "1.50", '{"cpu":1.80}', '{"cpu":1.20}'),
        ('{"cpu":1.50}', {"cpu": "1.20"}, "1.50", '{"cpu":1.80}', "{}"),
        ('{"cpu":1.20}', {}, "1.50", '{"cpu":1.50}', "{}"),
        ('{"cpu":1.50}', {}, "1.30", '{"cpu":1.30}', "{}"),
        ('{"cpu":1.50}', {}, "1.00", None, None),
        ('{"cpu":1.50}', {}, None, '{"cpu":1.50}', "{}"),
        (
            '{"cpu":1.80,"memory":1.30}',
            {"cpu": "1.20", "memory": "1.30"},
            "1.50",
            '{"cpu":1.80,"memory":1.30}',
            "{}",
        ),
        (
            '{"cpu":1.80,"memory":1.30}',
            {},
            "1.50",
            '{"cpu":1.80,"memory":1.30}',
            '{"cpu":1.20,"memory":1.30}',
        ),
    ],
)
def test_koordinators_ratio_is_divided_by_its_normalization_ratio(
    written: str, configured: dict[str, str], norm: str | None, ratio: str | None, original: str | None
) -> None:
    after, verdict = run({**KOORDINATOR, RATIO: written}, norm, **configured)
    assert (after.get(RATIO), after.get(ORIGINAL)) == (ratio, original)
    assert verdict.adopted is (original not in {None, "{}"})


def test_koordinators_ratio_stays_while_nothing_is_decided() -> None:
    notes = {**KOORDINATOR, RATIO: '{"cpu":1.80}'}
    verdict = decide_ratio(notes, configured={}, normalization=None, held=frozenset({"cpu", "memory"}))
    assert (verdict.changes, verdict.hold_normalization) == ({}, True)


def test_koordinators_held_ratio_is_divided_too() -> None:
    notes = {**KOORDINATOR, RATIO: '{"cpu":1.80}'}
    verdict = decide_ratio(notes, configured={}, normalization=ONE, held=frozenset({"cpu"}))
    assert verdict.changes == {ORIGINAL: '{"cpu":1.20}'}
    assert verdict.hold_normalization


@pytest.mark.parametrize("stated", ["1.00", "fast", ""])
def test_ratio_without_normalization_beside_it_is_users(stated: str) -> None:
    notes = {names.NORMALIZATION_RATIO: stated, RATIO: '{"cpu":1.50}'}
    assert run(notes, "1.50")[0][ORIGINAL] == '{"cpu":1.50}'


sources = st.fixed_dictionaries(
    {},
    optional={
        RATIO: st.sampled_from(
            ['{"cpu":1.20}', '{"cpu":0.9,"memory":1.10}', "{}", "{", '{"gpu":2}', '{"cpu":1}']
        ),
        names.NORMALIZATION_RATIO: st.sampled_from(["1.50", "1.00", "x"]),
        ORIGINAL: st.sampled_from(["{}", '{"cpu":1.20}', '{"memory":1.10}', "x", '{"cpu":1.00}']),
    },
)


@given(
    notes=sources,
    norms=st.lists(st.sampled_from([None, ONE, Ratio(150), Ratio(217)]), min_size=1, max_size=4),
    configured=st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from([ONE, Ratio(130)])),
)
def test_passes_are_idempotent_and_multiply_user_ratio_once(
    notes: dict[str, str], norms: list[Ratio | None], configured: dict[str, Ratio]
) -> None:
    for norm in norms:
        verdict = decide_ratio(notes, configured=configured, normalization=norm)
        notes = {k: v for k, v in {**notes, **verdict.changes}.items() if v is not None}
        if norm is not None and not verdict.hold_normalization:
            notes[names.NORMALIZATION_RATIO] = str(norm)
            # Without -original, such a node would count as Koordinator's.
            assert norm == ONE or ORIGINAL in notes
        again = decide_ratio(notes, configured=configured, normalization=norm)
        assert (again.changes, again.ratios) == ({}, verdict.ratios)
        source = verdict.sources["cpu"]
        if (
            source.ratio is not None
            and source.original is not None
            and norm is not None
            and not _damaged(notes)
        ):
            assert verdict.ratios.get("cpu", ONE) == ratio_product(source.original, norm)


def _damaged(notes: dict[str, str]) -> bool:
    return notes.get(RATIO) == "{" or notes.get(ORIGINAL) == "x"
