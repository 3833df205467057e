"""What a journal leaves held, and which texts of a file are ours.

==========================================  =======================
after the last write there is               ours is
==========================================  =======================
another entry of the same process           what was written
nothing: killed, perhaps before the write   that, and what was before
the next process                            that, and what was before
its failure                                 that, and what was before
==========================================  =======================
"""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from corewise.kernel.writing.entries import (
    Amount,
    Damaged,
    Entry,
    Failed,
    Held,
    HeldSetting,
    JournalLine,
    Kept,
    Opened,
    Released,
    Wrote,
    still_held,
)

OPENED = Opened(0.0, "one")
QUOTA = Held(1.0, "/a", Amount(100_000, 100_000))
WEIGHT = HeldSetting(1.0, "/a", "cpu.weight", "100", "50", "batch")


def wrote(file: str, old: str, new: str) -> Wrote:
    return Wrote(2.0, "/a", file, old, new, "QuotaNormalized", "")


def held(*entries: JournalLine) -> list[Kept]:
    return list(still_held([OPENED, *entries]))


FAILED = Failed(3.0, "/a", "cpu.max", "5", "EBUSY")


@pytest.mark.parametrize(
    ("following", "ours"),
    [
        ([], ("9", "5")),
        ([OPENED], ("9", "5")),
        ([OPENED, QUOTA], ("9", "5")),
        ([FAILED], ("9", "5")),
        ([FAILED, QUOTA], ("9", "5")),
        ([QUOTA], ("5", "5")),
        ([QUOTA, OPENED], ("5", "5")),
        ([wrote("cpu.weight", "1", "2")], ("5", "5")),
        ([Released(3.0, "/b")], ("5", "5")),
    ],
)
def test_write_is_certain_once_its_process_enters_more(following: list[Entry], ours: tuple[str, str]) -> None:
    (kept,) = held(QUOTA, wrote("cpu.max", "9", "5"), *following)
    assert kept.wrote["cpu.max"] == ours


def test_quota_and_setting_are_held_and_released_separately() -> None:
    both: list[Entry] = [QUOTA, WEIGHT, wrote("cpu.weight", "100", "50"), wrote("cpu.max", "1", "2"), OPENED]
    quota = replace(QUOTA, wrote={"cpu.max": ("1", "2")})
    weight = replace(WEIGHT, wrote={"cpu.weight": ("50", "50")})
    assert held(*both) == [quota, weight]
    assert held(*both, Released(4.0, "/a")) == [weight]
    assert held(*both, Released(4.0, "/a", "cpu.weight")) == [quota]


def test_holding_again_keeps_writes_and_release_forgets_them() -> None:
    entries: list[Entry] = [WEIGHT, wrote("cpu.weight", "100", "50"), replace(WEIGHT, value="70")]
    assert [kept.wrote for kept in held(*entries)] == [{"cpu.weight": ("50", "50")}]
    assert [kept.wrote for kept in held(*entries, Released(4.0, "/a", "cpu.weight"), WEIGHT)] == [{}]


def test_what_is_held_held_again_is_the_same() -> None:
    once = held(QUOTA, WEIGHT, wrote("cpu.weight", "100", "50"))
    assert held(*once) == once


def test_a_former_boot_leaves_nothing_held() -> None:
    assert held(QUOTA, WEIGHT, wrote("cpu.max", "1", "2"), Opened(5.0, "two")) == []


DAMAGED = Damaged(Path("journal"), 7, "not UTF-8")


def test_damaged_line_makes_writes_unknown_until_the_next() -> None:
    unsure = replace(WEIGHT, unsure=True)
    assert held(WEIGHT, wrote("cpu.weight", "100", "50"), DAMAGED) == [unsure]
    assert held(WEIGHT, wrote("cpu.weight", "100", "50"), DAMAGED, WEIGHT, OPENED) == [unsure]
    assert held(WEIGHT, DAMAGED, wrote("cpu.weight", "50", "70"), QUOTA) == [
        replace(unsure, wrote={"cpu.weight": ("70", "70")}),
        QUOTA,
    ]
    assert held(unsure) == [unsure], "also in a file that was restarted"
    assert held(DAMAGED, WEIGHT) == [WEIGHT]
    assert held(WEIGHT, DAMAGED, Released(4.0, "/a", "cpu.weight"), WEIGHT) == [WEIGHT]
    assert held(WEIGHT, DAMAGED, Opened(5.0, "two"), WEIGHT) == [WEIGHT]


def test_truncated_line_announces_nothing_that_happened() -> None:
    cut = Damaged(Path("journal"), 7, "cut off", cut_off=True)
    entries: list[JournalLine] = [WEIGHT, wrote("cpu.weight", "100", "50"), cut]
    assert held(*entries) == held(*entries[:2])
    assert held(*entries, WEIGHT) == held(*entries[:2], WEIGHT)
