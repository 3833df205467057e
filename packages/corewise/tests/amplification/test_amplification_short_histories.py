"""Every short history of a node: nothing is ever amplified twice, and all ends as ratio and machine say.

Histories are enumerated by the states they lead to: two that lead to the same state have the same future.
COREWISE_HISTORY_LENGTH=N goes further than the default.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Final, TypeAlias

import pytest

from amplification import node_model
from amplification.node_model import (
    MACHINE,
    PATIENT,
    World,
    agent_reports,
    annotate,
    check,
    come_to_rest,
    folded,
    kubelet_reads,
    kubelet_writes,
    machine_becomes,
    manager_passes,
    other_writes,
    scheduler_binds,
    write_status,
)
from corewise.amplification.annotations import RECORD
from corewise.quantities import Ratio
from corewise.vocabulary import names

Event: TypeAlias = Callable[[World], World]


@pytest.fixture(autouse=True)
def rules_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask webhook and manager once about the same node and write, in whatever histories it occurs."""
    for rule in ("admitted", "assessed"):
        monkeypatch.setattr(node_model, rule, cache(getattr(node_model, rule)))


def sets(**changes: str | None) -> Event:
    """Return the event that annotations are set; None removes. Names are those of ``names``."""
    return lambda world: annotate(world, {getattr(names, name): text for name, text in changes.items()})


def damages(name: str) -> Event:
    return lambda world: annotate(world, {name: "{"}) if name in world.notes else world


EVENTS: Final[dict[str, Event]] = {
    "ratio 2.00": sets(AMPLIFICATION_RATIO='{"cpu":2.00}'),
    "ratio 1.37": sets(AMPLIFICATION_RATIO='{"cpu":1.37}'),
    "no ratio": sets(AMPLIFICATION_RATIO=None),
    "bad ratio": sets(AMPLIFICATION_RATIO='{"cpu":0.99'),
    "kubelet": kubelet_writes,
    "stale kubelet": lambda w: kubelet_writes(w, fresh=False),
    "kubelet reads": kubelet_reads,
    "touch": lambda w: write_status(w, w.status),
    "stale writer": lambda w: other_writes(w, w.past[-1] if w.past else w.status),
    "machine doubles": lambda w: machine_becomes(w, tuple(2 * amount for amount in MACHINE)),
    "machine is back": lambda w: machine_becomes(w, MACHINE),
    "outage": lambda w: replace(w, webhook=False),
    "webhook is back": lambda w: replace(w, webhook=True),
    "record damaged": damages(names.recorded_raw("allocatable", "cpu")),
    "record removed": lambda w: annotate(w, dict.fromkeys(RECORD)),
    "two CPUs owned": lambda w: scheduler_binds(w, 2000),
    "raw damaged": damages(names.RAW_ALLOCATABLE),
    "raw removed": sets(RAW_CAPACITY=None, RAW_ALLOCATABLE=None),
    "agent": agent_reports,
    "manager": lambda w: manager_passes(w, seconds=0, old_record=False),
    "manager, old record": lambda w: manager_passes(w, seconds=0),
    "patient manager": lambda w: manager_passes(w, seconds=PATIENT),
}
LENGTH: Final = int(os.environ.get("COREWISE_HISTORY_LENGTH", "4"))
AMPLIFIED: Final = manager_passes(annotate(World(), {names.AMPLIFICATION_RATIO: '{"cpu":2.00}'}))
ALLOCATABLE_ONLY: Final = manager_passes(
    annotate(World(amplify_capacity=False), {names.AMPLIFICATION_RATIO: '{"cpu":2.00}'})
)
OF_KUBELET: Final = {
    name: EVENTS[name]
    for name in ("kubelet", "stale kubelet", "kubelet reads", "touch", "two CPUs owned", "machine doubles")
}


def reachable(start: World, length: int, events: dict[str, Event] = EVENTS) -> dict[World, tuple[str, ...]]:
    """Return every state that a history of at most this length leads to, with the first such history."""
    found: dict[World, tuple[str, ...]] = {start: ()}
    frontier = [start]
    for _ in range(length):
        grown: list[World] = []
        for world in frontier:
            for name, event in events.items():
                after = event(world)
                if after not in found:
                    found[after] = (*found[world], name)
                    grown.append(after)
        frontier = grown
    return found


@pytest.mark.parametrize("agent", [False, True], ids=["without agent", "with agent"])
@pytest.mark.parametrize(
    ("start", "length"),
    [
        (World(), LENGTH),
        (agent_reports(World()), LENGTH),
        (AMPLIFIED, LENGTH),
        (ALLOCATABLE_ONLY, LENGTH - 1),
    ],
    ids=["from raw", "from raw and reported", "from amplified", "from amplified allocatable"],
)
def test_short_histories_never_amplify_twice_and_end_exactly(start: World, length: int, agent: bool) -> None:
    for world, history in reachable(start, length).items():
        try:
            check(world)
            come_to_rest(world, agent=agent)
        except AssertionError as error:
            pytest.fail(f"after {' > '.join(history) or 'nothing'}: {error}\n{world}")


def test_machine_grown_to_amplified_allocatable_shows_by_capacity() -> None:
    for world, history in reachable(ALLOCATABLE_ONLY, LENGTH + 2, OF_KUBELET).items():
        after = come_to_rest(world, agent=False)
        expected = (
            *world.machine[:2],
            folded(2, world.machine[2], Ratio(200), world.owned),
            world.machine[3],
        )
        assert after.status == expected, " > ".join(history)
