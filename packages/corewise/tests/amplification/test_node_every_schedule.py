"""Every history of a node's writers with up to two faults: nothing is amplified twice, all ends exactly.

The node, its writers and the promises are those of :mod:`amplification.node_model`. The histories are longer
than those of :mod:`amplification.test_amplification_short_histories`, and have fewer events: kubelet,
manager, agent and scheduler do their work in any order, and at most two faults strike. A manager that has
read an old node writes nothing, because its write names the version that it read; one that dies forgets that
it has just written the ratio. The agent reports in any order too; in the end a node comes
to rest by what the agent reports, or without an agent.

``make explore EXHAUSTIVE=1`` tries all; ``make test`` tries whether errors in the rule are found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import pytest

from amplification.node_model import World, check, come_to_rest
from amplification.test_amplification_short_histories import AMPLIFIED, EVENTS, Event
from corewise.amplification import repair, status
from every_case import WHOLE, Stopwatch
from mutants import Mutant

LENGTH: Final = 7
FAULTS: Final = 2
WORK: Final = (
    *("ratio 2.00", "no ratio", "kubelet", "kubelet reads", "touch", "two CPUs owned", "agent"),
    *("manager", "manager, old record", "patient manager"),
)
STRIKES: Final[Mapping[str, Event]] = {
    "the manager dies": lambda world: replace(world, ratio_written=False),
    **{
        name: EVENTS[name]
        for name in (
            *("stale kubelet", "stale writer", "outage", "webhook is back", "bad ratio", "machine doubles"),
            *("record damaged", "record removed", "raw removed"),
        )
    },
}
STARTS: Final = {"raw": World(), "amplified": AMPLIFIED}
REST: Final = pytest.mark.parametrize("agent", [False, True], ids=["without agent", "with agent"])


def histories(
    start: World, length: int, faults: int, look_at: Callable[[World, tuple[str, ...]], None]
) -> tuple[int, int]:
    """Look at every state that such a history leads to; return how many, and how many events led there."""
    left: dict[World, int] = {start: faults}
    frontier: dict[World, tuple[str, ...]] = {start: ()}
    look_at(start, ())
    steps = 0
    for _ in range(length):
        grown: dict[World, tuple[str, ...]] = {}
        for world, history in frontier.items():
            budget = left[world]
            events = [(name, EVENTS[name], 0) for name in WORK]
            events += [(name, event, 1) for name, event in STRIKES.items() if budget]
            for name, event, price in events:
                after, steps = event(world), steps + 1
                if left.get(after, -1) >= budget - price:
                    continue
                if after not in left:
                    look_at(after, (*history, name))
                left[after] = budget - price
                grown[after] = (*history, name)
        frontier = grown
    return len(left), steps


@pytest.mark.skipif(not WHOLE, reason="takes minutes: make explore EXHAUSTIVE=1")
@REST
@pytest.mark.parametrize("begins", STARTS)
def test_no_history_amplifies_twice_or_for_long(begins: str, agent: bool) -> None:
    rest = "with" if agent else "without"
    watch = Stopwatch(f"node that begins {begins}, rests {rest} an agent, {FAULTS} faults, {LENGTH} events")

    def look_at(world: World, history: tuple[str, ...]) -> None:
        try:
            check(world)
            come_to_rest(world, agent=agent)
        except AssertionError as error:
            pytest.fail(f"after {' > '.join(history) or 'nothing'}: {error}\n{world}")

    states, steps = histories(STARTS[begins], LENGTH, FAULTS, look_at)
    watch.report(states=states, events=steps)


MUTANTS: Final = {
    "a repair keeps the record": Mutant(
        repair, "_repaired", "drop = (*_record(seen, repaired), *named)", "drop = ()"
    ),
    "kubelet's amount is never raw": Mutant(
        status, "decide_amount", "elif stated_anew or (recorded and write.by_kubelet):", "elif False:"
    ),
    "a write of the same amount is amplified again": Mutant(
        status,
        "decide_amount",
        "as_recorded = recorded and new == known.applied and (written_now or not stated_anew)",
        "as_recorded = False",
    ),
    "writes of others are taken for kubelet's": Mutant(
        status, "decide_amount", "stated_anew = write.by_kubelet and new != old", "stated_anew = new != old"
    ),
    "an amount back at ratio 1.00 keeps its record": Mutant(
        status, "decide_amount", "return Decided(raw, raw)", "return Decided(raw, raw, recorded=None)"
    ),
}


class Found(Exception):  # noqa: N818 - what was looked for
    """A history that breaks a promise."""


@pytest.mark.parametrize("name", MUTANTS if WHOLE else [*MUTANTS][:3])
def test_every_error_in_the_rule_is_found(name: str) -> None:
    watch = Stopwatch(f"mutant of the rule: {name}")
    tried = 0

    def look_at(world: World, history: tuple[str, ...]) -> None:
        nonlocal tried
        tried += 1
        try:
            check(world)
            come_to_rest(world, agent=False)
        except (AssertionError, KeyError) as error:
            raise Found(*history) from error

    with MUTANTS[name].at_work(), pytest.raises(Found) as found:
        histories(AMPLIFIED, 4, FAULTS, look_at)
    watch.report(found.value.args, states=tried)
