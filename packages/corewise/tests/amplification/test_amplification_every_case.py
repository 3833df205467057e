"""The policy and the webhook decide every case of one write alike: the product of its parts, not a sample.

A case of one amount: what the write states, what is stored, the record, what Koordinator's annotation names,
the ratio, the writer, the record's generation in the write and in what is stored, and whether capacity is
amplified or CPUs are owned. The four amounts of a node are in one write, each in another case; every amount
goes through all cases. A second product is about capacity and allocatable of one resource together, of which
one asks kubelet for the other.

``make test`` tries every n-th case, in which every two parts of a case meet in all their values. ``make
explore EXHAUSTIVE=1`` tries all.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from math import prod
from typing import Any, Final, TypeAlias

import pytest

from amplification import both_rules
from amplification.both_rules import canonical, policy_patch, webhook
from corewise.amplification.annotations import CELLS, RAW_ANNOTATIONS, Cell
from corewise.vocabulary import names
from every_case import WHOLE, Stopwatch
from kubedouble.expressions import is_available
from kubedouble.patching import json_patch

pytestmark = pytest.mark.skipif(not is_available(), reason="cel-expr-python is not installed")

Case: TypeAlias = tuple[str, ...]
"""A value of each part, in the order of the parts."""

RAW: Final = {"cpu": "7910m", "memory": "31000000007"}
AMOUNTS: Final[Mapping[str, Mapping[str, str | None]]] = {
    "absent": {"cpu": None, "memory": None},
    "0": {"cpu": "0", "memory": "0"},
    "1": {"cpu": "1m", "memory": "1"},
    "raw": RAW,
    "applied": {"cpu": "11865m", "memory": "46500000010"},
    "asked": {"cpu": "11866m", "memory": "46500000011"},
    "other": {"cpu": "12k", "memory": "100Ti"},
    "uncounted": {"cpu": "10M", "memory": "7Ei"},
}
"""``applied`` is raw x 1.50; ``asked`` one more, which asks kubelet; no machine has ``uncounted``."""
FOLDED: Final = {"applied": "10865m", "asked": "10866m"}
"""Of allocatable cpu, while pods own 2 CPUs."""
RECORDS: Final[Mapping[str, tuple[str, str]]] = {
    "none": ("", ""),
    "right": ("raw", "applied"),
    "asked": ("raw", "asked"),
    "stale": ("1", "other"),
    "half": ("", "applied"),
    "unreadable": ("x", "applied"),
    "contradictory": ("applied", "raw"),
}
NAMED: Final = ("nothing", "raw", "other", "unreadable")
RATIOS: Final = ("absent", "1.00", "1.50", '"1.5"', "all unreadable")
WRITERS: Final = {"kubelet": "system:node:n1", "other kubelet": "system:node:n2", "manager": "manager"}
GENERATIONS: Final[Mapping[str, tuple[str | None, str | None]]] = {
    "none": (None, None),
    "kept": ("7", "7"),
    "grown": ("7", "8"),
}
SETTINGS: Final = ("plain", "capacity as it is, 2 CPUs owned")

OF_AMOUNT: Final[Sequence[Sequence[str]]] = (tuple(AMOUNTS), tuple(AMOUNTS), tuple(RECORDS), NAMED)
OF_WRITE: Final[Sequence[Sequence[str]]] = (RATIOS, tuple(WRITERS), tuple(GENERATIONS), SETTINGS)
TURNS: Final = (1, 5, 11, 13)
"""How fast each amount goes through its cases: without a divisor in common with their number."""
SAMPLE: Final = 263
PARTS: Final = 32 if WHOLE else 1
EVERY: Final = 1 if WHOLE else SAMPLE
"""Every which case is tried: SAMPLE shares no divisor with the number of any part's values."""


def case_of(number: int, parts: Sequence[Sequence[str]]) -> Case:
    """Return one case of a product, by its number."""
    values = []
    for part in parts:
        number, place = divmod(number, len(part))
        values.append(part[place])
    return tuple(values)


def amount(cell: Cell, name: str, *, owned: bool) -> str | None:
    if owned and cell == ("allocatable", "cpu") and name in FOLDED:
        return FOLDED[name]
    return AMOUNTS[name][cell[1]]


