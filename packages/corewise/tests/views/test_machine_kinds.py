"""Kinds of machines have names that are short, and all different.

| kinds | names |
|---|---|
| one model | its short name |
| one model with other settings | the short name, and what is off |
| two models with one short name | the whole models |
"""

from __future__ import annotations

import pytest

from corewise.views.machine_kinds import Kind, kind_names

FAST = "Intel(R) Xeon(R) Platinum 8369B CPU @ 2.70GHz"
FASTER = "Intel(R) Xeon(R) Platinum 8369B CPU @ 2.90GHz"
LONG = "A processor whose name is longer than a label, "


@pytest.mark.parametrize(
    ("kinds", "names"),
    [
        ([], []),
        ([(FAST, True, True)], ["Xeon 8369B"]),
        ([(FAST, True, True), (FAST, False, False)], ["Xeon 8369B", "Xeon 8369B, HT off, turbo off"]),
        ([(FAST, True, True), (FASTER, True, True)], [FAST, FASTER]),
        (
            [(FAST, True, True), (FAST, True, False), (FASTER, True, True)],
            [FAST, f"{FAST}, turbo off", FASTER],
        ),
        ([(f"{LONG}A", True, True), (f"{LONG}B", True, True)], [f"{LONG}A", f"{LONG}B"]),
    ],
)
def test_each_kind_has_a_name_of_its_own(kinds: list[Kind], names: list[str]) -> None:
    assert [kind_names(kinds)[kind] for kind in kinds] == names