def documents(of_write: Case, of_amounts: Mapping[Cell, Case]) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Return the object, the old object and the writer of a case."""
    ratio, writer, generation, setting = of_write
    owned = setting != "plain"
    notes: dict[str, str | None] = {names.AMPLIFY_CAPACITY: "false", names.OWNED_MILLI_CPU: "2000"}
    notes = notes if owned else {}
    new, old = node(0), node(1)
    for cell, (stated, stored, record, _) in of_amounts.items():
        field, resource = cell
        for document, name in ((new, stated), (old, stored)):
            if (text := amount(cell, name, owned=owned)) is not None:
                document["status"].setdefault(field, {})[resource] = text
        for note, name in zip(
            (names.recorded_raw(*cell), names.recorded_applied(*cell)), RECORDS[record], strict=True
        ):
            notes[note] = "x" if name == "x" else amount(cell, name, owned=owned) if name else None
    notes[names.AMPLIFICATION_RATIO] = ratio_text(ratio, of_amounts)
    for field, name in RAW_ANNOTATIONS.items():
        notes[name] = named_text({cell[1]: case[3] for cell, case in of_amounts.items() if cell[0] == field})
    before, after = GENERATIONS[generation]
    for document, each in ((old, before), (new, after)):
        present = {name: text for name, text in notes.items() if text is not None}
        document["metadata"]["annotations"] = present | ({names.RECORD_GENERATION: each} if each else {})
    return new, old, WRITERS[writer]


def node(age: int) -> dict[str, Any]:
    condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": f"2026-01-01T00:00:{20 - 10 * age}Z"}
    return {"metadata": {"name": "n1"}, "status": {"conditions": [condition]}}


def ratio_text(ratio: str, of_amounts: Mapping[Cell, Case]) -> str | None:
    """Return the annotation: the ratio for each resource of the write, or for cpu and another for memory."""
    if ratio == RATIOS[-1]:
        return "{"
    turn = sum(OF_AMOUNT[0].index(case[0]) for case in of_amounts.values())
    ratios = {"cpu": ratio, "memory": RATIOS[(RATIOS.index(ratio) + turn) % (len(RATIOS) - 1)]}
    entries = [f'"{name}":{each}' for name, each in ratios.items() if each != "absent"]
    return "{" + ",".join(entries) + "}" if entries else None


def named_text(named: Mapping[str, str]) -> str | None:
    entries = [
        f'"{resource}":"{"x" if name == "unreadable" else AMOUNTS[name][resource]}"'
        for resource, name in named.items()
        if name != "nothing"
    ]
    return "{" + ",".join(entries) + "}" if entries else None


def check(of_write: Case, of_amounts: Mapping[Cell, Case]) -> None:
    """Put one case to both; what they store is the same, and behind the policy the webhook does nothing."""
    new, old, user = documents(of_write, of_amounts)
    patch = policy_patch(both_rules.policy(), new, old, user)
    by_policy = json_patch(copy.deepcopy(new), patch)
    by_webhook = json_patch(copy.deepcopy(new), webhook(new, old, user))
    assert canonical(by_policy) == canonical(by_webhook), (of_write, of_amounts)
    assert not patch or webhook(canonical(by_policy, as_stored=True), old, user) == [], (of_write, of_amounts)


def single_amounts(
    part: int, parts: int = PARTS, every: int = EVERY
) -> Iterator[tuple[Case, dict[Cell, Case]]]:
    """Yield cases of single amounts: each of the four in another case of its own."""
    of_amount, of_write = prod(map(len, OF_AMOUNT)), prod(map(len, OF_WRITE))
    for number in range(part * every, of_amount * of_write, parts * every):
        own, shared = number % of_amount, number // of_amount
        cases = {
            cell: case_of(own * turn % of_amount, OF_AMOUNT) for cell, turn in zip(CELLS, TURNS, strict=True)
        }
        yield case_of(shared, OF_WRITE), cases


@pytest.mark.parametrize("part", range(PARTS))
def test_policy_and_webhook_decide_every_amount_alike(part: int) -> None:
    watch, writes = Stopwatch("amplification: one amount, policy and webhook"), 0
    for of_write, of_amounts in single_amounts(part):
        check(of_write, of_amounts)
        writes += 1
    watch.report(writes=writes, cases=len(CELLS) * writes)


def test_tried_cases_have_every_pair_of_values() -> None:
    parts = [*OF_WRITE, *OF_AMOUNT]
    met: dict[Cell, set[tuple[int, int, str, str]]] = {cell: set() for cell in CELLS}
    for of_write, of_amounts in single_amounts(0, 1, SAMPLE):
        for cell, own in of_amounts.items():
            values = [*of_write, *own]
            met[cell] |= {(i, j, values[i], values[j]) for i, j in combinations(range(len(values)), 2)}
    wanted = {
        (i, j, one, other)
        for i, j in combinations(range(len(parts)), 2)
        for one, other in product(parts[i], parts[j])
    }
    assert all(each == wanted for each in met.values())


OF_CAPACITY: Final = (("raw", "applied", "other"), ("raw", "applied", "other"), ("none", "right", "stale"))
OF_ALLOCATABLE: Final = (
    ("raw", "applied", "asked", "other"),
    ("raw", "applied", "asked", "other"),
    ("none", "right", "asked", "stale"),
)
OF_BOTH: Final = (*OF_CAPACITY, *OF_ALLOCATABLE)


def asked_amounts(
    part: int, parts: int = PARTS, every: int = EVERY
) -> Iterator[tuple[Case, dict[Cell, Case]]]:
    """Yield cases of capacity and allocatable of one resource: of cpu, and others of memory."""
    both = prod(map(len, OF_BOTH))
    shared = [*product(("1.50",), WRITERS, GENERATIONS, SETTINGS)]
    for number in range(part * every, both * len(shared), parts * every):
        of_amounts = {}
        for resource, turn in (("cpu", 1), ("memory", 5)):
            case = case_of(number % both * turn % both, OF_BOTH)
            of_amounts["capacity", resource] = (*case[:3], "nothing")
            of_amounts["allocatable", resource] = (*case[3:], "nothing")
        yield shared[number // both], {cell: of_amounts[cell] for cell in CELLS}


@pytest.mark.parametrize("part", range(PARTS))
def test_policy_and_webhook_ask_kubelet_alike(part: int) -> None:
    watch, writes = Stopwatch("amplification: capacity with allocatable, policy and webhook"), 0
    for case in asked_amounts(part):
        check(*case)
        writes += 1
    watch.report(writes=writes, cases=2 * writes)
